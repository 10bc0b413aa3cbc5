"""What a bridge knows of sessions that it has left: its own journals, and what the agents called them.

A session's journal holds what was said, and beside it, in a record that no wire shows, the name under which the agent
keeps the session. So it can be taken up there again; where an agent cannot, the history can be handed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from agentwire.events import Image, SessionOpened, Text, Unknown
from agentwire.log.filelock import owner, try_lock
from agentwire.log.history import History
from agentwire.log.record import Record
from agentwire.messages import AssistantMessage, Message, UserMessage
from agentwire.store import SessionInUse, SessionStore

NAME: Final = "agent_session"
"""What such a record is called."""

HANDED_OVER: Final = "What was said before in this conversation:"


class AgentSession(Struct):
    """Where the other half of a session is: the agent's wire, and the session's id there."""

    codec: str
    session: str
    """Empty: it says none, or not yet."""


class Memory:
    """A session that was left. Raises :class:`agentwire.store.StoreError`, also for one that somebody has open."""

    def __init__(self, store: SessionStore, session: str) -> None:
        _see_that_it_is_free(store.path(session), session)
        self.id = session
        self.workspace = ""
        self.model = ""
        self.agent: AgentSession | None = None
        """None: it is not known what the agent calls it."""
        history = History()
        with store.view(session) as view:
            for records in view.records():
                history.feed_all(records, self._look)
        self.text = as_text(history.messages())
        """What was said, for an agent that has to be told."""

    def _look(self, record: Record) -> None:
        event = record.event
        if isinstance(event, SessionOpened):
            self.workspace, self.model = event.workspace, event.model
        elif is_note(record):
            told = msgspec.json.decode(event.raw, type=AgentSession)  # type: ignore[union-attr]  # it is such a note
            self.agent = told if told.session else None


def _see_that_it_is_free(path: str, session: str) -> None:
    """No agent is to be started on a half that another one has. Who takes the session up locks it only after that."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below; only opening it is guarded
    except OSError:
        return  # whoever reads it says what is wrong
    with file:
        if not try_lock(file.fileno()):
            raise SessionInUse(session, owner(file.fileno()))


def note(agent: AgentSession) -> Unknown:
    """The record's event."""
    return Unknown("agentwire", NAME, Raw(msgspec.json.encode(agent)))


def is_note(record: Record) -> bool:
    """Whether it is such a record: it is not told to anyone, and so not lost."""
    event = record.event
    return isinstance(event, Unknown) and (event.wire, event.name) == ("agentwire", NAME)


def as_text(messages: Sequence[Message]) -> str:
    """A conversation in words; empty if nothing was said."""
    lines: list[str] = []
    for message in messages:
        if isinstance(message, UserMessage):
            said = " ".join(part.text if isinstance(part, Text) else _thing(part) for part in message.parts)
            lines.append(f"User: {said}")
        elif isinstance(message, AssistantMessage):
            if message.text:
                lines.append(f"Assistant: {message.text}")
            lines += [f"Assistant called {call.name} with {call.arguments_text or '{}'}" for call in message.calls]
        else:
            lines.append(f"Result of {message.name}: {message.text}")
    return "\n".join([HANDED_OVER, *lines]) if lines else ""


def _thing(part: object) -> str:
    return "(an image)" if isinstance(part, Image) else f"(the file {getattr(part, 'path', '')})"
