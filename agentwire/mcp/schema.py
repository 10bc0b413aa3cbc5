"""Argument schemas of foreign tools, made fit for every model service.

Model services check the schemas of all tools before they look at anything else, and refuse the whole request over
one that they do not like. What servers send is often nearly right: a root without a type, a union at the root, a
keyword of an older draft. :func:`usable_schema` mends what can be mended without changing which calls are right,
and says why where it cannot. A schema that needs nothing comes back equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

MAX_DEPTH = 32
"""Deeper nesting than this is refused by services (and by JSON parsers further on)."""

_ROOT_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of arguments that Anthropic accepts."""

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_TYPE_NAMES = {
    "str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number",
    "decimal": "number", "bool": "boolean", "dict": "object", "map": "object", "list": "array", "tuple": "array",
    "none": "null",
}  # fmt: skip
"""Type names of programming languages that servers let slip through."""

_COMBINATORS = ("anyOf", "oneOf", "allOf")
_NOT_AT_ROOT = frozenset({*_COMBINATORS, "not", "enum", "const", "$ref"})
"""What OpenAI refuses at the root of a schema (Anthropic: the combinators)."""


class SchemaError(ValueError):
    """A tool with this schema cannot be offered; the message says why, in a few words."""


def usable_schema(schema: object) -> Schema:
    """A schema for an object that OpenAI's and Anthropic's services accept; raises :class:`SchemaError`.

    The root always has ``type: object`` and ``properties`` and never a union; references resolve inside it.
    """
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise SchemaError("its schema is no JSON object")
    root = _clean(schema, MAX_DEPTH)
    assert isinstance(root, dict)  # noqa: S101 - a dict is cleaned to a dict
    root = _flat_root(root)
    root["type"] = "object"
    properties = root.setdefault("properties", {})
    for name in root.get("required", []):
        properties.setdefault(name, {})  # OpenAI wants to know what it is
    _drop_illegal_arguments(root)
    _cut_dangling_references(root, root)
    return root


# --- the root ------------------------------------------------------------------------------------------------------


def _allows_object(schema: Schema) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _flat_root(root: Schema) -> Schema:
    """The root with its unions merged into ``properties``: what any branch knows may be given."""
    flat = _merged(root, root, depth=5)
    if not _allows_object(flat):
        kind = flat["type"]
        raise SchemaError(f"its schema is for {kind if isinstance(kind, str) else ' or '.join(kind)}, not an object")
    return flat


def _merged(schema: object, root: Schema, depth: int) -> Schema:
    """A schema with its own references and unions, ``depth`` steps deep, merged into one."""
    if not isinstance(schema, dict) or not depth:
        return {}
    flat = {key: value for key, value in schema.items() if key not in _NOT_AT_ROOT}
    for key in ("$ref", *_COMBINATORS):
        if key not in schema:
            continue
        sources = [_resolve(root, schema[key])] if key == "$ref" else schema[key]
        branches = [_merged(one, root, depth - 1) for one in sources if one is not root]
        objects = [branch for branch in branches if _allows_object(branch)]
        _merge(flat, objects or branches, every=key in ("$ref", "allOf"))
    return flat


def _merge(into: Schema, branches: list[Schema], *, every: bool) -> None:
    """Add the branches' arguments; required is what all of them (``every``: any of them) require."""
    properties: dict[str, Any] = dict(into.get("properties", {}))
    additions: dict[str, list[Any]] = {}
    for branch in branches:
        for name, schema in branch.get("properties", {}).items():
            known = additions.setdefault(name, [])
            if name not in properties and schema not in known:
                known.append(schema)
    for name, schemas in additions.items():
        if schemas:
            properties[name] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    required = [set(branch.get("required", [])) for branch in branches]
    shared = set[str]().union(*required) if every or not required else set[str].intersection(*required)
    names = shared | set(into.get("required", []))
    into["properties"] = properties
    if names:
        into["required"] = [name for name in properties if name in names] + sorted(names - properties.keys())
    if additions and into.get("additionalProperties") is False:
        del into["additionalProperties"]  # a closed root would refuse what the branches allow
    for branch in branches[:1]:
        into.setdefault("type", branch.get("type", "object"))


def _drop_illegal_arguments(root: Schema) -> None:
    required = root.get("required", [])
    for name in [name for name in root["properties"] if not _ROOT_KEY.fullmatch(name)]:
        if name in required:
            raise SchemaError(f"its required argument {name[:80]!r} has a name that model services refuse")
        del root["properties"][name]


# --- every level -----------------------------------------------------------------------------------------------------


def _clean(schema: object, depth: int) -> Schema | bool:
    """A schema of the 2020-12 draft: keywords with values of a wrong kind are left out, older ones brought forward."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        return {}
    if depth == 0:
        raise SchemaError(f"its schema is nested more than {MAX_DEPTH} levels deep")
    clean: Schema = {}
    for key, value in _modern(schema).items():
        fit = _KEYWORDS.get(key)
        if fit is None:
            clean[key] = value
            continue
        fitted = fit(value, depth - 1)
        if fitted is not None:
            clean[key] = fitted
    if clean.get("type") == "array" and "items" not in clean and "prefixItems" not in clean:
        clean["items"] = {}  # OpenAI refuses an array without
    return clean


def _modern(schema: Schema) -> Schema:
    """The keywords of drafts 3 to 7 that changed their meaning, in today's words."""
    changed: Schema = {}
    items = schema.get("items")
    if isinstance(items, list):
        changed["items"] = {"anyOf": items} if items else {}
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            changed[exclusive] = schema.get(bound) if flag else None
            if flag:
                changed[bound] = None
    return {**schema, **changed} if changed else schema


