"""aionrs's messages as the records that our own engine would have written, had it run the session."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from agentwire.events import (
    AnyEvent,
    CallCancelled,
    CallFinished,
    CallReady,
    CallRef,
    Category,
    ContextAdded,
    Image,
    Notice,
    Outcome,
    Part,
    SessionOpened,
    StepFinished,
    StepStarted,
    Text,
    TurnFinished,
    TurnStarted,
    Usage,
    UserJoined,
)
from agentwire.log.record import Record
from agentwire_aionrs.originals.statefile import Block, Message, State, TotalUsage, milliseconds

SIGNED: Final = "anthropic"
"""The one of our providers that wants its thinking back, with the signature it put on it."""

CATEGORIES: Final[dict[str, Category]] = {
    "Read": "info", "Glob": "info", "Grep": "info", "ViewImage": "info", "Write": "edit", "Edit": "edit",
    "ExecCommand": "exec", "Bash": "exec", "Spawn": "exec",
}  # fmt: skip
"""What aionrs's own tools may do (section 1.5 of its protocol)."""


def replay(state: State, session: str, *, policy: str, workspace: str, told: str) -> list[Record]:
    """The records of a session called ``session`` in which everything in ``state`` happened.

    ``workspace`` is where it goes on; ``told`` is a notice on where it came from. Calls without a result are closed,
    so is the last turn. What the model reads is the same, except for calls whose ids were not unique.
    """
    replayed = _Replay(state)
    replayed.add(SessionOpened(session, workspace=workspace, provider=state.provider, model=state.model, policy=policy))
    replayed.add(Notice(told))
    for is_assistant, run in groupby(state.messages, lambda message: message.role == "assistant"):
        if is_assistant:
            replayed.step(list(run))
            continue
        for message in run:
            replayed.hear(message)
    replayed.end_turn(_usage(state.total_usage))
    return replayed.records


class _OpenCall(Struct):
    """A call that has no result yet: its id in the file, and the one it has in the log."""

    given: str
    call_id: str
    name: str


