"""What the sessions of a dialogue have under way."""

from __future__ import annotations

from agentwire.commands import Command, JsonId
from agentwire.log.unfinished import Unfinished
from agentwire.transcode.prompts import Prompts
from agentwire.transcode.writing import Stream


class UnderWay:
    """What a stream has under way."""

    def __init__(self) -> None:
        self.turn = ""
        """The id of the turn that runs."""
        self.ref: JsonId = None
        """Its ``ref`` where it comes from."""
        self.open = Unfinished()
        self.prompts = Prompts()
        self.stops: list[int] = []
        """Stops whose outcome follows the end of the turn."""
        self.early: list[tuple[Command, int]] = []
        """Answers to questions that this wire has not put yet."""


class Sight:
    """What the agent side may look at."""

    def __init__(self, states: dict[Stream, UnderWay]) -> None:
        self._states = states

    def has_session(self, session: str) -> bool:
        """Whether there is that session: the recorded agent has judged."""
        return True

    def turn_active(self, session: str = "") -> bool:
        """Whether a turn runs in that session, or (empty) in any."""
        return any(state.turn for stream, state in self._states.items() if session in ("", stream.name))

    def pending(self, request: str, session: str = "") -> bool:
        """Whether an approval or host tool request with that id waits for an answer."""
        return any(request in state.open.approvals or request in state.open.requests for state in self._states.values())

    def active_session(self) -> str:
        """The session whose turn runs, or ``""``."""
        return next((stream.name or "" for stream, state in self._states.items() if state.turn), "")

    def is_directory(self, path: str) -> bool:
        """Whether there is that directory: the recorded agent has judged."""
        return True
