"""Driving a live aionrs: what the real binary wants of its host beyond what the protocol says.

The binary gives itself away: in ``ready`` it reports its own version where the protocol's belongs
(:func:`agentwire_aionrs.totals.is_original`). To anything else, ours above all, every command goes as it is. What the
binary does otherwise, and what is done about it here:

- It takes ``add_mcp_server`` until any other command comes. A ping that follows one is answered by its answer, and a
  server that comes too late is refused here, for in a turn nobody would answer.
- It forgets ``always``: what was freed for good is answered here, and the host not asked again.
- A stop ends its process, and one that meets an open question leaves a session that services refuse: questions are
  denied first, and a ping tells that no other is on its way. Another process takes the session up (``--resume``), and
  is told again what only the first knew. A stop at rest is not sent.
- It reads ``init_history`` and forgets it: that is refused.
- A program that it runs reads our lines from the pipe they share: what can wait, waits for its end; a ping that may
  have been lost is repeated.
- It keeps one held ``set_config``: later ones repeat what those before them asked.
- Errors and notices name no turn: they belong to the one that runs.
- Lines that it cannot read it drops: a ping's answer settles whatever should have been answered before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from agentwire import commands
from agentwire import events as bus
from agentwire.codec.heard import Heard
from agentwire.codec.jsontext import append_line
from agentwire.commands import Command, Refusal
from agentwire_aionrs import reading, sending, texts, wire
from agentwire_aionrs.hearing import Hearing, unplaced
from agentwire_aionrs.host_side import ENCODER, AionrsHost
from agentwire_aionrs.standing import Standing, forks, merged, resumes, resuming
from agentwire_aionrs.totals import RunningTotal, is_original
from agentwire_aionrs.turns import OpenTurn, Said

STOPPED: Final = "Cancelled by user"
"""Why a call is denied whose turn is stopped: the protocol's own words for it (section 2.2)."""

SHELLS: Final = ("ExecCommand", "Bash")
"""Tools whose programs read from the pipe that commands come through."""

NO_HISTORY: Final = (
    "this aionrs reads init_history and forgets it: give rules with --system-prompt, a conversation with --resume"
)

UNHEEDED: Final = "The agent read the command and did not answer: it cannot carry it out."


