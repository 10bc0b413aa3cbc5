"""Replies from a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from conversing import Heard, ask, converse
from trio.testing import MockClock

from agentwire.events import CallRef, Text, TextDelta, Usage
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.provider import ConfigError, Provider, ProviderError, ProviderSettings
from agentwire_script import provider as plugin


def script(path: Path, *replies: Any, **options: Any) -> Provider:
    path = path / "script.jsonl"
    path.write_text("".join(f"{reply if isinstance(reply, str) else json.dumps(reply)}\n" for reply in replies))
    return plugin.create(ProviderSettings(options={"script": str(path), **options}))


async def test_text_is_streamed_word_by_word(tmp_path: Path) -> None:
    text = "Hello  there,\n你好 world \n"
    heard = await converse(script(tmp_path, {"text": text}))
    assert [event.text for event in heard.events if isinstance(event, TextDelta)] == [
        "Hello",
        "  there,",
        "\n你好",
        " world",
        " \n",
    ]
    assert heard.completion is not None
    assert heard.completion.text == text
    assert heard.completion.finish_reason == "stop"


async def test_a_whole_reply(tmp_path: Path) -> None:
    reply = {
        "reasoning": "think first",
        "chunks": ["a ", "b"],
        "tool_calls": [
            {"id": "c1", "name": "Read", "arguments": {"file_path": "a" * 40}},
            {"name": "Write", "arguments": '{"cut":'},
            {"name": ""},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 1},
    }
    heard = await converse(script(tmp_path, "# a comment", "", reply))
    completion = heard.completion
    assert completion is not None
    assert (heard.thinking, heard.text) == (completion.reasoning, completion.text) == ("think first", "a b")
    first = json.dumps({"file_path": "a" * 40}, separators=(",", ":"))
    assert completion.calls == [
        CallRef("c1", "Read", first),
        CallRef("call_1", "Write", '{"cut":'),
        CallRef("call_2", "", "{}"),
    ]
    assert heard.shown_calls == [("c1", "Read", first), ("call_1", "Write", '{"cut":')]
    counts = {"input_tokens": 3, "output_tokens": 4, "cache_read_tokens": 1}
    assert completion.usage == Usage(**counts, extra=counts)
    assert heard.usages == [completion.usage]
    assert completion.finish_reason == "tool_calls"


async def test_steps_in_their_order(tmp_path: Path, autojump_clock: MockClock) -> None:
    steps = [
        {"text": "a"},
        {"delay_ms": 300_000},
        {"reasoning": "b"},
        {"tool_call": {"name": "Read", "id": "c"}},
        {"text": "d e"},
    ]
    began = trio.current_time()
    heard = await converse(script(tmp_path, {"steps": steps, "finish_reason": "length"}))
    assert trio.current_time() - began == pytest.approx(300)
    assert [type(event).__name__ for event in heard.events] == [
        "TextDelta",
        "ReasoningDelta",
        "CallStarted",
        "CallArgumentsDelta",
        "TextDelta",
    ]
    assert heard.completion is not None
    assert heard.completion.finish_reason == "length"


async def test_delays_come_before_every_piece_and_can_be_cancelled(tmp_path: Path, autojump_clock: MockClock) -> None:
    provider = script(tmp_path, {"text": "a b c", "delay_ms": 1000}, {"text": "next"})
    heard = Heard()
    with trio.move_on_after(2.5) as scope:
        await provider.complete(ask(), heard.hear)
    assert scope.cancelled_caught
    assert heard.text == "a b"
    assert (await converse(provider)).text == "next"


async def test_an_error_after_what_comes_before_it(tmp_path: Path) -> None:
    error = {"message": "slow down", "kind": "rate_limit", "status": 429, "retryable": True, "retry_after_ms": 5}
    heard = await converse(script(tmp_path, {"text": "par", "usage": {"input_tokens": 1}, "error": error}))
    assert heard.text == "par"
    assert heard.error is not None
    assert (heard.error.message, heard.error.kind, heard.error.status) == ("slow down", "rate_limit", 429)
    assert (heard.error.retryable, heard.error.retry_after_ms) == (True, 5)
    assert heard.error.usage == heard.usages[0]


async def test_replies_may_wait_for_their_cue(tmp_path: Path) -> None:
    provider = script(
        tmp_path, {"match": "weather", "text": "sunny"}, {"match": "42", "text": "so much"}, {"text": "hm"}
    )

    async def say(*messages: Any) -> str:
        return (await provider.complete(ask(*messages), lambda event: None)).text

    user = UserMessage([Text("what is")])
    assert (
        await say(user, AssistantMessage(calls=[CallRef("c", "Calc", "")]), ToolMessage("c", "Calc", "it is 42"))
        == "so much"
    )
    assert await say(user) == "hm"
    with pytest.raises(ProviderError, match="none of the 1 replies left fits"):
        await say(user)
    assert await say(UserMessage([Text("the"), Text("weather?")])) == "sunny"


async def test_a_script_that_is_used_up(tmp_path: Path) -> None:
    provider = script(tmp_path, {"text": "only"})
    await converse(provider)
    heard = await converse(provider)
    assert heard.error is not None
    assert "used up: no reply is left" in heard.error.message
    assert not heard.error.retryable
    again = script(tmp_path, {"text": "only"}, repeat="true")
    assert [(await converse(again)).text for _ in range(3)] == ["only"] * 3


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "truncated"),
        ('{"texts":"x"}', "texts"),
        ('{"text":1}', "text"),
        ('{"text":"x","chunks":["y"]}', "not both"),
        ('{"text":"x","steps":[{"text":"y"}]}', "instead of"),
        ('{"steps":[{"text":"y","reasoning":"z"}]}', "has 2"),
        ('{"steps":[{}]}', "has 0"),
        ('{"steps":[{"delay_ms":-1}]}', "negative"),
        ('{"delay_ms":-1}', "negative"),
        ('{"usage":{"prompt_tokens":1}}', "prompt_tokens"),
        ('{"error":{"message":"x","kind":"odd"}}', "odd"),
        ('{"tool_calls":[{}]}', "name"),
        ("[]", "object"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(ConfigError, match=rf"line 3: .*{what}"):
        script(tmp_path, {"text": "fine"}, "# fine", line)


def test_no_script(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the option 'script'"):
        plugin.create(ProviderSettings())
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        plugin.create(ProviderSettings(base_url=str(tmp_path / "gone")))
    with pytest.raises(ConfigError, match="holds no reply"):
        script(tmp_path, "# nothing")
    with pytest.raises(ConfigError, match="no option 'speed'"):
        script(tmp_path, {"text": "x"}, speed=1)


@pytest.mark.parametrize("prefix", ["", "file://"])
async def test_the_file_may_be_the_base_url(tmp_path: Path, prefix: str) -> None:
    script(tmp_path, {"text": "x"})
    provider = plugin.create(ProviderSettings(base_url=f"{prefix}{tmp_path / 'script.jsonl'}", model="m"))
    assert (await converse(provider)).text == "x"
    assert (provider.name, provider.model, provider.thinking) == ("script", "m", True)
    assert provider.effort_levels == ("low", "medium", "high")


async def test_others_get_their_turn_in_a_long_reply(tmp_path: Path) -> None:
    provider, said, seen = script(tmp_path, {"chunks": ["x"] * 1000}), list[Any](), list[int]()

    async def watch() -> None:
        while len(said) < 1000:
            seen.append(len(said))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await provider.complete(ask(), said.append)
    assert len(set(seen)) >= 4  # not once a piece: that would cost more than the pieces


async def test_it_is_quick_enough_to_measure_others_with(tmp_path: Path) -> None:
    provider, heard = script(tmp_path, {"chunks": ["piece"] * 100_000}), Heard()
    began = time.thread_time()
    await provider.complete(ask(), heard.hear)
    assert len(heard.events) == 100_000
    assert (time.thread_time() - began) / 100_000 < 20e-6
