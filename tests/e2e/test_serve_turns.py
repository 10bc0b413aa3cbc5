"""Plain turns: text, usage, attached files, what a model may send, and a message that comes too soon."""

from __future__ import annotations

import pytest
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find, kinds, said
from support.replies import Gate, JsonObject, Refused, Reply, Text, Thinking, Tokens, ToolCall, raw

CAPABILITIES = {
    "tool_approval": True,
    "image_input": "unknown",
    "thinking": True,
    "effort": False,
    "effort_levels": [],
    "modes": ["default", "auto_edit", "yolo"],
    "current_mode": "default",
    "mcp": False,
}
BY_PROVIDER = {
    "anthropic": CAPABILITIES,
    "openai": {**CAPABILITIES, "thinking": False, "effort": True, "effort_levels": ["low", "medium", "high"]},
}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_s01_a_plain_turn_is_told_to_the_byte(provider: str, launch: Launcher, model: ModelService) -> None:
    """Protocol sections 1.1 and 3.2; usage is that of the message, not of the session."""
    model.script(Reply("Hi! ", "How can I help?"), Reply("Still here."))
    agent = await launch.spawn(*launch.serve(provider), "--session-id", "s1")
    ready = {"type": "ready", "version": "0.2.0", "session_id": "s1", "capabilities": BY_PROVIDER[provider]}
    await agent.expect_line(ready)
    await agent.message("m1", "Hello")
    await agent.expect_line({"type": "stream_start", "msg_id": "m1"})
    await agent.expect_line({"type": "text_delta", "text": "Hi! ", "msg_id": "m1"})
    await agent.expect_line({"type": "text_delta", "text": "How can I help?", "msg_id": "m1"})
    end = {"type": "stream_end", "msg_id": "m1", "usage": {"input_tokens": 10, "output_tokens": 5}}
    await agent.expect_line(end)
    await agent.message("m2", "And now?")
    assert (await agent.turn("m2"))[-1] == {**end, "msg_id": "m2"}

    second = model.requests[1]
    assert second.texts("user") == ["Hello", "And now?"]
    assert second.texts("assistant") == ["Hi! How can I help?"]
    assert second.body["model"] == "test-model"
    assert {"Read", "Write", "Edit", "ExecCommand", "Glob", "Grep", "Spawn"} <= set(second.tools)
    assert str(launch.workspace) in second.system


async def test_s01_the_start_is_told_before_the_model_is_asked(launch: Launcher, model: ModelService) -> None:
    """A host arms its heartbeat by stream_start, so it may not wait for the first token."""
    first = Gate()
    model.script(Reply(first, "late"))
    agent = await launch()
    await agent.message("m1")
    await agent.expect("stream_start", msg_id="m1")
    await model.request(1)
    await agent.fence()
    first.open()
    assert said(await agent.turn("m1")) == "late"


async def test_usage_adds_up_over_the_model_calls_of_one_message(launch: Launcher, model: ModelService) -> None:
    """Protocol section 1.9: the tokens of this response turn; cached ones are told apart and not added again."""
    path = launch.write("a.txt", "x\n")
    model.script(
        Reply(ToolCall("t1", "Read", {"file_path": path}), tokens=Tokens(100, 7, cached=60, written=30)),
        Reply("ok", tokens=Tokens(200, 8, cached=90)),
    )
    agent = await launch("--auto-approve", provider="anthropic")
    await agent.message("m1")
    usage = (await agent.turn("m1"))[-1]["usage"]
    assert usage == {"input_tokens": 300, "output_tokens": 15, "cache_read_tokens": 150, "cache_write_tokens": 30}


async def test_usage_is_told_of_a_failed_turn(launch: Launcher, model: ModelService) -> None:
    """What the calls before the failure used is still on the end."""
    path = launch.write("a.txt", "x\n")
    model.script(Reply(ToolCall("t1", "Read", {"file_path": path})), Refused(404, "no such model"))
    agent = await launch("--auto-approve")
    await agent.message("m1")
    events = await agent.turn("m1")
    assert find(events, "error", msg_id="m1", error__code="provider_error")
    assert events[-1]["usage"] == {"input_tokens": 10, "output_tokens": 5}


async def test_s16_a_message_in_a_turn_is_refused_and_harms_nothing(launch: Launcher, model: ModelService) -> None:
    middle = Gate()
    model.script(Reply("one ", middle, "two"), "three")
    agent = await launch()
    await agent.message("m1")
    await agent.expect("stream_start", msg_id="m1")
    await agent.expect("text_delta", text="one ")
    await agent.message("m2")
    await agent.expect("error", msg_id="m2", error__code="protocol_error", error__retryable=True)
    middle.open()
    events = await agent.turn("m1")
    assert kinds(events) == ["text_delta", "stream_end"]
    assert said(events) == "two"
    await agent.message("m3")
    assert said(await agent.turn("m3")) == "three"
    assert model.requests[1].texts("user") == ["go", "go"]


async def test_s24_attached_files_are_named_below_the_text(launch: Launcher, model: ModelService) -> None:
    """Without files the text is passed as it is."""
    agent = await launch()
    files = ["/a.png", "/b.txt"]
    named = "[Attached files]\n/a.png\n/b.txt"
    messages: list[tuple[JsonObject, str]] = [
        ({"content": " look ", "files": files}, f"look\n\n{named}"),
        ({"content": "", "files": files}, named),
        ({"content": " look \n", "files": []}, " look \n"),
        ({"content": "\tagain "}, "\tagain "),
    ]
    for number, (message, read) in enumerate(messages):
        model.script("ok")
        await agent.send({"type": "message", "msg_id": f"m{number}", **message})
        await agent.turn(f"m{number}")
        assert model.requests[number].texts("user")[-1] == read