class AionrsDriver(AionrsHost):
    """The host side of a live agent; see :class:`agentwire.codec.contract.Driver`."""

    def __init__(self) -> None:
        super().__init__()
        self._original = False
        self._is_ready = False
        self._session = ""
        self._kind = "new"
        """How the session began: ``new``, ``resumed`` or ``forked``."""
        self._over = False  # the process has ended
        self._opening = True  # servers may still be added
        self._kept: set[bus.Category] = set()  # freed for good by the host
        self._kinds: dict[str, bus.Category] = {}  # of the turn's calls that were asked about, by the wire's id
        self._answered: set[str] = set()  # those that have our answer
        self._standing = Standing()
        self._queued: commands.SetConfig | None = None  # what the agent does after the turn
        self._held: list[Struct] = []  # can wait, and does
        self._riding = 0  # pings that the answer to an add_mcp_server answers
        self._pings_out = 0
        self._ping_again = False
        self._stop_waits = False
        self._stop_sent = False
        self._denied = False  # for the sake of a stop
        self._fence = 0  # number of the ping that tells whether anything else is asked after that
        self._probe = 0  # number of the ping that tells whether a stop after the turn's end has ended the process
        self._due = bytearray()
        self._known: Said = []

    # --- the process ---

    def begin(self, argv: Sequence[str]) -> list[str]:
        """The command as it is; the next time the one that takes the session up."""
        if self._over:
            self._kind = "resumed"
            return resuming(argv, self._session)
        self._kind = "forked" if forks(argv) else "resumed" if resumes(argv) else "new"
        return list(argv)

    def ready(self) -> bool | Refusal:
        """It has greeted, and is not about to leave."""
        return self._is_ready and not self._probe

    def resumable(self) -> bool:
        """The binary leaves when it is stopped; what it has stored can be taken up."""
        if not self._original or not self._session:
            return False
        if self._over:
            return self._stop_sent
        return self._turn is not None and self._turn.stopping

    def close(self) -> Said:
        """The agent's output ended."""
        self._stop_sent = self._stop_sent or self._stop_waits
        self._over, self._is_ready = True, False
        said = super().close()
        self._stop_waits, self._denied, self._fence, self._probe = False, False, 0, 0
        self._riding = self._pings_out = 0
        self._queued = None
        self._held.clear()
        self._due.clear()
        return said

    # --- commands ---

    def send(self, command: Command, out: bytearray) -> int | Refusal:
        """Append the line for ``command``, unless it has to wait."""
        if isinstance(command, commands.Prompt) and self._ledger.find(commands.Prompt) is not None:
            return Refusal("busy", "a message was sent whose turn has not begun", retryable=True)
        made = self.made(command)
        if isinstance(made, Refusal):
            return made
        message, key = made
        manner = _MANNERS.get(type(command)) if self._original else None
        now = message if manner is None else manner(self, command, message, key)
        if isinstance(now, Refusal):
            return now
        if now is not None:
            self._write(now, out)
        return self._ledger.add(command, key)

    def due(self, out: bytearray) -> Said:
        """What may be written now."""
        if self._over:
            self._stop_waits = False
            self._known += self._ledger.settle_all(commands.Stop)
        elif self._original:
            self._review()
        out += self._due
        self._due.clear()
        known, self._known = self._known, []
        return known

    def _write(self, message: Struct, out: bytearray) -> None:
        self._pings_out += isinstance(message, wire.Ping)
        append_line(ENCODER, message, out)

    def _review(self) -> None:
        if self._stop_waits:
            self._try_stop()
        if self._riding and self._ledger.find(commands.AddMcpServer) is None:
            for _ in range(self._riding):
                self._known += self._ledger.settle(commands.Ping)
            self._riding = 0
        if self._eats_lines():
            return
        if self._ping_again:
            self._ping_again = False
            self._write(wire.Ping(), self._due)
        for message in self._held:
            self._write(message, self._due)
        self._held.clear()

    def _try_stop(self) -> None:
        """Deny what is open, and stop when nothing is, and nothing is about to be."""
        turn = self._turn
        if turn is None:
            if self._ledger.find(commands.Prompt) is None:  # at rest: it would end the process for nothing
                self._stop_waits = False
                self._known += self._ledger.settle_all(commands.Stop)
            return
        waiting = [i for i, call in turn.calls.items() if call.asked and not call.running]
        for call_id in waiting:
            if call_id not in self._answered:
                self._answered.add(call_id)
                self._write(wire.ToolDeny(call_id, STOPPED), self._due)
                self._denied = True
        if waiting or self._fence:
            return
        if self._denied:  # the reply may have more calls: by the answer to a ping the next has been asked about
            self._denied = False
            self._fence = self._ledger.add(commands.Ping())
            self._write(wire.Ping(), self._due)
            return
        self._stop_waits, self._stop_sent = False, True
        self._write(wire.Stop(), self._due)

    def _eats_lines(self) -> bool:
        """A program runs that may read what we write."""
        calls = self._turn.calls if self._turn is not None else {}
        return any(call.running and self._is_shell(i, call.name) for i, call in calls.items())

    def _is_shell(self, call_id: str, name: str) -> bool:
        return name in SHELLS or self._kinds.get(call_id) == "exec"

    # --- how each command is sent; None: not now ---

    def _send_prompt(self, command: commands.Prompt, message: Struct, key: str) -> Struct:
        self._opening, self._stop_sent = False, False
        return message

    def _send_stop(self, command: commands.Stop, message: Struct, key: str) -> None:
        self._stop_waits = not self._stop_sent or self._turn is None

    def _send_answer(self, command: commands.Approve | commands.Deny, message: Struct, key: str) -> Struct | Refusal:
        if key in self._answered:
            return Refusal("not_pending", "that call has its answer")
        self._answered.add(key)
        kind = self._kinds.get(key)
        if kind is not None and isinstance(command, commands.Approve) and command.scope in ("always", "category"):
            self._kept.add(kind)
        return message

    def _send_history(self, command: commands.InitHistory, message: Struct, key: str) -> Refusal:
        return Refusal("unsupported", NO_HISTORY)

    def _send_server(self, command: commands.AddMcpServer, message: Struct, key: str) -> Struct | Refusal:
        return message if self._opening else Refusal("too_late", texts.server_too_late(command.name))

    def _send_ping(self, command: commands.Ping, message: Struct, key: str) -> Struct | None:
        if self._opening and self._ledger.find(commands.AddMcpServer) is not None:
            self._riding += 1
            return None
        return self._send_when_read(command, message, key)

    def _send_config(self, command: commands.SetConfig, message: Struct, key: str) -> Struct | None:
        if self._turn is not None or self._ledger.find(commands.Prompt) is not None:
            self._queued = command if self._queued is None else merged(self._queued, command)
            whole = sending.set_config(self._queued)
            message = message if isinstance(whole, Refusal) else whole
        return self._send_when_read(command, message, key)

    def _send_when_read(self, command: Command, message: Struct, key: str) -> Struct | None:
        self._opening = False
        if not self._held and not self._eats_lines():
            return message
        self._held.append(message)
        return None

    # --- lines ---

    def _on_ready(self, message: reading.Ready) -> Said:
        before, again = self._total, self._over
        said = super()._on_ready(message)
        self._original = is_original(message.version)
        self._session = message.session_id or ""
        self._is_ready, self._over, self._opening, self._stop_sent = True, False, True, False
        if self._original:
            if again and before is not None:
                self._total = before
            elif self._kind != "new":
                self._total = RunningTotal(known=False)
            if again:
                self._tell_again()
        return [
            structs.replace(item, event=structs.replace(item.event, kind=self._kind))
            if isinstance(item, Heard) and isinstance(item.event, bus.SessionOpened)
            else item
            for item in said
        ]

    def _tell_again(self) -> None:
        for command, message, key in self._standing.again():
            self._opening = self._opening and isinstance(command, commands.AddMcpServer)
            self._ledger.add(command, key)
            self._write(message, self._due)

    def _start(self, msg_id: str) -> Said:
        said = super()._start(msg_id)
        self._kinds.clear()
        self._answered.clear()
        if self._turn is not None:
            self._turn.stopping = self._stop_waits
        return said

    def _finish(self, turn: OpenTurn, usage: bus.Usage) -> Said:
        said = super()._finish(turn, usage)
        self._queued, self._denied, self._fence = None, False, 0
        if self._stop_sent and not (
            self._probe or self._over
        ):  # it ended before the stop was read, which then meets an idle agent
            self._probe = self._ledger.add(commands.Ping())
            self._write(wire.Ping(), self._due)
        return said

    def _on_tool_request(self, message: reading.ToolRequest) -> Said | None:
        said, turn = super()._on_tool_request(message), self._turn
        if said is None or turn is None or not self._original:
            return said
        self._answered.discard(message.call_id)
        kind = self._kinds[message.call_id] = reading.category(message.tool.category)
        if not turn.stopping:
            if kind not in self._kept:
                return said
            self._answered.add(message.call_id)
            self._write(wire.ToolApprove(message.call_id), self._due)
        # The host has answered it before, be it by stopping the turn.
        return [
            item for item in said if not (isinstance(item, Heard) and isinstance(item.event, bus.ApprovalRequested))
        ]

    def _on_tool_result(self, message: reading.ToolResult) -> Said | None:
        call = self._turn.calls.get(message.call_id) if self._turn is not None else None
        said = super()._on_tool_result(message)
        if call is not None and said is not None and self._is_shell(message.call_id, call.name):
            self._ping_again = self._pings_out > 0
        return said

    def _on_pong(self, message: reading.Pong) -> Said:
        self._pings_out = max(0, self._pings_out - 1)
        ping = self._ledger.find(commands.Ping)
        if ping is None or not self._original:
            return super()._on_pong(message)
        refused = self._ledger.settle_all(*_ANSWERED, before=ping.number, result=Refusal("bad_params", UNHEEDED))
        if ping.number == self._fence:
            self._fence = 0
        if ping.number == self._probe:
            self._probe, self._stop_sent = 0, False
        return [*refused, *super()._on_pong(message)]

    def _on_mcp_ready(self, message: reading.McpReady) -> Said:
        sent = self._ledger.find(commands.AddMcpServer, key=message.name)
        if sent is not None and isinstance(sent.command, commands.AddMcpServer) and message.tools:
            self._standing.add(sent.command)
        return super()._on_mcp_ready(message)

    def _on_info(self, message: reading.Info) -> Said | None:
        told = texts.read_info(message.message)
        sent: Any = self._ledger.find(commands.SetConfig)
        if told is not None:
            if told.kind == "mode":
                self._standing.mode = told.mode
            elif told.kind in ("config", "queued") and not told.deferred and sent is not None:
                self._standing.set(sent.command)
        elif self._original and not message.msg_id:
            said = self._begin_unsaid()
            return [*said, Heard(bus.Notice(message.message), "", None if self._turn is None else self._turn.ref)]
        return super()._on_info(message)

    def _on_error(self, message: reading.Error) -> Said:
        said: Said = []
        if self._original and not message.msg_id and unplaced(reading.error(message.error)):
            said = self._begin_unsaid()
        return [*said, *super()._on_error(message)]

    def _begin_unsaid(self) -> Said:
        """A message that is a command of the binary's own (``/help``) gets its answer before the turn has begun."""
        sent = self._ledger.find(commands.Prompt)
        if self._turn is not None or sent is None or not isinstance(sent.command, commands.Prompt):
            return []
        parts = sending.prompt_parts(sent.command)
        text = next((part.text for part in parts if isinstance(part, bus.Text)), "")
        return self._start(sent.key) if text.lstrip().startswith("/") else []


