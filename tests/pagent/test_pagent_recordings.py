"""Recordings of the real peer: read as what happened, written again to the byte."""

from __future__ import annotations

import pytest
from msgspec import UNSET
from pagentlines import CODECS, hear, logged, recorded, render, split, streams

from agentwire import events as bus
from agentwire.codec import Codec, Heard
from agentwire_pagent import codec, codec_v4

STREAMS = streams()


def said(name: str) -> list[bus.Event]:
    dialect, stream = STREAMS[name]
    return [heard.event for heard in hear(dialect, stream) if isinstance(heard, Heard)]


def ends(name: str) -> list[bus.TurnFinished]:
    return [event for event in said(name) if isinstance(event, bus.TurnFinished)]


def test_all_are_here() -> None:
    assert len(STREAMS) == 38
    assert sum(dialect is codec_v4 for dialect, _ in STREAMS.values()) == 8


@pytest.mark.parametrize("name", STREAMS)
def test_a_recording_read_and_written_again_is_the_same(name: str) -> None:
    dialect, stream = STREAMS[name]
    assert render(dialect, logged(hear(dialect, stream))) == stream


@pytest.mark.parametrize("name", STREAMS)
def test_the_table_says_what_a_recording_keeps(name: str) -> None:
    """Read, written and read again: what is heard then is what the fidelity table lets survive."""
    dialect, stream = STREAMS[name]
    records = logged(hear(dialect, stream))
    assert hear(dialect, render(dialect, records)) == dialect.fidelity().surviving(records)


@pytest.mark.parametrize("name", STREAMS)
def test_every_run_has_one_end(name: str) -> None:
    dialect, stream = STREAMS[name]
    heard = hear(dialect, stream)
    open_turn: object = None
    for item in heard:
        assert isinstance(item, Heard)
        if isinstance(item.event, bus.TurnStarted):
            assert open_turn is None
            open_turn = item.ref
        elif isinstance(item.event, bus.TURN_EVENTS):
            assert item.ref == open_turn
        if isinstance(item.event, bus.TurnFinished):
            open_turn = None
    assert open_turn is None


CUT_OFF = (
    "consumer_stops_early", "error_before_stream_http_500", "error_mid_stream_bad_json", "error_mid_stream_disconnect",
    "error_mid_stream_provider", "error_second_turn", "v4_error_mid_stream_provider",
    "http_demo: model refuses at once (HTTP 500 upstream, client retries spent)", "http_demo: model fails mid-stream",
)  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_run_without_its_last_line_failed(name: str) -> None:
    outcomes = [end.outcome for end in ends(name)]
    if name in CUT_OFF:
        assert outcomes == ["failed"]
        assert ends(name)[0].error == bus.ErrorInfo("internal_error", "The run ended without saying why.")
    elif name == "v4_stdio_session":
        assert outcomes == ["completed", "completed", "cancelled", "failed"]
    else:
        limit = name in ("max_turns_stop", "v4_max_turns_still_calling")
        assert set(outcomes) == {"limit" if limit else "completed"}


def test_the_next_run_marks_a_cut_off_one() -> None:
    """Two files after each other: the first run's end is heard before the second begins."""
    host, heard = codec.host(), []
    for line in split(recorded("error_second_turn") + recorded("single_turn")):
        heard += host.receive(line)
    kinds = [type(item.event) for item in heard if isinstance(item, Heard)]
    at = kinds.index(bus.TurnStarted, 1)
    assert kinds[at - 1] is bus.TurnFinished
    assert [item.event.outcome for item in heard if isinstance(item.event, bus.TurnFinished)] == [  # type: ignore[union-attr]
        "failed", "completed",
    ]  # fmt: skip
    assert host.close() == []


