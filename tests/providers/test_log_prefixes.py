"""Wherever a log is cut off, every provider makes a request of what is left that its service takes.

The requests are made as the engine makes them: the log's beginning is folded, what was open in it is closed, and the
user says something. The services' rules are those that the other tests hold requests against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
import strategies
import trio
from conversing import ask
from hypothesis import given, settings
from hypothesis import strategies as st
from responses_service import faults as responses_faults
from support.strict_requests import anthropic_faults, openai_faults

from agentwire.events import CallRef, Image, Text, ToolSpec, TurnFinished, TurnStarted
from agentwire.log import Record
from agentwire.log.history import History
from agentwire.log.repair import closing_events
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.provider import ModelRequest, load_images
from agentwire_anthropic.quirks import AnthropicQuirks
from agentwire_anthropic.request import build as build_messages
from agentwire_openai.quirks import OpenAIQuirks
from agentwire_openai.request import build as build_chat
from agentwire_openai.responses_request import build as build_responses

Json = dict[str, Any]
Faults = Callable[[ModelRequest], list[str]]

READ = ToolSpec("Read", "Reads", {"type": "object", "properties": {"file_path": {"type": "string"}}})


def chat(request: ModelRequest) -> list[str]:
    """Chat Completions: every call answered right after its message, by messages of their own."""
    return openai_faults(json.loads(build_chat(request, OpenAIQuirks(), "max_tokens")))


def merged_chat(request: ModelRequest) -> list[str]:
    """The same for services whose templates insist that user and assistant take turns."""
    body = json.loads(build_chat(request, OpenAIQuirks(merge_messages=True), "max_tokens"))
    roles = [message["role"] for message in body["messages"]]
    neighbours = [a for a, b in pairwise(roles) if a == b == "user"]
    return [*openai_faults(body), *(f"two messages of role {role} side by side" for role in neighbours)]


def responses(request: ModelRequest) -> list[str]:
    """Responses: every call item has its output item."""
    return list(responses_faults(json.loads(build_responses(request, OpenAIQuirks()))))


def messages(request: ModelRequest) -> list[str]:
    """Messages: user and assistant take turns, results come first in the message after their calls."""
    body: Json = json.loads(build_messages(request, AnthropicQuirks(), model=request.model, stream=True))
    roles = [message["role"] for message in body["messages"]]
    found = anthropic_faults(body)
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        found.append(f"roles do not take turns: {roles}")
    return found


SERVICES: tuple[Faults, ...] = (chat, responses, messages)


def rebuilt(records: Iterable[Record]) -> History:
    """The history of a session that is taken up after its process died behind these records."""
    history = History()
    history.feed_all(records)
    for event, turn, origin in closing_events(history):
        history.feed(Record(0, 0, event, turn, origin))
    return history


def said(history: History) -> list[Message]:
    """What is sent when the user says something now."""
    history.feed(Record(0, 0, TurnStarted("next", None, [Text("go on")]), history.turns + 1))
    found = history.messages()
    assert found[-1] == UserMessage([Text("go on")])
    return found


def pictured(messages: list[Message]) -> list[Message]:
    """With pictures that have no bytes replaced by a note, as is done before every request."""
    return trio.run(load_images, messages)


def check(records: list[Record]) -> None:
    history = pictured(said(rebuilt(records)))
    for service in SERVICES:
        request = ask(*history, system="Be brief.", tools=[READ])
        assert service(request) == [], f"{service.__name__} of {history}"


@settings(max_examples=16, deadline=None)
@given(strategies.logs(), st.data())
def test_any_log_cut_off_anywhere_is_a_request_that_every_service_takes(
    records: list[Record], data: st.DataObject
) -> None:
    """Three cuts of each log, among them its whole length."""
    for size in {len(records), *data.draw(st.lists(st.integers(0, len(records)), min_size=2, max_size=2))}:
        check(records[:size])


def test_every_beginning_of_the_log_that_has_every_event() -> None:
    records = strategies.complete_log()
    for size in range(len(records) + 1):
        check(records[:size])


CALL = {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "c1", "name": "Read", "input": {}}
ASKED = {"role": "user", "content": "go"}


@pytest.mark.parametrize(
    ("faults", "body"),
    [
        (openai_faults, {"messages": [ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ASKED]}),
        (openai_faults, {"messages": [ASKED, {"role": "tool", "tool_call_id": "c1", "content": "x"}]}),
        (openai_faults, {"messages": [ASKED, {"role": "assistant", "content": ""}]}),
        (anthropic_faults, {"max_tokens": 1, "messages": [ASKED, {"role": "assistant", "content": [USE]}, ASKED]}),
        (anthropic_faults, {"max_tokens": 1, "messages": [ASKED, {"role": "assistant", "content": "hello"}]}),
        (responses_faults, {"store": False, "input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}),
        (
            responses_faults,
            {"store": False, "input": [{"type": "function_call", "call_id": "c", "name": "R", "arguments": "{}"}]},
        ),
    ],
)
def test_the_rules_find_what_is_wrong(faults: Callable[[Json], Iterable[str]], body: Json) -> None:
    """A rule that finds nothing in anything would prove nothing."""
    assert list(faults({"stream": True, "model": "m", **body}))


PNG = Image("image/png", "aGk=")
LOOKED = AssistantMessage("", calls=[CallRef("c1", "Read", "{}")])
ON = UserMessage([Text("go on")])


@pytest.mark.parametrize(
    "between",
    [
        [AssistantMessage("hello")],
        [LOOKED, ToolMessage("c1", "Read", "seen"), AssistantMessage("hello")],
        [],
        [AssistantMessage(" ")],
        [LOOKED, ToolMessage("c1", "Read", "seen", images=[PNG])],
    ],
    ids=["answered", "looked", "two in a row", "an empty answer", "pictures"],
)
def test_where_messages_are_merged_user_and_assistant_take_turns(between: list[Message]) -> None:
    assert merged_chat(ask(ON, *between, ON)) == []


@settings(max_examples=16, deadline=None)
@given(strategies.logs(max_turns=3))
def test_nothing_that_was_answered_is_lost_by_the_end_of_the_process(records: list[Record]) -> None:
    """Cut after the end of a turn, the history is the one that the running session had."""
    history = History()
    for size, record in enumerate(records, 1):
        history.feed(record)
        if isinstance(record.event, TurnFinished) and not record.origin:
            assert rebuilt(records[:size]).messages() == history.messages()
