"""aionrs's messages as records of ours: the history that the model reads stays the same."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.original_sessions import assistant, image, result, state, text, thinking, use, user

from agentwire.events import (
    CallCancelled,
    CallFinished,
    CallReady,
    Image,
    SessionOpened,
    StepFinished,
    Text,
    TurnFinished,
    TurnStarted,
    Usage,
)
from agentwire.log.history import History
from agentwire.log.lines import decode_lines, encode_line
from agentwire.log.record import Record
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire_aionrs.originals.replay import replay
from agentwire_aionrs.originals.statefile import State

CRASHED = "Tool execution was interrupted: the agent process ended before it had a result"


def records_of(*messages: dict[str, Any], **fields: Any) -> list[Record]:
    """The records of a session with these messages, as they come back from a journal."""
    kept = msgspec.convert(state("s", *messages, **fields), State)
    records = replay(kept, "s", policy="aionrs", workspace="/w", told="from a test")
    return decode_lines(b"".join(map(encode_line, records)), 1)


def history_of(*messages: dict[str, Any]) -> list[Message]:
    """What the model reads."""
    history = History()
    history.feed_all(records_of(*messages))
    assert history.open_turn == 0
    assert history.open_calls == []
    return history.messages()


def said(*texts: str) -> UserMessage:
    return UserMessage([Text(value) for value in texts])


def events_of(records: list[Record], kind: type) -> list[Any]:
    return [record.event for record in records if isinstance(record.event, kind)]


def test_a_conversation() -> None:
    assert history_of(user("Hello"), assistant("Hi."), user("Bye", "now"), assistant("Bye.")) == [
        said("Hello"), AssistantMessage("Hi."), said("Bye", "now"), AssistantMessage("Bye."),
    ]  # fmt: skip


def test_calls_and_results() -> None:
    messages = history_of(
        user("Read both"),
        assistant("Reading.", use("t1", "Read", {"file_path": "/b", "a": 1}), use("t2", "mcp__files_get", {})),
        user(result("t2", "two"), result("t1", "one", is_error=True)),
        assistant("Done."),
    )
    [asked, calling, first, second, done] = messages
    assert asked == said("Read both")
    assert isinstance(calling, AssistantMessage)
    assert calling.text == "Reading."
    assert [(call.call_id, call.name) for call in calling.calls] == [("t1", "Read"), ("t2", "mcp__files_get")]
    assert json.loads(calling.calls[0].arguments_text) == {"file_path": "/b", "a": 1}
    assert first == ToolMessage("t1", "Read", "one", is_error=True)
    assert second == ToolMessage("t2", "mcp__files_get", "two")
    assert done == AssistantMessage("Done.")


def test_calls_are_told_as_the_engine_tells_them() -> None:
    records = records_of(
        user("go"), assistant(use("t1", "Write", {"b": 1, "a": [2]})), user(result("t1", "ok")), assistant("Done.")
    )
    assert [type(record.event).__name__ for record in records] == [
        "SessionOpened", "Notice", "TurnStarted", "StepStarted", "CallReady", "StepFinished", "CallFinished",
        "StepStarted", "StepFinished", "TurnFinished",
    ]  # fmt: skip
    assert [record.seq for record in records] == list(range(1, 11))
    assert [record.turn for record in records] == [0, 0, *[1] * 8]
    [ready] = events_of(records, CallReady)
    assert bytes(ready.arguments) == b'{"a":[2],"b":1}'
    assert ready.category == "edit"
    [finished] = events_of(records, CallFinished)
    assert (finished.status, finished.output) == ("ok", "ok")
    [end] = events_of(records, TurnFinished)
    assert (end.outcome, end.text, end.steps) == ("completed", "Done.", 2)


def test_where_it_came_from_and_when() -> None:
    records = records_of(
        user("a", timestamp="2026-03-01T10:00:05Z"),
        assistant("b", timestamp="2026-03-01T10:00:04Z"),
        user("c", timestamp="2026-03-01T12:00:06+02:00"),
    )
    opened = records[0].event
    assert isinstance(opened, SessionOpened)
    assert (opened.id, opened.kind, opened.workspace, opened.policy) == ("s", "new", "/w", "aionrs")
    assert (opened.provider, opened.model) == ("openai", "gpt-4o")
    start = records[0].time
    assert start % 1000 == 123
    began = {record.turn: record.time for record in reversed(records) if record.turn}
    assert began == {1: start + 4877, 2: start + 5877}
    assert [record.time for record in records] == sorted(record.time for record in records)


def test_the_tokens_of_the_whole_session_are_kept() -> None:
    history = History()
    history.feed_all(records_of(user("a"), assistant("b"), user("c"), assistant("d")))
    assert history.usage == Usage(1500, 320, 800, 200)
    nothing = records_of(user("a"), assistant("b"), total_usage={"input_tokens": 0, "output_tokens": 0})
    assert events_of(nothing, TurnFinished)[-1].usage == Usage()


@pytest.mark.parametrize("after", [[], [user("Go on"), assistant("Going.")], [assistant("Going.")]])
def test_a_call_without_a_result_is_closed(after: list[dict[str, Any]]) -> None:
    """A killed process leaves them."""
    before = [user("go"), assistant(use("t1", "Read", {}), use("t2", "Read", {})), user(result("t1", "one"))]
    messages = history_of(*before, *after)
    assert messages[2:4] == [ToolMessage("t1", "Read", "one"), ToolMessage("t2", "Read", CRASHED, True)]
    assert len(messages) == 4 + len(after)
    records = records_of(*before, *after)
    assert [event.call_id for event in events_of(records, CallCancelled)] == ["t2"]
    assert len(events_of(records, TurnStarted)) == len(events_of(records, TurnFinished))


def test_a_turn_without_an_answer_was_cancelled() -> None:
    ends = events_of(records_of(user("a"), user("b"), assistant("c")), TurnFinished)
    assert [end.outcome for end in ends] == ["cancelled", "completed"]


def test_signed_thinking_goes_back_as_it_came() -> None:
    content = [thinking("Hm.", "sig=="), text("So."), use("t1", "Read", {"b": 1, "a": 2}), thinking("no signature")]
    [_, said_so, _] = history_of(user("go"), assistant(*content))
    assert isinstance(said_so, AssistantMessage)
    assert said_so.provider == "anthropic"
    assert [json.loads(bytes(item)) for item in said_so.items] == content[:3]
    assert (said_so.text, said_so.reasoning) == ("So.", "Hm.no signature")


def test_unsigned_thinking_cannot_go_back() -> None:
    [_, answer] = history_of(user("go"), assistant(thinking("Hm."), "So."))
    assert answer == AssistantMessage("So.", "Hm.")


def test_images() -> None:
    [asked, _, answer, _] = history_of(
        user("Look", image("QUJD")),
        assistant(use("t1", "ViewImage", {"path": "x"}), use("t2", "Read", {})),
        user(result("t1", "an image"), image("REVG", "image/jpeg"), result("t2", "")),
    )
    assert asked == UserMessage([Text("Look"), Image("image/png", "QUJD")])
    assert answer == ToolMessage("t1", "ViewImage", "an image", images=[Image("image/jpeg", "REVG")])


@pytest.mark.parametrize("url", ["https://pictures.example/a.png", "/etc/passwd", "data:text/plain,x"])
def test_an_image_elsewhere_is_named_and_never_fetched(url: str) -> None:
    [asked] = history_of(user({"type": "image_url", "image_url": {"url": url}}))
    assert asked == said(f"[image: {url}]")


def test_ids_that_repeat_become_unique_and_keep_their_results() -> None:
    messages = history_of(
        user("a"), assistant(use("t", "Read", {}), use("t", "Read", {})), user(result("t", "1"), result("t", "2")),
        assistant(use("", "Read", {})), user(result("", "3")), assistant("b"),
        user("c"), assistant(use("t", "Read", {})), user(result("t", "4")), assistant("d"),
    )  # fmt: skip
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [message.text for message in results] == ["1", "2", "3", "4"]
    assert len({message.call_id for message in results}) == 4
    assert all(message.call_id for message in results)


def test_a_result_that_came_twice_counts_once() -> None:
    messages = history_of(user("a"), assistant(use("t", "Read", {})), user(result("t", "1")), user(result("t", "1")))
    assert messages[2:] == [ToolMessage("t", "Read", "1")]


def test_a_result_whose_call_is_gone_is_not_lost() -> None:
    """A history that was shortened may begin with one."""
    assert history_of(user(result("gone", "precious")), assistant("ok"))[0] == said(
        "[result of an earlier call] precious"
    )


def test_several_messages_of_the_model_in_a_row_are_one_reply() -> None:
    messages = history_of(
        user("a"), assistant("One.", use("t1", "Read", {})), assistant("Two.", use("t2", "Read", {})),
        user(result("t1", "1"), result("t2", "2")),
    )  # fmt: skip
    [_, reply, *results] = messages
    assert isinstance(reply, AssistantMessage)
    assert reply.text == "One.\n\nTwo."
    assert [message.text for message in results if isinstance(message, ToolMessage)] == ["1", "2"]


def test_text_beside_results_is_said_after_them() -> None:
    messages = history_of(user("a"), assistant(use("t", "Read", {})), user(result("t", "1"), "Mind the gap"))
    assert messages[2:] == [ToolMessage("t", "Read", "1"), said("Mind the gap")]


def test_system_messages_are_context() -> None:
    history = History()
    history.feed_all(records_of({"role": "system", "content": [text("Rules.")]}, user("a"), assistant("b")))
    assert history.context == ["Rules."]
    assert history.messages() == [said("a"), AssistantMessage("b")]


@pytest.mark.parametrize("arguments", ["{not json", None, [1], 7])
def test_arguments_that_are_no_object(arguments: Any) -> None:
    records = records_of(user("a"), assistant(use("t", "Read", arguments)), user(result("t", "bad")))
    [ready] = events_of(records, CallReady)
    expected = {"{not json": "{not json", "None": "{}", "[1]": "[1]", "7": "7"}
    assert ready.arguments_text == expected[str(arguments)]
    [step] = events_of(records, StepFinished)
    assert step.calls[0].arguments_text == ready.arguments_text


def test_blocks_of_a_later_version_are_passed_over() -> None:
    assert history_of(user("a", {"type": "video", "url": "x"}), assistant({"type": "dance"}, "b")) == [
        said("a"), AssistantMessage("b"),
    ]  # fmt: skip


_BLOCKS = st.one_of(
    st.integers(0, 10**6).map(lambda number: text(f"<é{number}>")),
    st.just(text("")),
    st.builds(use, st.sampled_from("abc"), st.sampled_from(["Read", "x"]), st.sampled_from([{}, {"k": 1}, "bad"])),
    st.builds(result, st.sampled_from("abc"), st.sampled_from(["r", "s"])),
    st.builds(thinking, st.just("t"), st.sampled_from([None, "sig"])),
    st.just(image("QUJD")),
    st.just({"type": "provider_item", "provider": "anthropic", "item": {"type": "redacted_thinking", "data": "z"}}),
)
_MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.lists(_BLOCKS, max_size=4),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(_MESSAGES)
def test_whatever_a_file_holds_the_log_is_whole(messages: list[dict[str, Any]]) -> None:
    """Every call is closed once and within its turn, every turn ended, and no text lost."""
    records = records_of(*messages)
    history_of(*messages)
    shown = Counter(event.call_id for event in events_of(records, CallReady))
    closed = Counter(event.call_id for event in events_of(records, CallFinished | CallCancelled))
    assert shown == closed
    assert set(shown.values()) <= {1}
    turn = 0
    for record in records:
        if isinstance(record.event, TurnStarted):
            turn += 1
        assert record.turn in (0, turn)
    assert len(events_of(records, TurnFinished)) == turn
    told = b"".join(map(encode_line, records)).decode()
    kept = [block["text"] for message in messages for block in message["content"] if block["type"] == "text"]
    assert all(value in told for value in kept)
