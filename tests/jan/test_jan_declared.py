"""What the codec says of itself: policy, schemas, limits; and that saying it costs nothing at start."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from janlines import published
from jsonschema import Draft202012Validator

from agentwire.codec import Policy
from agentwire_jan import codec, rpc, wire
from agentwire_jan.declarations import BUILTINS

FORK_ONLY = {"session/compact", "resumeSessionId", "autoApprove"}
NOT_OURS = {"ask_request", "ask_resolved", "todo_update", "monitors", "subagent_plan"}
"""Events of things that we do not have; a host side passes them on as they are."""


def test_the_codec() -> None:
    assert (codec.name, codec.sessions, codec.feeds, codec.greets) == ("jan", "many", "session", False)
    assert codec.max_line == rpc.MAX_LINE == 16 * 1024 * 1024 - 1
    assert codec.agent() is not codec.agent()
    assert codec.host() is not codec.host()


def test_the_policy() -> None:
    names = codec.policy.tool_names
    assert codec.policy == Policy(
        name="jan", calls="reads_together", free=frozenset({"info"}), always_covers="tool", busy_scope="process",
        on_eof="cancel", shows_subagents=True, tool_names=names, delegates=True,
    )  # fmt: skip
    assert tuple(name for name in names.values() if name) == BUILTINS
    assert names["Spawn"] == names["ViewImage"] == ""


# --- schemas -------------------------------------------------------------------------------------------------


def test_ours_are_schemas() -> None:
    assert codec.schemas is not None
    schemas = codec.schemas()
    assert list(schemas) == ["jan.events.json", "jan.commands.json"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    titles = [entry["title"] for entry in schemas["jan.events.json"]["anyOf"]]
    assert titles == [*(f"item/{tag}" for tag in wire.ITEMS), "turn/completed", "answer", "error"]
    assert [entry["title"] for entry in schemas["jan.commands.json"]["anyOf"]] == [*rpc.METHODS, "initialized"]


def events(name: str = "rpc-schema.json") -> dict[str, dict[str, Any]]:
    """Jan's own schema of each event, by tag."""
    return {entry["properties"]["type"]["const"]: entry for entry in published(name)["events"]["oneOf"]}


def ours(kind: Any) -> dict[str, Any]:
    import msgspec

    (top,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    return parts[top["$ref"]]


def types(schema: dict[str, Any]) -> set[str]:
    """The JSON types that a field may have; empty if any."""
    if "anyOf" in schema:
        return set().union(*(types(option) for option in schema["anyOf"]))
    if "$ref" in schema:
        return {"string"} if schema["$ref"].endswith(("CompactionPhase", "CompactionReason")) else {"object"}
    found = schema.get("type", [])
    return {found} if isinstance(found, str) else set(found)


def test_every_event_of_jan_is_one_of_ours_or_known_not_to_be() -> None:
    newer = set(events("fork-rpc-schema.json"))
    assert newer - set(events()) == {"retry"}
    assert newer - set(wire.ITEMS) == NOT_OURS
    assert set(wire.ITEMS) <= newer


@pytest.mark.parametrize("tag", wire.ITEMS)
def test_an_event_has_jan_s_fields(tag: str) -> None:
    """The same keys and types; what Jan demands is always there."""
    theirs = (events() if tag != "retry" else events("fork-rpc-schema.json"))[tag]
    mine = ours(wire.ITEMS[tag])
    left_out = {"execution_id"}  # what we have nothing to say of
    assert set(mine["properties"]) == set(theirs["properties"]) - left_out
    for name, schema in theirs["properties"].items():
        if name in mine["properties"] and name != "type" and types(mine["properties"][name]):
            found = types(mine["properties"][name]) - {"null"}
            wanted = (types(schema) if isinstance(schema, dict) else set()) - {"null"}
            assert found == wanted or not wanted, name
    always = {field.encode_name for field in _fields(wire.ITEMS[tag]) if not _may_be_left_out(field)}
    assert set(theirs["required"]) - {"type"} <= always


def _fields(kind: Any) -> Any:
    import msgspec

    return msgspec.structs.fields(kind)


def _may_be_left_out(field: Any) -> bool:
    import msgspec

    return field.default is msgspec.UNSET


@pytest.mark.parametrize("method", rpc.METHODS)
def test_a_request_has_jan_s_parameters(method: str) -> None:
    theirs = published()["requests"][method]
    if method == "session/list":
        assert theirs == {"type": "object", "properties": {}}
        return
    mine = ours(rpc.METHODS[method])
    assert set(mine["properties"]) == set(theirs["properties"])
    assert mine["required"] == theirs["required"]
    assert mine["additionalProperties"] is theirs["additionalProperties"] is False


def test_the_methods_are_jan_s() -> None:
    """But for what one fork added."""
    assert set(rpc.METHODS) == set(published()["requests"]) == set(rpc.RESULTS)
    forked = published("fork-rpc-schema.json")["requests"]
    assert set(forked) - set(rpc.METHODS) == FORK_ONLY & set(forked)
    start = set(forked["session/start"]["properties"]) - set(published()["requests"]["session/start"]["properties"])
    assert start == FORK_ONLY & start


# --- the start -----------------------------------------------------------------------------------------------


def test_serving_imports_only_its_own_half() -> None:
    """Neither the host side nor the fidelity table is needed to serve; nothing heavy is."""
    code = "import sys, json; from agentwire_jan import codec; codec.agent();print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert "agentwire_jan.agent_side" in loaded
    unwanted = {"trio", "httpx", "mcp", "asyncio", "rich", "pydantic", "agentwire.codec.fidelity"}
    unwanted |= {f"agentwire_jan.{name}" for name in ("host_side", "fidelity", "story", "following", "frames")}
    assert not loaded & unwanted