def test_a_run_with_tools_as_it_is_heard() -> None:
    text = '{"city": "Xiamen"}'
    heard = hear(codec, recorded("tool_two_turns"))
    events = [item.event for item in heard if isinstance(item, Heard)]
    assert [type(event) for event in events] == [
        bus.TurnStarted, bus.StepStarted, bus.TextDelta, bus.StepFinished, bus.CallReady, bus.CallRunning,
        bus.CallFinished, bus.StepStarted, bus.TextDelta, bus.TextDelta, bus.StepFinished, bus.TurnFinished,
    ]  # fmt: skip
    assert {item.ref for item in heard if isinstance(item, Heard)} == {"run-1"}
    step, ready, end = events[3], events[4], events[-1]
    assert isinstance(step, bus.StepFinished)
    assert step.calls == [bus.CallRef("call_1", "get_weather", text)]
    assert isinstance(ready, bus.CallReady)
    assert (ready.arguments_text, bytes(ready.arguments)) == (text, b'{"city":"Xiamen"}')  # type: ignore[arg-type]
    assert isinstance(end, bus.TurnFinished)
    second = events[-2]
    assert isinstance(second, bus.StepFinished)
    assert isinstance(step.usage, bus.Usage)
    assert isinstance(second.usage, bus.Usage)
    assert end.usage == step.usage + second.usage  # the wire repeats the last step's alone
    assert (end.text, end.steps) == (second.text, 2)


def test_usage_is_kept_whole() -> None:
    (end,) = ends("usage_extra_keys")
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.cache_read_tokens) == (4, 1, 3)
    assert end.usage.cache_write_tokens is UNSET
    assert end.usage.reasoning_tokens is UNSET
    assert isinstance(end.usage.extra, dict)
    assert list(end.usage.extra)[-2:] == ["prompt_cache_hit_tokens", "prompt_cache_miss_tokens"]


def test_calls_that_never_ran_are_not_shown_as_calls() -> None:
    events = said("session_trimmed_stop")
    assert not [event for event in events if isinstance(event, bus.CallReady)]
    assert [event.calls for event in events if isinstance(event, bus.StepFinished)] == [[bus.CallRef("c1", "t", "{}")]]


def test_line_separators_stay_inside_a_line() -> None:
    stream = recorded("unicode_and_newlines")
    assert (len(split(stream)), len(stream.decode().splitlines())) == (9, 19)
    assert "\u2028" in "".join(event.text for event in said("unicode_and_newlines") if isinstance(event, bus.TextDelta))


def test_v4_questions_and_threads() -> None:
    events = said("v4_stdio_session")
    questions = [event for event in events if isinstance(event, bus.ApprovalRequested)]
    assert [(event.call_id, event.name, event.command) for event in questions] == [
        ("call_1", "run_command", "echo hi"), ("call_2", "run_command", "rm x"),
    ]  # fmt: skip
    opened = [event for event in events if isinstance(event, bus.SessionOpened)]
    assert [(event.id, event.workspace) for event in opened] == [("thread-20261130-000212", "/home/u/project")]
    kept = [event.name for event in events if isinstance(event, bus.Unknown)]
    assert kept == ["SlashCommands", "SlashCommands", "ThreadTitle", "HistoryReplay", "ProviderState"]
    failed = [event for event in events if isinstance(event, bus.TurnFinished)][-1]
    assert isinstance(failed.error, bus.ErrorInfo)
    assert failed.error.message.endswith("Error code: 500 - boom")


def test_v4_the_extra_turn_at_the_limit() -> None:
    steps = [event for event in said("v4_max_turns_synthesis") if isinstance(event, bus.StepStarted)]
    assert steps == [bus.StepStarted(0), bus.StepStarted(1, 1)]


@pytest.mark.parametrize("dialect", CODECS.values(), ids=CODECS)
def test_what_neither_dialect_knows_is_kept(dialect: Codec) -> None:
    """A method of the future does not end a replay, and is written again where it stood."""
    name = "v4_single_turn" if dialect is codec_v4 else "single_turn"
    lines = split(recorded(name))
    lines.insert(3, b'{"jsonrpc": "2.0", "method": "Sparkle", "params": {"n": 1}}')
    stream = b"\n".join(lines) + b"\n"
    heard = hear(dialect, stream)
    assert [item.event.name for item in heard if isinstance(item.event, bus.Unknown)] == ["Sparkle"]  # type: ignore[union-attr]
    assert render(dialect, logged(heard)) == stream
