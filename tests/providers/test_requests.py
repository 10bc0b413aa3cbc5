"""Request bodies: whatever the history, a strict service takes them; and each field stands where it belongs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conversing import ask
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from support.strict_requests import anthropic_faults, openai_faults

from agentwire.events import CallRef, File, Image, Text, ToolSpec
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import ModelRequest, load_images
from agentwire.provider.conversation import LOST_RESULT
from agentwire_anthropic.quirks import AnthropicQuirks
from agentwire_anthropic.request import build as build_anthropic
from agentwire_openai.quirks import OpenAIQuirks
from agentwire_openai.request import build as build_openai

Json = dict[str, Any]


def openai(request: ModelRequest, field: str = "max_tokens", **options: Any) -> Json:
    body = build_openai(request, OpenAIQuirks(**options), field)
    assert b"\n" not in body
    decoded: Json = json.loads(body.decode("utf-8"))
    return decoded


def anthropic(request: ModelRequest, **options: Any) -> Json:
    body = build_anthropic(request, AnthropicQuirks(**options), model=request.model, stream=True)
    assert b"\n" not in body
    decoded: Json = json.loads(body.decode("utf-8"))
    return decoded


def user(text: str) -> UserMessage:
    return UserMessage([Text(text)])


def call(call_id: str = "c1", name: str = "Read", arguments: str = '{"a":1}') -> CallRef:
    return CallRef(call_id, name, arguments)


PNG = Image("image/png", "aGk=")
READ = ToolSpec("Read", "Reads", {"type": "object", "properties": {"a": {"type": "integer"}}})

# --- any history ---------------------------------------------------------------------------------------------

_TEXTS = st.sampled_from(["", " ", "hi", "\n", "nul \0", "half \ud83d", "你好", "{}"])
_IDS = st.sampled_from(["a", "b", "c", "a#2", "functions.Read:0", "", "x" * 80])
_ARGUMENTS = st.sampled_from(
    ["{}", '{"a":1}', "", "[1]", '{"a":', "null", "NaN", '{"a":"\\ud83d"}', '{"b":\n2}', '{"n":"\\u0000"}']
)
_CALLS = st.lists(
    st.builds(CallRef, _IDS, st.sampled_from(["Read", "", "no.such tool", "a/b", "ü", "x" * 200]), _ARGUMENTS),
    max_size=3,
    unique_by=lambda ref: ref.call_id,
)
_ITEMS = st.sampled_from(
    [
        [],
        [Raw(b'{"type":"thinking","thinking":" t\\n","signature":"s"}'), Raw(b'{"type":"text","text":" "}')],
        [
            Raw(b'{"type":"redacted_thinking","data":"d"}'),
            Raw(b'{"type":"tool_use","id":"z","name":"Read","input":{}}'),
        ],
    ]
)
_IMAGES = st.lists(st.just(PNG), max_size=1)
_MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        UserMessage, st.lists(st.builds(Text, _TEXTS) | st.just(PNG) | st.builds(File, st.just("/a")), max_size=3)
    ),
    st.builds(AssistantMessage, _TEXTS, _TEXTS, _CALLS, st.just("")),
    st.builds(AssistantMessage, _TEXTS, _TEXTS, _CALLS, st.just("anthropic"), _ITEMS),
    st.builds(ToolMessage, _IDS, st.just("Read"), _TEXTS, st.booleans(), _IMAGES),
)
_REQUESTS = st.builds(
    ModelRequest,
    model=st.just("m"),
    messages=st.lists(_MESSAGES, max_size=8).map(lambda messages: [*messages, user("go on")]),
    system=_TEXTS,
    tools=st.sampled_from([[], [READ]]),
    max_tokens=st.sampled_from([msgspec.UNSET, 100, 50_000]),
    thinking=st.sampled_from(["", "enabled", "disabled"]),
    thinking_budget=st.sampled_from([1, 10_000]),
    effort=st.sampled_from(["", "low"]),
)


def without_system(body: Json) -> Json:
    return {**body, "messages": [message for message in body["messages"] if message["role"] != "system"]}


@settings(max_examples=48, deadline=None)
@given(_REQUESTS, st.booleans())
def test_any_history_is_taken_by_a_strict_chat_service(request: ModelRequest, merge: bool) -> None:
    assert openai_faults(openai(request, merge_messages=merge)) == []


@settings(max_examples=48, deadline=None)
@given(_REQUESTS)
def test_any_history_is_taken_by_a_strict_messages_service(request: ModelRequest) -> None:
    body = anthropic(request)
    assert anthropic_faults(body) == []
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


@settings(max_examples=40, deadline=None)
@given(_REQUESTS)
def test_building_changes_nothing(request: ModelRequest) -> None:
    before = repr(request)
    openai(request)
    anthropic(request)
    assert repr(request) == before


# --- Chat Completions ----------------------------------------------------------------------------------------


def test_openai_conversation() -> None:
    history: list[Message] = [
        user("one"),
        AssistantMessage("looking", calls=[call("c1"), call("c2", arguments='{"b":')]),
        ToolMessage("c1", "Read", "first"),
        ToolMessage("c2", "Read", "second", is_error=True),
        AssistantMessage("two"),
        user("three"),
    ]
    body = openai(ask(*history, system="be good", tools=[READ], max_tokens=5, effort="low", thinking="enabled"))
    function = {"name": "Read", "description": "Reads", "parameters": READ.parameters}
    assert body == {
        "model": "test-model",
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "one"},
            {
                "role": "assistant",
                "content": "looking",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"a":1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "first"},
            {"role": "tool", "tool_call_id": "c2", "content": "second"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "three"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "tools": [{"type": "function", "function": function}],
        "reasoning_effort": "low",
        "thinking": {"type": "enabled"},
    }


def test_openai_says_nothing_that_was_not_asked_for() -> None:
    assert openai(ask(), stream_usage=False) == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
    }


def test_openai_options() -> None:
    body = openai(
        ask(system="s", thinking="disabled"),
        "max_completion_tokens",
        max_tokens=9,
        system_role="developer",
        extra_body={"temperature": 0, "stream_options": None},
    )
    assert body["max_completion_tokens"] == 9
    assert body["messages"][0]["role"] == "developer"
    assert (body["temperature"], body["stream_options"]) == (0, None)
    assert body["thinking"] == {"type": "disabled"}


def test_openai_images() -> None:
    history: list[Message] = [
        UserMessage([Text("look"), PNG]),
        AssistantMessage(calls=[call("c1"), call("c2")]),
        ToolMessage("c1", "Shot", "one", images=[PNG]),
        ToolMessage("c2", "Shot", "two"),
    ]
    asked, _, first, second, shown = openai(ask(*history))["messages"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert asked["content"] == [{"type": "text", "text": "look"}, image]
    assert [first["role"], second["role"], shown["role"]] == ["tool", "tool", "user"]
    assert shown["content"] == [{"type": "text", "text": "Images from the result of Shot:"}, image]


def test_openai_merging() -> None:
    history: list[Message] = [user("a"), user("b"), AssistantMessage("c"), user("d")]
    contents = [message["content"] for message in openai(ask(*history), merge_messages=True)["messages"]]
    assert contents == ["a\nb", "c", "d"]


# --- Messages ------------------------------------------------------------------------------------------------


def test_anthropic_conversation() -> None:
    history: list[Message] = [
        user("one"),
        AssistantMessage("looking", "unsigned thoughts", calls=[call("c1"), call("c2", arguments="[]")]),
        ToolMessage("c1", "Read", "first", images=[PNG]),
        ToolMessage("c2", "Read", "", is_error=True),
        user("and also"),
    ]
    request = ask(*history, system="be good", tools=[READ], max_tokens=5, effort="low")
    assert anthropic(request, prompt_caching=False) == {
        "model": "test-model",
        "max_tokens": 5,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "one"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "looking"},
                    {"type": "tool_use", "id": "c1", "name": "Read", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "Read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "first"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "c2", "content": [], "is_error": True},
                    {"type": "text", "text": "and also"},
                ],
            },
        ],
        "stream": True,
        "system": [{"type": "text", "text": "be good"}],
        "tools": [{"name": "Read", "description": "Reads", "input_schema": READ.parameters}],
    }


def marked(body: Json) -> list[str]:
    places = [*(("tools", block) for block in body.get("tools", [])), *(("system", b) for b in body.get("system", []))]
    for number, message in enumerate(body["messages"]):
        places += [(f"{number}:{position}", block) for position, block in enumerate(message["content"])]
    return [place for place, block in places if block.get("cache_control") == {"type": "ephemeral"}]


def test_anthropic_caching() -> None:
    history: list[Message] = [
        user("a"),
        AssistantMessage("b"),
        user("c"),
        AssistantMessage("d"),
        UserMessage([Text("e"), Text("f")]),
    ]
    assert marked(anthropic(ask(*history, system="s", tools=[READ]))) == ["tools", "system", "2:0", "4:1"]
    assert marked(anthropic(ask(*history, system="s", tools=[READ]), prompt_caching=False)) == []
    assert marked(anthropic(ask())) == ["0:0"]


def kept(text: str, lifetime: str = "") -> Text:
    """A text that the host marked."""
    mark = {"type": "ephemeral", "ttl": lifetime} if lifetime else {"type": "ephemeral"}
    return Text(text, {"cache_control": mark, "other": 1})


def marks(body: Json) -> list[tuple[str, str]]:
    """Every mark of a conversation: what is marked, and for how long."""
    found = []
    for message in body["messages"]:
        for block in message["content"]:
            for inner in [*(block["content"] if block["type"] == "tool_result" else ()), block]:
                if "cache_control" in inner:
                    assert inner["cache_control"].keys() <= {"type", "ttl"}
                    named = inner.get("text") or inner.get("tool_use_id") or "image"
                    found.append((named, inner["cache_control"].get("ttl", "")))
    return found


def test_anthropic_heeds_the_marks_of_a_host() -> None:
    image = Image("image/png", "aGk=", extra={"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    history: list[Message] = [
        UserMessage([kept("a", "1h"), Text("b")]),
        AssistantMessage("said"),
        UserMessage([kept("c", "1h"), kept("d"), Text("e")]),
        AssistantMessage(calls=[call()]),
        ToolMessage("c1", "Read", "r", images=[image]),
        UserMessage([Text("f")]),
    ]
    body = anthropic(ask(*history, system="s", tools=[READ]))
    # Four in all, and none lasts longer than one before it.
    assert marks(body) == [("d", ""), ("e", ""), ("image", ""), ("f", "")]
    assert "cache_control" not in body["tools"][-1] | body["system"][-1]
    body = anthropic(ask(*history[:3], system="s", tools=[READ]))
    assert marks(body) == [("b", ""), ("c", ""), ("d", ""), ("e", "")]
    body = anthropic(ask(UserMessage([kept("a", "1h"), Text("b")]), system="s"))
    assert marks(body) == [("a", "1h"), ("b", "")]
    assert marks(anthropic(ask(UserMessage([Text("x"), kept("a", "1h")])))) == [("a", "1h")]


@pytest.mark.parametrize(
    "mark", [None, "ephemeral", {}, {"type": "persistent"}, {"type": "ephemeral", "ttl": "1d"}, []]
)
def test_anthropic_is_told_no_mark_that_it_does_not_know(mark: Any) -> None:
    body = anthropic(ask(UserMessage([Text("a", {"cache_control": mark}), Text("b")]), system="s"))
    known = isinstance(mark, dict) and mark.get("type") == "ephemeral"
    assert marks(body) == ([("a", "")] if known else []) + [("b", "")]


def test_where_nothing_is_to_be_cached_no_mark_is_sent() -> None:
    marked_by_host = UserMessage([kept("a"), kept("b", "1h")])
    assert marks(anthropic(ask(marked_by_host), prompt_caching=False)) == []
    body = openai(ask(UserMessage([kept("a"), PNG])))
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("extra", "detail"),
    [
        ({"image_url": {"detail": "high"}}, "high"),
        ({"image_url": {"detail": "low"}, "cache_control": {"type": "ephemeral"}}, "low"),
        ({"image_url": {"detail": "huge"}}, ""),
        ({"image_url": {"detail": ["high"]}}, ""),
        ({"image_url": "high"}, ""),
        ({"detail": "high"}, ""),
    ],
)
def test_openai_is_told_how_closely_to_look(extra: Json, detail: str) -> None:
    looked_at = Image("image/png", "aGk=", extra=extra)
    (message,) = openai(ask(UserMessage([looked_at])))["messages"]
    told = {"detail": detail} if detail else {}
    assert message["content"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", **told}}]
    result = ToolMessage("c1", "Read", "r", images=[looked_at])
    (*_, seen) = openai(ask(user("a"), AssistantMessage(calls=[call()]), result))["messages"]
    assert seen["content"][-1] == message["content"][0]


def test_what_a_part_said_stays_where_a_file_is_attached() -> None:
    body = anthropic(ask(UserMessage([kept("a", "1h"), File("/w/x")])))
    assert marks(body) == [("a\n\n[Attached files]\n/w/x", "1h")]


@pytest.mark.parametrize(
    ("fields", "max_tokens", "budget"),
    [
        ({}, 8192, None),
        ({"max_tokens": 100}, 100, None),
        ({"thinking": "disabled"}, 8192, None),
        ({"thinking": "enabled"}, 18_192, 10_000),
        ({"thinking": "enabled", "max_tokens": 4096}, 14_096, 10_000),
        ({"thinking": "enabled", "max_tokens": 20_000}, 20_000, 10_000),
        ({"thinking": "enabled", "thinking_budget": 5}, 9216, 1024),
    ],
)
def test_anthropic_thinking(fields: Json, max_tokens: int, budget: int | None) -> None:
    body = anthropic(ask(**fields))
    assert body["max_tokens"] == max_tokens
    assert body.get("thinking") == (None if budget is None else {"type": "enabled", "budget_tokens": budget})


def test_anthropic_does_not_begin_to_think_in_the_middle_of_its_calls() -> None:
    thought = Raw(b'{"type":"thinking","thinking":"t","signature":"s"}')
    use = Raw(b'{"type":"tool_use","id":"c1","name":"Read","input":{}}')
    result = ToolMessage("c1", "Read", "x")
    plain: list[Message] = [user("a"), AssistantMessage(calls=[call()]), result]
    signed: list[Message] = [
        user("a"),
        AssistantMessage(calls=[call()], provider="anthropic", items=[thought, use]),
        result,
    ]
    assert "thinking" not in anthropic(ask(*plain, thinking="enabled"))
    assert "thinking" in anthropic(ask(*signed, thinking="enabled"))
    assert "thinking" in anthropic(ask(*plain, AssistantMessage("b"), user("c"), thinking="enabled"))


def test_anthropic_keeps_thoughts_when_calls_were_left_out() -> None:
    items = [
        Raw(b'{"type":"thinking","thinking":"t","signature":"s"}'),
        Raw(b'{"type":"tool_use","id":"c1","name":"Read","input":{}}'),
        Raw(b'{"type":"tool_use","id":"c2","name":"Read","input":{}}'),
    ]
    message = AssistantMessage("said", "t", [call("c2")], "anthropic", items)
    blocks = anthropic(ask(user("a"), message, ToolMessage("c2", "Read", "x")))["messages"][1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    assert blocks[2]["id"] == "c2"


def test_anthropic_without_tools_but_with_calls_in_the_history() -> None:
    calls = [call("c1"), call("c2"), call("c3", "a b"), call("c4", "a/b")]
    body = anthropic(ask(user("a"), AssistantMessage(calls=calls), user("sum up")))
    assert anthropic_faults(body) == []
    assert [tool["name"] for tool in body["tools"]] == ["Read", "a_b"]
    assert body["tool_choice"] == {"type": "none"}


def test_anthropic_history_that_begins_with_the_model() -> None:
    roles = [message["role"] for message in anthropic(ask(AssistantMessage("a"), user("b")))["messages"]]
    assert roles == ["user", "assistant", "user"]


# --- both ----------------------------------------------------------------------------------------------------


def test_a_call_without_a_result() -> None:
    history: list[Message] = [
        user("a"),
        AssistantMessage(calls=[call("c1"), call("c2")]),
        ToolMessage("c2", "Read", "x"),
        user("b"),
    ]
    assert [m["content"] for m in openai(ask(*history))["messages"] if m["role"] == "tool"] == [LOST_RESULT, "x"]
    results = anthropic(ask(*history))["messages"][2]["content"]
    assert [block.get("is_error", False) for block in results] == [True, False, False]


def test_results_out_of_order_and_with_talk_between_them() -> None:
    calls = AssistantMessage(calls=[call("c1"), call("c2")])
    history: list[Message] = [
        user("a"),
        calls,
        ToolMessage("c2", "Read", "2"),
        user("b"),
        ToolMessage("c1", "Read", "1"),
    ]
    assert [m["content"] for m in openai(ask(*history))["messages"][2:]] == ["1", "2", "b"]
    ids = [block.get("tool_use_id") for block in anthropic(ask(*history))["messages"][2]["content"]]
    assert ids == ["c1", "c2", None]


def test_a_result_without_a_call_is_not_lost() -> None:
    history: list[Message] = [user("a"), ToolMessage("gone", "Read", "precious")]
    assert openai(ask(*history))["messages"][-1] == {"role": "user", "content": "[result of Read] precious"}
    assert anthropic(ask(*history))["messages"][-1]["content"][-1]["text"] == "[result of Read] precious"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([Text(" look "), File("/a.png"), File("/b.txt")], "look\n\n[Attached files]\n/a.png\n/b.txt"),
        ([File("/a.png")], "[Attached files]\n/a.png"),
        ([Text(""), File("/a.png")], "[Attached files]\n/a.png"),
        ([Text(" as it is \n")], " as it is \n"),
        ([], "(no text)"),
        ([Text(" \n")], "(no text)"),
    ],
)
def test_what_the_user_says(parts: list[Any], text: str) -> None:
    assert openai(ask(UserMessage(parts)))["messages"] == [{"role": "user", "content": text}]
    (block,) = anthropic(ask(UserMessage(parts)))["messages"][0]["content"]
    assert block["text"] == text


async def test_images_are_read_from_their_paths(tmp_path: Path) -> None:
    there, gone = tmp_path / "a.png", tmp_path / "gone.png"
    there.write_bytes(b"hi")
    found, lost = Image("image/png", path=str(there)), Image("image/png", path=str(gone))
    prompt, result, plain = await load_images(
        [UserMessage([Text("x"), found, lost]), ToolMessage("c", "Read", "shot:", images=[found, lost, PNG]), user("y")]
    )
    assert isinstance(prompt, UserMessage)
    assert prompt.parts[:2] == [Text("x"), Image("image/png", base64.b64encode(b"hi").decode())]
    assert isinstance(note := prompt.parts[2], Text)
    assert str(gone) in note.text
    assert isinstance(result, ToolMessage)
    assert result.images == [Image("image/png", "aGk="), PNG]
    assert result.text.startswith("shot:\n[image ")
    assert plain == user("y")


async def test_an_image_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentwire.provider.conversation.MAX_IMAGE", 3)
    path = tmp_path / "a.png"
    path.write_bytes(b"1234")
    (message,) = await load_images([UserMessage([Image("image/png", path=str(path))])])
    assert isinstance(message, UserMessage)
    assert isinstance(note := message.parts[0], Text)
    assert "4 bytes are too many" in note.text


@pytest.mark.parametrize("path", ["/dev/zero", "."])
async def test_an_image_that_is_no_file_is_not_read(path: str) -> None:
    (message,) = await load_images([UserMessage([Image("image/png", path=path)])])
    assert message.parts == [Text(f"[image {path} could not be read: it is no file]")]