class _Replay:
    """Puts events together; the state of the turn that is being told."""

    def __init__(self, state: State) -> None:
        self.records: list[Record] = []
        self._time = state.created
        self._turn = 0
        self._in_turn = False
        self._steps = 0
        self._answered = False
        """The last step made no calls: it is the answer."""
        self._text = ""
        self._open: list[_OpenCall] = []
        self._given: set[str] = set()
        """Ids of the last step's calls, as the file has them."""
        self._call_ids: set[str] = set()

    def add(self, event: AnyEvent) -> None:
        """The next record."""
        turn = self._turn if self._in_turn else 0
        self.records.append(Record(len(self.records) + 1, self._time, event, turn))

    # --- what the user and the tools said ---

    def hear(self, message: Message) -> None:
        """A message of anyone but the model."""
        self._go_to(message)
        parts = [part for block in message.content if (part := _part(block)) is not None]
        if message.role == "system":
            if text := "\n\n".join(part.text for part in parts if isinstance(part, Text)):
                self.add(ContextAdded(text))
            return
        results = [block for block in message.content if block.get("type") == "tool_result"]
        if not results:
            if parts:
                self._begin_turn(parts)
            return
        self._results(results, [part for part in parts if isinstance(part, Image)])
        for part in parts:
            if isinstance(part, Text):
                self.add(UserJoined(part.text))

    def _results(self, results: list[Block], images: list[Image]) -> None:
        """Results of calls; images beside them are what the last call that shows any has read."""
        finished: list[CallFinished] = []
        for block in results:
            output = str(block.get("content", ""))
            given = block.get("tool_use_id", "")
            call = next((call for call in self._open if call.given == given), None)
            if call is None:
                if given not in self._given:  # all that is left of a call; else it was answered already
                    self._continue_turn()
                    self.add(UserJoined(f"[result of an earlier call] {output}"))
                continue
            self._open.remove(call)
            finished.append(CallFinished(call.call_id, call.name, "error" if block.get("is_error") else "ok", output))
        if images and finished:
            shown = next((event for event in reversed(finished) if event.name == "ViewImage"), finished[-1])
            shown.images = images
        for event in finished:
            self.add(event)

    # --- what the model said ---

    def step(self, messages: Sequence[Message]) -> None:
        """One reply of the model, which may be kept as several messages in a row."""
        self._go_to(messages[0])
        self._continue_turn()
        self._cancel_calls()
        self._given.clear()
        blocks = [block for message in messages for block in message.content]
        self.add(StepStarted(self._steps))
        calls = [self._call(block) for block in blocks if block.get("type") == "tool_use"]
        self._text = "\n\n".join(filter(None, (_joined(message, "text") for message in messages)))
        items = _verbatim(blocks)
        self.add(
            StepFinished(
                self._steps,
                self._text,
                "\n\n".join(filter(None, (_joined(message, "thinking") for message in messages))),
                calls,
                finish_reason="tool_calls" if calls else "stop",
                provider=SIGNED if items else "",
                items=items,
            )
        )
        self._steps += 1
        self._answered = not calls

    def _call(self, block: Block) -> CallRef:
        given = str(block.get("id", ""))
        call_id = self._unique(given or f"call_{self._turn}")
        name = str(block.get("name", ""))
        value = block.get("input")
        text = value if isinstance(value, str) else msgspec.json.encode({} if value is None else value).decode()
        self._open.append(_OpenCall(given, call_id, name))
        self._given.add(given)
        self.add(
            CallReady(
                call_id,
                name,
                text,
                Raw(msgspec.json.encode(value, order="sorted")) if isinstance(value, dict) else UNSET,
                CATEGORIES.get(name, "mcp" if name.startswith("mcp__") else "exec"),
            )
        )
        return CallRef(call_id, name, text)

    def _unique(self, wanted: str) -> str:
        """An id that this session has not shown: the file's ids may repeat."""
        call_id, number = wanted, 2
        while call_id in self._call_ids:
            call_id, number = f"{wanted}-{number}", number + 1
        self._call_ids.add(call_id)
        return call_id

    # --- turns ---

    def _begin_turn(self, parts: Sequence[Part]) -> None:
        self.end_turn()
        self._turn += 1
        self._in_turn = True
        self.add(TurnStarted(str(uuid.uuid4()), input=list(parts)))

    def _continue_turn(self) -> None:
        """Make sure that there is a turn: a history that was shortened may begin in the middle of one."""
        if not self._in_turn:
            self._begin_turn([])

    def _cancel_calls(self) -> None:
        """Close what a killed process left open."""
        for call in self._open:
            self.add(CallCancelled(call.call_id, "crashed", name=call.name))
        self._open.clear()

    def end_turn(self, usage: Usage = Usage()) -> None:  # noqa: B008 - a frozen value
        """Close the turn, if one is open. ``usage`` is all that the file knows of tokens."""
        if not self._in_turn:
            return
        self._cancel_calls()
        outcome: Outcome = "completed" if self._answered else "cancelled"
        self.add(TurnFinished(outcome, self._text, usage, steps=self._steps))
        self._in_turn = self._answered = False
        self._steps, self._text = 0, ""

    def _go_to(self, message: Message) -> None:
        """Time goes on, never back."""
        if message.timestamp is not None:
            self._time = max(self._time, milliseconds(message.timestamp))


def _joined(message: Message, kind: str) -> str:
    """The text of all blocks of one kind (``text`` or ``thinking``), which hold it under the kind's name."""
    return "".join(str(block.get(kind, "")) for block in message.content if block.get("type") == kind)


def _part(block: Block) -> Text | Image | None:
    """A piece of what the user said; None for an empty one, and for what is no such piece."""
    match block:
        case {"type": "text", "text": str(text)} if text:
            return Text(text)
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            head, comma, data = url.partition(",")
            if comma and head.startswith("data:image/") and head.endswith(";base64"):
                return Image(head.removeprefix("data:").removesuffix(";base64"), data)
            return Text(f"[image: {url}]")
    return None


def _verbatim(blocks: list[Block]) -> list[Raw]:
    """A reply's blocks as the service made them, if any of them is signed; thinking that is not cannot go back."""
    if not any(block.get("type") == "thinking" and block.get("signature") for block in blocks):
        return []
    return [Raw(msgspec.json.encode(made)) for block in blocks if (made := _as_served(block)) is not None]


def _as_served(block: Block) -> dict[str, Any] | None:
    match block:
        case {"type": "text", "text": str(text)} if text:
            return {"type": "text", "text": text}
        case {"type": "thinking", "thinking": str(thinking), "signature": str(signature)} if signature:
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            value = block.get("input")
            return {"type": "tool_use", "id": call_id, "name": name, "input": value if isinstance(value, dict) else {}}
        case {"type": "provider_item", "provider": "anthropic", "item": dict(item)}:
            return item
    return None


def _usage(total: TotalUsage) -> Usage:
    """aionrs counts from zero: all zeros say nothing."""
    if not (total.input_tokens or total.output_tokens):
        return Usage()
    return Usage(total.input_tokens, total.output_tokens, total.cache_read_tokens, total.cache_creation_tokens)
