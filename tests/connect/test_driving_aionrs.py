"""The side that drives a live aionrs, line by line: what has no place in a conversation with a whole program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import Answered, Heard
from agentwire.commands import Command, Done, Refusal
from agentwire_aionrs import codec

START = {"type": "stream_start", "msg_id": "m1"}
END = {"type": "stream_end", "msg_id": "m1", "usage": {"input_tokens": 1, "output_tokens": 1}}
RUNNING = {"type": "tool_running", "msg_id": "m1", "call_id": "c1", "tool_name": "ExecCommand"}
RESULT = {
    "type": "tool_result", "msg_id": "m1", "call_id": "c1", "tool_name": "ExecCommand", "status": "success",
    "output": "", "output_type": "text",
}  # fmt: skip
ASKED = {
    "type": "tool_request", "msg_id": "m1", "call_id": "c1",
    "tool": {"name": "Write", "category": "edit", "args": {}, "description": ""},
}  # fmt: skip
PONG = {"type": "pong"}


class Driving:
    """A driver, what it writes and what it makes of lines."""

    def __init__(self, version: str = "0.2.10", argv: tuple[str, ...] = ("aionrs",)) -> None:
        assert codec.driver is not None
        self.side = codec.driver()
        self.argv = argv
        self.answers: dict[int, Done | Refusal] = {}
        self.command = self.start(version)

    def start(self, version: str = "0.2.10", session: str | None = "s") -> list[str]:
        command = self.side.begin(self.argv)
        self.hear({"type": "ready", "version": version, "session_id": session, "capabilities": {}})
        return command

    def send(self, command: Command) -> tuple[int | Refusal, list[dict[str, Any]]]:
        """What it is numbered, and the lines that are written now."""
        out = bytearray()
        number = self.side.send(command, out)
        self._take(self.side.due(out))
        return number, self._lines(out)

    def hear(self, *lines: dict[str, Any]) -> list[bus.Event]:
        return [event for line in lines for event in self._take(self.side.receive(json.dumps(line).encode()))]

    def due(self) -> list[dict[str, Any]]:
        out = bytearray()
        self._take(self.side.due(out))
        return self._lines(out)

    def _take(self, said: list[Any]) -> list[bus.Event]:
        self.answers |= {item.command: item.result for item in said if isinstance(item, Answered)}
        return [item.event for item in said if isinstance(item, Heard)]

    @staticmethod
    def _lines(out: bytearray) -> list[dict[str, Any]]:
        return [json.loads(line) for line in out.splitlines()]


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return [line["type"] for line in lines]


@pytest.mark.parametrize(
    ("version", "original"),
    [("0.2.10", True), ("0.2.1", True), ("0.1.14", True), ("0.3.0", True), ("0.2.0", False), ("", False),
     ("1.0.0", False), ("0.9", False)],
)  # fmt: skip
def test_its_version_gives_it_away(version: str, original: bool) -> None:
    driving = Driving(version)
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    _, written = driving.send(commands.Stop())
    assert kinds(written) == (["tool_deny"] if original else ["stop"])


def test_a_ping_that_a_program_has_read_is_repeated() -> None:
    """It was written before the program was heard to run, and may have been read by either."""
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START)
    number, written = driving.send(commands.Ping())
    assert kinds(written) == ["ping"]
    driving.hear(RUNNING)
    held, written = driving.send(commands.Ping())
    assert written == []
    driving.hear(RESULT)
    assert kinds(driving.due()) == ["ping", "ping"]
    driving.hear(PONG)
    assert (number in driving.answers, held in driving.answers) == (True, False)
    driving.hear(PONG)
    assert driving.answers[held] == Done()
    driving.hear(PONG)  # it had read the first one after all


def test_a_ping_that_was_answered_is_not_repeated() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START)
    driving.send(commands.Ping())
    driving.hear(PONG, RUNNING, RESULT)
    assert driving.due() == []


def test_a_stop_before_the_turn_has_begun_waits_for_it() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    number, written = driving.send(commands.Stop())
    assert written == []
    driving.hear(START)
    assert kinds(driving.due()) == ["stop"]
    assert driving.side.resumable()
    (end,) = driving._take(driving.side.close())
    assert isinstance(end, bus.TurnFinished)
    assert end.outcome == "cancelled"
    assert driving.answers[number] == Done()
    assert driving.side.resumable()


def test_a_turn_that_ends_with_the_denial_needs_no_stop() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    number, written = driving.send(commands.Stop())
    assert written == [{"type": "tool_deny", "call_id": "c1", "reason": "Cancelled by user"}]
    cancelled = {"type": "tool_cancelled", "msg_id": "m1", "call_id": "c1", "reason": "Cancelled by user"}
    *_, end = driving.hear(cancelled, END)
    assert isinstance(end, bus.TurnFinished)
    assert end.outcome == "cancelled"
    assert driving.due() == []
    assert driving.answers[number] == Done()
    assert driving.side.ready() is True


def test_a_stop_waits_for_what_else_is_asked() -> None:
    """The calls of a reply are asked about one after the other: each must have its denial before the stop."""
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    driving.send(commands.Stop())
    cancelled = {"type": "tool_cancelled", "msg_id": "m1", "call_id": "c1", "reason": "Cancelled by user"}
    driving.hear(cancelled)
    assert kinds(driving.due()) == ["ping"]
    assert [type(event) for event in driving.hear({**ASKED, "call_id": "c2"})] == [bus.CallReady]
    assert kinds(driving.due()) == ["tool_deny"]
    driving.hear(PONG, {**cancelled, "call_id": "c2"})
    assert kinds(driving.due()) == ["ping"]
    driving.hear(PONG)
    assert kinds(driving.due()) == ["stop"]


def test_a_stop_whose_turn_has_ended_tells_whether_the_agent_leaves() -> None:
    """A fork that heeds the protocol goes on; the real one reads the stop at rest and leaves."""
    for leaves in (False, True):
        driving = Driving()
        driving.send(commands.Prompt("x", "m1"))
        driving.hear(START)
        assert kinds(driving.send(commands.Stop())[1]) == ["stop"]
        driving.hear(END)
        assert driving.side.ready() is False
        assert kinds(driving.due()) == ["ping"]
        if leaves:
            driving.side.close()
            assert driving.side.resumable()
            assert driving.start() == ["aionrs", "--resume", "s"]
        else:
            driving.hear(PONG)
            assert not driving.side.resumable()
        assert driving.side.ready() is True
        assert kinds(driving.send(commands.Prompt("y", "m2"))[1]) == ["message"]


def test_a_process_that_ends_by_itself_is_not_started_again() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START)
    driving.side.close()
    assert not driving.side.resumable()


def test_without_a_session_there_is_nothing_to_take_up() -> None:
    driving = Driving()
    driving.start(session=None)
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START)
    driving.send(commands.Stop())
    assert not driving.side.resumable()
    driving.side.close()
    assert not driving.side.resumable()


@pytest.mark.parametrize(
    ("argv", "kind", "again"),
    [
        (("a", "--session-id", "x", "-m", "n"), "new", ["a", "-m", "n", "--resume", "s"]),
        (("a", "--session-id=x"), "new", ["a", "--resume", "s"]),
        (("a", "--resume", "latest", "--json-stream"), "resumed", ["a", "--json-stream", "--resume", "s"]),
        (("a", "--resume=x", "--fork-session"), "forked", ["a", "--resume", "s"]),
    ],
)
def test_command_lines(argv: tuple[str, ...], kind: str, again: list[str]) -> None:
    driving = Driving(argv=argv)
    assert driving.command == list(argv)
    (opened,) = driving.hear({"type": "ready", "version": "0.2.10", "session_id": "s"})
    assert isinstance(opened, bus.SessionOpened)
    assert opened.kind == kind
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START)
    driving.send(commands.Stop())
    driving.side.close()
    assert driving.side.begin(argv) == again


def test_a_call_is_answered_once() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    assert kinds(driving.send(commands.Deny("c1"))[1]) == ["tool_deny"]
    refused, written = driving.send(commands.Approve("c1"))
    assert isinstance(refused, Refusal)
    assert (refused.code, written) == ("not_pending", [])


def test_what_was_freed_is_freed_for_the_next_process_too() -> None:
    driving = Driving()
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    driving.send(commands.Approve("c1", scope="always"))
    driving.send(commands.Stop())
    driving.side.close()
    driving.start()
    driving.send(commands.Prompt("y", "m2"))
    asked = driving.hear({**START, "msg_id": "m2"}, {**ASKED, "msg_id": "m2"})
    assert [type(event) for event in asked] == [bus.TurnStarted, bus.CallReady]
    assert driving.due() == [{"type": "tool_approve", "call_id": "c1", "scope": "once"}]


def test_an_agent_that_keeps_to_the_protocol_may_ask_again() -> None:
    """For ours "always" does not reach outside the workspace: that is a question of its own."""
    driving = Driving("0.2.0")
    driving.send(commands.Prompt("x", "m1"))
    driving.hear(START, ASKED)
    driving.send(commands.Approve("c1", scope="always"))
    again = driving.hear({**ASKED, "call_id": "c2"})
    assert [type(event) for event in again] == [bus.CallReady, bus.ApprovalRequested]
    assert driving.due() == []


def test_counts_that_shrink_are_no_totals() -> None:
    """A fork may tell of each turn by itself, as the protocol says."""
    driving = Driving("0.3.0")
    seen = []
    for number, count in enumerate((10, 4, 9)):
        driving.send(commands.Prompt("x", f"m{number}"))
        place = {"msg_id": f"m{number}"}
        used = {"input_tokens": count, "output_tokens": 1}
        (*_, end) = driving.hear({**START, **place}, {**END, **place, "usage": used})
        assert isinstance(end, bus.TurnFinished)
        seen.append(end.usage.input_tokens)
    assert seen == [10, 4, 9]


def test_no_second_message_before_the_first_has_begun() -> None:
    for version in ("0.2.0", "0.2.10"):
        driving = Driving(version)
        driving.send(commands.Prompt("x", "m1"))
        refused, written = driving.send(commands.Prompt("y", "m2"))
        assert isinstance(refused, Refusal)
        assert (refused.code, refused.retryable, written) == ("busy", True, [])


def test_commands_to_a_process_that_is_gone() -> None:
    driving = Driving()
    driving.side.close()
    number, written = driving.send(commands.Stop())
    assert written == []
    assert isinstance(number, int)
    assert driving.answers[number] == Done()
    refused, _ = driving.send(commands.Approve("c1"))
    assert isinstance(refused, Refusal)