_ANSWERED: Final = (commands.SetMode, commands.SetConfig, commands.AddMcpServer)
"""Commands that are answered before a ping that follows them, if at all."""

_Manner = Callable[[AionrsDriver, Any, Struct, str], "Struct | Refusal | None"]

_MANNERS: Final[dict[type[Command], _Manner]] = {
    commands.Prompt: AionrsDriver._send_prompt,
    commands.Stop: AionrsDriver._send_stop,
    commands.Approve: AionrsDriver._send_answer,
    commands.Deny: AionrsDriver._send_answer,
    commands.InitHistory: AionrsDriver._send_history,
    commands.AddMcpServer: AionrsDriver._send_server,
    commands.SetMode: AionrsDriver._send_when_read,
    commands.SetConfig: AionrsDriver._send_config,
    commands.Ping: AionrsDriver._send_ping,
}
"""How the binary is sent a command."""

AionrsDriver.handlers = Hearing.handlers | {
    reading.Ready: AionrsDriver._on_ready,
    reading.ToolRequest: AionrsDriver._on_tool_request,
    reading.ToolResult: AionrsDriver._on_tool_result,
    reading.Pong: AionrsDriver._on_pong,
    reading.McpReady: AionrsDriver._on_mcp_ready,
    reading.Info: AionrsDriver._on_info,
    reading.Error: AionrsDriver._on_error,
}