async def test_s27_characters_split_by_the_service_arrive_whole(launch: Launcher, model: ModelService) -> None:
    """Also: control characters leave as lower-case escapes, everything else raw (WireRules checks each line)."""
    stream = (
        'data: {"choices":[{"index":0,"delta":{"content":"你好"},"finish_reason":null}]}\n\n'
        'data: {"choices":[{"index":0,"delta":{"content":" \\u001b[1m\\u007f/"},"finish_reason":null}]}\n\n'
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    ).encode()
    cut = stream.index("好".encode()) + 1
    model.script(raw(*(bytes([byte]) for byte in stream[:cut]), stream[cut:]))
    agent = await launch()
    await agent.message("m1")
    assert said(await agent.turn("m1")) == "你好 \x1b[1m\x7f/"
    assert "你好".encode() in agent.stdout
    assert b"\\u001b[1m\x7f/" in agent.stdout
    assert b"\x1b" not in agent.stdout


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_reasoning_is_streamed_as_thinking(provider: str, launch: Launcher, model: ModelService) -> None:
    """Protocol section 1.4; it comes also where the capability says no."""
    model.script(Reply(Thinking("Let me "), Thinking("see."), "Yes."), "ok")
    agent = await launch(provider=provider)
    await agent.message("m1")
    await agent.expect("stream_start")
    await agent.expect_line({"type": "thinking", "text": "Let me ", "msg_id": "m1"})
    await agent.expect_line({"type": "thinking", "text": "see.", "msg_id": "m1"})
    await agent.expect_line({"type": "text_delta", "text": "Yes.", "msg_id": "m1"})
    await agent.expect("stream_end")
    await agent.message("m2")
    await agent.turn("m2")
    assert model.requests[1].texts("assistant") == ["Yes."]


async def test_thinking_tags_are_taken_out_of_the_text(launch: Launcher, model: ModelService) -> None:
    """Models behind the Chat Completions API write their reasoning into the text; tags may be cut anywhere."""
    model.script(Reply("<th", "ink>hid", "den</thi", "nk>", "shown <b>"))
    agent = await launch()
    await agent.message("m1")
    events = await agent.turn("m1")
    assert "".join(event["text"] for event in find(events, "thinking")).strip() == "hidden"
    assert said(events).strip() == "shown <b>"


async def test_s29_an_empty_answer_is_asked_for_again_and_then_an_error(launch: Launcher, model: ModelService) -> None:
    """Three model calls: the answer, one more try, and a last one without tools. What comes late is an answer."""
    model.script(Reply(), Reply(), Reply())
    agent = await launch()
    await agent.message("m1")
    events = await agent.turn("m1")
    text = "The model finished without visible answer text after one retry."
    assert [event["error"]["message"] for event in find(events, "error", msg_id="m1")] == [text]
    assert kinds(events)[-2:] == ["error", "stream_end"]
    assert events[-1]["usage"] == {"input_tokens": 30, "output_tokens": 15}
    assert len(model.requests) == 3
    assert model.requests[1].tools
    assert not model.requests[2].tools or model.requests[2].body["tool_choice"] == "none"

    model.script(Reply(), "here")
    await agent.message("m2")
    events = await agent.turn("m2")
    assert said(events) == "here"
    assert not find(events, "error")


async def test_s30_a_word_with_a_slash_goes_to_the_model(launch: Launcher, model: ModelService) -> None:
    """There are no slash commands on this wire."""
    model.script("I can help.")
    agent = await launch()
    await agent.message("m1", "/help")
    assert kinds(await agent.turn("m1")) == ["stream_start", "text_delta", "stream_end"]
    assert model.requests[0].texts("user") == ["/help"]


async def test_many_turns_in_one_process(launch: Launcher, model: ModelService) -> None:
    """Each message has one start and one end, and its own text only."""
    model.script(*(Reply(Text(f"answer {n}")) for n in range(20)))
    agent = await launch()
    for n in range(20):
        await agent.message(f"m{n}", f"question {n}")
        events = await agent.turn(f"m{n}")
        assert kinds(events) == ["stream_start", "text_delta", "stream_end"]
        assert said(events) == f"answer {n}"
    assert len(model.requests[-1].messages) == 39


async def test_the_step_limit_is_an_error_and_the_end(launch: Launcher, model: ModelService) -> None:
    """The limit counts model calls of one message; the next message has its own."""
    path = launch.write("a.txt", "x\n")
    steps = [Reply(ToolCall(f"t{n}", "Read", {"file_path": path, "offset": n})) for n in range(2)]
    model.script(*steps, "fresh")
    agent = await launch("--auto-approve", "--max-turns", "2")
    await agent.message("m1")
    events = await agent.turn("m1")
    text = "Stopped after reaching the turn budget before the model produced a final answer."
    assert find(events, "error", msg_id="m1", error__message=text)
    assert len(find(events, "tool_result", status="success")) == 2
    assert kinds(events)[-2:] == ["error", "stream_end"]
    assert events[-1]["usage"] == {"input_tokens": 20, "output_tokens": 10}
    assert len(model.requests) == 2
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "fresh"
