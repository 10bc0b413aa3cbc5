"""The history is a fold of the log: what a model is told, whatever happened and wherever the log was cut off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from log_events import session_logs

from agentwire.events import (
    AnyEvent,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRef,
    CallStarted,
    CompactionFinished,
    ContextAdded,
    File,
    HistoryCleared,
    Image,
    ReasoningDelta,
    RetryScheduled,
    StepFinished,
    StepStarted,
    Text,
    TextDelta,
    TurnFinished,
    TurnStarted,
    Usage,
    UserJoined,
)
from agentwire.log import Record, SessionLog
from agentwire.log.history import NO_RESULT, History
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage


def fold(*events: AnyEvent | tuple[AnyEvent, str]) -> History:
    history = History()
    for seq, event in enumerate(events, 1):
        said, origin = event if isinstance(event, tuple) else (event, "")
        history.feed(Record(seq, seq, said, 1, origin))
    return history


def user(*texts: str) -> UserMessage:
    return UserMessage([Text(text) for text in texts])


START = TurnStarted("t", input=[Text("go")])
READ = CallRef("c1", "Read", '{"file_path":"a"}')
WRITE = CallRef("c2", "Write", "{not json")


def test_a_plain_turn() -> None:
    history = fold(
        START,
        StepStarted(0),
        TextDelta("he"),
        TextDelta("llo"),
        StepFinished(0, "hello"),
        TurnFinished("completed", "hello"),
    )
    assert history.messages() == [user("go"), AssistantMessage("hello")]


def test_input_parts_stay_as_they_are() -> None:
    parts = [Text("see"), Image("image/png", "aGk="), File("/w/a.txt")]
    assert fold(TurnStarted("t", input=parts)).messages() == [UserMessage(parts)]


def test_an_input_without_parts_says_nothing() -> None:
    assert fold(TurnStarted("t"), TurnFinished("completed")).messages() == []


def test_reasoning_provider_and_blocks_come_from_the_finished_step() -> None:
    from msgspec import Raw

    items = [Raw(b'{"type":"thinking","signature":"s"}')]
    step = StepFinished(0, "hi", "because", provider="anthropic", items=items)
    (_, message) = fold(START, StepStarted(0), ReasoningDelta("becau"), step).messages()
    assert message == AssistantMessage("hi", "because", [], "anthropic", items)


def test_results_follow_their_message_in_the_order_of_the_calls() -> None:
    image = Image("image/png", "aGk=")
    history = fold(
        START,
        StepStarted(0),
        StepFinished(0, "", calls=[READ, WRITE]),
        CallReady("c1", "Read", READ.arguments_text),
        CallReady("c2", "Write", WRITE.arguments_text),
        CallFinished("c2", "Write", "error", "not JSON"),
        CallFinished("c1", "Read", "ok", "content", images=[image]),
        StepStarted(1),
        StepFinished(1, "done"),
        TurnFinished("completed", "done"),
    )
    assert history.messages() == [
        user("go"),
        AssistantMessage("", "", [READ, WRITE]),
        ToolMessage("c1", "Read", "content", False, [image]),
        ToolMessage("c2", "Write", "not JSON", True),
        AssistantMessage("done"),
    ]


def test_results_may_come_before_the_step_is_finished() -> None:
    history = fold(
        START,
        StepStarted(0),
        CallReady("c1", "Read"),
        CallFinished("c1", "Read", "ok", "x"),
        StepFinished(0, calls=[READ]),
    )
    assert history.messages()[1:] == [AssistantMessage(calls=[READ]), ToolMessage("c1", "Read", "x")]


def test_the_first_result_of_a_call_stands() -> None:
    history = fold(
        START, StepFinished(0, calls=[READ]), CallCancelled("c1", "stopped"), CallFinished("c1", "Read", "ok", "late")
    )
    assert history.messages()[2:] == [ToolMessage("c1", "Read", "Tool execution canceled by user", True)]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (CallCancelled("c1", "denied", "policy violation"), "Tool denied: policy violation"),
        (CallCancelled("c1", "denied"), "Tool denied: "),
        (CallCancelled("c1", "refused", "exec needs approval"), "Tool refused: exec needs approval"),
        (CallCancelled("c1", "stopped", "Cancelled by user"), "Tool execution canceled by user"),
        (CallCancelled("c1", "client_gone", "EOF"), "Tool denied: Client disconnected"),
        (
            CallCancelled("c1", "denied", "x", output="ERROR: tool 'Read' denied by user"),
            "ERROR: tool 'Read' denied by user",
        ),
    ],
)
def test_what_the_model_reads_of_a_cancelled_call(event: CallCancelled, text: str) -> None:
    history = fold(START, StepFinished(0, calls=[READ]), event)
    assert history.messages()[2:] == [ToolMessage("c1", "Read", text, True)]


def test_a_crashed_call_says_that_it_was_interrupted() -> None:
    history = fold(START, StepFinished(0, calls=[READ]), CallCancelled("c1", "crashed", "The process ended"))
    (message,) = history.messages()[2:]
    assert isinstance(message, ToolMessage)
    assert message.is_error
    assert "interrupted" in message.text


def test_a_call_without_result_gets_one_that_is_an_error() -> None:
    history = fold(START, StepFinished(0, "t", calls=[READ, WRITE]), CallFinished("c2", "Write", "ok", "x"))
    answers = [ToolMessage("c1", "Read", NO_RESULT, True), ToolMessage("c2", "Write", "x")]
    assert history.messages()[2:] == answers
    history.feed(Record(9, 9, TurnFinished("cancelled"), 1))
    assert history.messages()[2:] == answers


def test_a_step_that_was_cut_off_leaves_its_text_and_no_calls() -> None:
    history = fold(
        START,
        StepStarted(0),
        ReasoningDelta("hm"),
        TextDelta("I will"),
        CallStarted("c1", "Read"),
        CallCancelled("c1", "stopped"),
        TurnFinished("cancelled"),
    )
    assert history.messages() == [user("go"), AssistantMessage("I will")]


def test_a_step_that_was_cut_off_without_text_leaves_nothing() -> None:
    history = fold(START, StepStarted(0), ReasoningDelta("hm"), CallStarted("c1", "Read"), TurnFinished("failed"))
    assert history.messages() == [user("go")]


def test_an_empty_answer_is_no_message() -> None:
    assert fold(START, StepStarted(0), StepFinished(0, "", "only reasoning"), TurnFinished("completed")).messages() == [
        user("go")
    ]


def test_after_a_retry_only_the_last_attempt_counts() -> None:
    retry = RetryScheduled(1, 3, 100, "busy", stream=True)
    history = fold(START, StepStarted(0), TextDelta("first"), retry, TextDelta("second"), TurnFinished("cancelled"))
    assert history.messages() == [user("go"), AssistantMessage("second")]


def test_text_the_user_adds_is_read_after_the_step_and_its_results() -> None:
    history = fold(
        START,
        UserJoined("before any step"),
        StepStarted(0),
        UserJoined("while streaming"),
        StepFinished(0, "t", calls=[READ]),
        UserJoined("while running"),
        CallFinished("c1", "Read", "ok", "x"),
        UserJoined("after"),
        StepStarted(1),
        StepFinished(1, "done"),
    )
    assert history.messages() == [
        user("go"),
        user("before any step"),
        AssistantMessage("t", calls=[READ]),
        ToolMessage("c1", "Read", "x"),
        user("while streaming"),
        user("while running"),
        user("after"),
        AssistantMessage("done"),
    ]


def test_subagents_are_not_in_the_history() -> None:
    history = fold(
        START,
        StepStarted(0),
        (TurnStarted("sub", input=[Text("sub task")]), "run"),
        (TextDelta("sub text"), "run"),
        (StepFinished(0, "sub text", usage=Usage(5, 5)), "run"),
        (CallFinished("c1", "Read", "ok", "the subagent's"), "run"),
        (TurnFinished("completed", usage=Usage(5, 5)), "run"),
        StepFinished(0, "main", calls=[READ]),
    )
    assert history.messages()[1:] == [
        AssistantMessage("main", calls=[READ]),
        ToolMessage("c1", "Read", NO_RESULT, True),
    ]
    assert history.turns == 1


def test_half_a_surrogate_pair_never_reaches_the_model() -> None:
    assert fold(START, TextDelta("a\ud83d")).messages()[1:] == [AssistantMessage("a\ufffd")]


# --- clearing and compacting ---


def test_clearing_forgets_messages_and_keeps_context() -> None:
    history = fold(ContextAdded("rules"), START, StepFinished(0, "hello"), TurnFinished("completed"), HistoryCleared())
    assert (history.messages(), history.context, history.turns) == ([], ["rules"], 1)
    history.feed(Record(9, 9, TurnStarted("u", input=[Text("again")]), 2))
    assert history.messages() == [user("again")]


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        (0, []),
        (1, ["assistant two"]),
        (2, ["user two", "assistant two"]),
        # A result is never kept without its call.
        (3, ["assistant one", "tool c1", "tool c2", "user two", "assistant two"]),
        (4, ["assistant one", "tool c1", "tool c2", "user two", "assistant two"]),
        (5, ["assistant one", "tool c1", "tool c2", "user two", "assistant two"]),
        (6, ["user one", "assistant one", "tool c1", "tool c2", "user two", "assistant two"]),
        (99, ["user one", "assistant one", "tool c1", "tool c2", "user two", "assistant two"]),
    ],
)
def test_compacting_puts_the_summary_before_the_messages_kept(kept: int, left: list[str]) -> None:
    history = fold(
        TurnStarted("t", input=[Text("one")]),
        StepFinished(0, "one", calls=[READ, WRITE]),
        CallFinished("c1", "Read", "ok", "c1"),
        CallFinished("c2", "Write", "ok", "c2"),
        TurnFinished("completed"),
        TurnStarted("t", input=[Text("two")]),
        StepFinished(0, "two"),
        TurnFinished("completed"),
        ContextAdded("rules"),
        CompactionFinished("full", "summary", kept),
    )
    assert [brief(message) for message in history.messages()] == ["user summary", *left]
    assert history.context == ["rules"]


def test_compacting_while_calls_wait_for_results_keeps_their_step() -> None:
    history = fold(
        START,
        StepFinished(0, "t", calls=[READ]),
        CompactionFinished("full", "summary"),
        CallFinished("c1", "Read", "ok", "x"),
        StepStarted(1),
        StepFinished(1, "done"),
    )
    assert [brief(message) for message in history.messages()] == [
        "user summary",
        "assistant t",
        "tool c1",
        "assistant done",
    ]


def brief(message: Message) -> str:
    if isinstance(message, UserMessage):
        return "user " + " ".join(part.text for part in message.parts if isinstance(part, Text))
    return f"tool {message.call_id}" if isinstance(message, ToolMessage) else f"assistant {message.text}"


# --- counters ---


def test_usage_is_that_of_the_ended_turns_and_of_the_finished_steps_of_the_open_one() -> None:
    first = [START, StepFinished(0, "a", usage=Usage(10, 1)), TurnFinished("completed", usage=Usage(12, 1))]
    second = [
        START,
        StepFinished(0, "b", usage=Usage(5, 2)),
        StepFinished(1, "c"),
        StepFinished(2, "d", usage=Usage(1, 1)),
    ]
    history = fold(*first, *second)
    assert history.usage == Usage(18, 4)
    assert (history.turns, history.open_turn) == (2, 1)
    history.feed(Record(9, 9, TurnFinished("completed", usage=Usage(7, 3)), 1))
    assert history.usage == Usage(19, 4)
    assert history.open_turn == 0
    assert History().usage == Usage()


def test_open_calls_are_those_shown_and_not_closed() -> None:
    history = fold(START, CallStarted("c1", "Read"), CallReady("c2", "Write"), CallFinished("c1", "Read", "ok", "x"))
    assert history.open_calls == ["c2"]


def test_the_answer_so_far() -> None:
    history = fold(START, StepStarted(0), TextDelta("he"))
    assert history.answer == "he"
    for event in (TextDelta("llo"), StepFinished(0, "hello")):
        history.feed(Record(9, 9, event, 1))
    assert history.answer == "hello"
    history.feed(Record(9, 9, TurnFinished("completed", "final"), 1))
    assert history.answer == "final"
    history.feed(Record(9, 9, START, 2))
    assert history.answer == ""


# --- laws ---


def check_rules(messages: list[Message]) -> None:
    """What every model service insists on."""
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        assert not isinstance(message, ToolMessage), "a result without its call"
        if isinstance(message, UserMessage):
            assert message.parts
            continue
        assert message.text or message.calls
        answers = messages[index : index + len(message.calls)]
        assert [(type(m), getattr(m, "call_id", "")) for m in answers] == [
            (ToolMessage, c.call_id) for c in message.calls
        ]
        index += len(answers)


@settings(max_examples=60, deadline=None)
@given(session_logs())
def test_any_beginning_of_a_log_is_a_history_that_a_model_service_accepts(records: list[Record]) -> None:
    history = History()
    for record in records:
        history.feed(record)
        messages = history.messages()
        check_rules(messages)
        assert not messages or isinstance(messages[0], UserMessage)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_a_slow_reader_folds_to_the_same_history_as_a_quick_one(records: list[Record]) -> None:
    log = SessionLog(resident_limit=2000)
    slow, quick = log.cursor(), log.cursor()
    quickly, slowly = History(), History()
    for record in records:
        log.append(record.event, record.turn, record.origin)
        for _ in range(20 if isinstance(record.event, TextDelta) else 0):
            log.append(TextDelta(record.event.text), record.turn, record.origin)
        quickly.feed_all(quick.take())
    while taken := slow.take():
        slowly.feed_all(taken)
    assert slowly.messages() == quickly.messages()
    assert (slowly.turns, slowly.usage, slowly.answer) == (quickly.turns, quickly.usage, quickly.answer)


@settings(max_examples=40, deadline=None)
@given(session_logs())
def test_messages_once_given_do_not_change(records: list[Record]) -> None:
    history = History()
    given_before: list[tuple[list[Message], Any]] = []
    for record in records:
        history.feed(record)
        messages = history.messages()
        given_before.append((messages, repr(messages)))
    assert all(repr(messages) == text for messages, text in given_before)