def _type(value: object, depth: int) -> object:
    if isinstance(value, list):
        names = [_type(one, depth) for one in value if isinstance(one, str)]
        return list(dict.fromkeys(name for name in names if name is not None)) or None
    if not isinstance(value, str):
        return None
    return value if value in _TYPES else _TYPE_NAMES.get(value.lower())


def _schema(value: object, depth: int) -> object:
    return _clean(value, depth)


def _object_schema(value: object, depth: int) -> object:
    """As :func:`_schema`; ``true`` and ``false`` are right too, but not every service knows them here."""
    clean = _clean(value, depth)
    return clean if isinstance(clean, dict) else {} if clean else {"not": {}}


def _schemas(value: object, depth: int) -> object:
    if not isinstance(value, list):
        return None
    return [_clean(one, depth) for one in value if isinstance(one, dict | bool)] or None


def _named_schemas(value: object, depth: int) -> object:
    if not isinstance(value, dict):
        return {}
    return {name: _object_schema(one, depth) for name, one in value.items()}


def _patterned_schemas(value: object, depth: int) -> object:
    named = value if isinstance(value, dict) else {}
    return {name: _clean(one, depth) for name, one in named.items() if _pattern(name, depth) is not None} or None


def _definitions(value: object, depth: int) -> object:
    return _named_schemas(value, depth) or None


def _names(value: object, depth: int) -> object:
    if not isinstance(value, list):
        return None
    return list(dict.fromkeys(one for one in value if isinstance(one, str)))


def _name_lists(value: object, depth: int) -> object:
    if not isinstance(value, dict):
        return None
    return {name: _names(one, depth) for name, one in value.items() if isinstance(one, list)}


def _values(value: object, depth: int) -> object:
    if not isinstance(value, list) or not value:
        return None
    unique: list[Any] = []
    for one in value:
        if not any(one == other and type(one) is type(other) for other in unique):
            unique.append(one)
    return unique


def _of(*kinds: type) -> Callable[[object, int], object]:
    def fit(value: object, depth: int) -> object:
        right = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        return value if right else None

    return fit


def _count(value: object, depth: int) -> object:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _positive(value: object, depth: int) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _pattern(value: object, depth: int) -> object:
    if not isinstance(value, str):
        return None
    try:
        re.compile(value)
    except re.error:
        return None
    return value


_text, _flag, _number = _of(str), _of(bool), _of(int, float)

_KEYWORDS: Mapping[str, Callable[[object, int], object]] = {
    "type": _type, "enum": _values, "required": _names, "dependentRequired": _name_lists,
    "properties": _named_schemas, "patternProperties": _patterned_schemas, "dependentSchemas": _named_schemas,
    "$defs": _definitions, "definitions": _definitions,
    "items": _object_schema, "additionalProperties": _schema,
    "unevaluatedProperties": _schema, "unevaluatedItems": _schema,
    "contains": _schema, "propertyNames": _schema, "not": _schema, "if": _schema, "then": _schema, "else": _schema,
    "contentSchema": _schema,
    "anyOf": _schemas, "oneOf": _schemas, "allOf": _schemas, "prefixItems": _schemas,
    "minLength": _count, "maxLength": _count, "minItems": _count, "maxItems": _count, "minProperties": _count,
    "maxProperties": _count, "minContains": _count, "maxContains": _count,
    "minimum": _number, "maximum": _number, "exclusiveMinimum": _number, "exclusiveMaximum": _number,
    "multipleOf": _positive, "pattern": _pattern, "uniqueItems": _flag, "deprecated": _flag, "readOnly": _flag,
    "writeOnly": _flag, "title": _text, "description": _text, "format": _text, "$comment": _text, "$ref": _text,
    "$schema": _text, "contentEncoding": _text, "contentMediaType": _text, "examples": _of(list),
}  # fmt: skip
"""What each keyword's value must be: the value as it may stay, or None to leave the keyword out."""


# --- references ------------------------------------------------------------------------------------------------------


def _cut_dangling_references(schema: object, root: Schema) -> None:
    """A reference to another document, or to nothing, becomes "anything"."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str) and _resolve(root, reference) is None:
            del schema["$ref"]
        for inner in _inner_schemas(schema):
            _cut_dangling_references(inner, root)


def _inner_schemas(schema: Schema) -> Iterator[object]:
    for key, value in schema.items():
        fit = _KEYWORDS.get(key)
        if fit in (_schema, _object_schema):
            yield value
        elif fit is _schemas:
            yield from value
        elif fit in (_named_schemas, _patterned_schemas, _definitions):
            yield from value.values()


def _resolve(root: Schema, reference: str) -> object:
    """What a reference inside the document points at, None if nothing."""
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None  # an anchor: never needed by what tools are written with
    node: object = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node if isinstance(node, dict | bool) else None
