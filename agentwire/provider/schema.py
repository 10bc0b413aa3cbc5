"""Tool schemas as services take them: an object at the root, and no alternatives there.

One schema that a service refuses makes it refuse the whole request, and with it every other tool.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


def acceptable(schema: Any) -> Schema:
    """``schema`` if it is acceptable, else the nearest one that is; the argument is not changed.

    A root that is no object becomes an object with free fields: the tool will say what it wanted. Alternatives at
    the root are joined: all their properties, and as required what all of them (for ``allOf``: any) require.
    """
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    if schema.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    if not any(key in schema for key in _ALTERNATIVES):
        if "type" in schema and "properties" in schema:
            return schema
        return {"type": "object", "properties": {}, **schema}
    return _joined(schema)


def _joined(schema: Schema) -> Schema:
    properties: Schema = dict(schema.get("properties") or {})
    required = list(schema.get("required") or [])
    for key in _ALTERNATIVES:
        branches = [_resolved(branch, schema) for branch in schema.get(key) or [] if isinstance(branch, dict)]
        for branch in branches:
            for name, property_schema in (branch.get("properties") or {}).items():
                properties.setdefault(name, property_schema)
        wanted = [set(branch.get("required") or []) for branch in branches]
        if wanted:
            names = set.union(*wanted) if key == "allOf" else set.intersection(*wanted)
            required += sorted(names.difference(required))
    rest = {key: value for key, value in schema.items() if key not in (*_ALTERNATIVES, "required")}
    joined = {**rest, "type": "object", "properties": properties}
    return {**joined, "required": required} if required else joined


def _resolved(branch: Schema, root: Schema) -> Schema:
    """``branch``, or what it refers to within ``root``."""
    seen: set[str] = set()
    while isinstance(reference := branch.get("$ref"), str) and reference.startswith("#/") and reference not in seen:
        seen.add(reference)
        target: Any = root
        for step in reference[2:].split("/"):
            target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            break
        branch = target
    return branch
