"""Recordings of both directions, made by real agents and their hosts, and hosts that play a recording through."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trio
from msgspec import UNSET
from msgspec.structs import replace
from support.stage import SocketTransport
from wires import WIRES, split

from agentwire import commands
from agentwire import events as bus
from agentwire.codec import Codec
from agentwire.codec.framing import HOST_LIMIT, Framer
from agentwire.commands import Command, Refusal
from agentwire.host import connect
from agentwire.recording import Recording, open_recording
from agentwire.replay.pace import Pace
from agentwire.replay.standing_in import StandIn
from agentwire.transcode import Asked, LogReader

PLAY: list[dict[str, Any]] = [
    {
        "text": "I will do two things. ",
        "tool_calls": [
            {"id": "c1", "name": "ExecCommand", "arguments": {"cmd": "echo made"}},
            {"id": "c2", "name": "ExecCommand", "arguments": {"cmd": "echo never"}},
        ],
    },
    {"reasoning": "hm", "text": "It is done.", "usage": {"input_tokens": 9, "output_tokens": 3}},
    {"text": "And \u2014 \u2028 again."},
    {"steps": [{"text": "for "}, {"text": "ever "}, {"delay_ms": 60_000}, {"text": "more"}]},
]
"""A model's replies: two calls, an answer, another, and one that has to be stopped."""


async def record(codec: str, folder: Path) -> Path:
    """What ``agentwire serve --record`` makes of a conversation: a call that is allowed and one that is not, a second
    turn, and one that is stopped."""
    path, script = folder / "rec.jsonl", folder / "play.jsonl"
    name = WIRES[codec].policy.tool_names.get("ExecCommand", "ExecCommand")
    script.write_text("".join(json.dumps(reply) + "\n" for reply in PLAY).replace("ExecCommand", name))
    argv = [
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--ephemeral",
        "--provider-option", f"script={script}", "--workspace", str(folder), "--record", str(path),
    ]  # fmt: skip
    asked: list[str] = []

    def on_approval(question: bus.ApprovalRequested) -> bool:
        asked.append(question.call_id)
        return len(asked) == 1

    with trio.fail_after(60):
        async with connect.connect(argv, codec=codec, cwd=folder, on_approval=on_approval) as peer:
            await peer.ask("do it")
            if WIRES[codec].begin is None:  # else there is one turn a process
                await peer.ask("more")
                await _stopped(peer)
    return path


async def _stopped(peer: connect.Peer) -> None:
    """A turn that is stopped when it has begun to speak; a classic pagent never says that it ended."""
    events = peer.prompt("go on")
    async for event in events:
        if isinstance(event, bus.TextDelta):
            break
    await peer.stop()
    if peer.codec.name != "pagent":
        async for _ in events:
            pass
    await events.aclose()


def asked_of(recording: Recording, codec: Codec) -> list[Command | None]:
    """What the host asks in a recording."""
    reader = LogReader(codec)
    read = [item for entry in recording for item in reader.feed(entry)] + reader.close()
    return [item.command for item in read if isinstance(item, Asked)]


def tags(asked: list[Command | None]) -> list[str]:
    """The commands' names."""
    return ["?" if command is None else str(type(command).__struct_config__.tag) for command in asked]


def lines_of(recording: Recording) -> list[tuple[str, bytes]]:
    """Who said which line."""
    return [(entry.who, entry.data.rstrip(b"\n")) for entry in recording if entry.who in ("host", "agent")]


class Player:
    """A host of a wire that asks what was recorded, under ids of its own, each time it has heard as much as was
    recorded before that."""

    def __init__(self, recording: Recording, codec: Codec) -> None:
        self._codec = codec
        self._recording = recording
        self.heard: list[bytes] = []

    async def run(self, stream: trio.SocketStream) -> None:
        """Play it through."""
        host, framer = self._codec.host(), Framer(HOST_LIMIT)
        for command, after in self._script():
            while len(self.heard) < after:
                self.heard += (found := framer.feed(await stream.receive_some()))  # type: ignore[arg-type]
                for line in found:
                    host.receive(line)
            out = bytearray()
            sent = host.send(command, out)
            assert not isinstance(sent, Refusal), (command, sent)
            await stream.send_all(out)
        await stream.send_eof()
        async for chunk in stream:
            self.heard += framer.feed(chunk)  # type: ignore[arg-type]

    def _script(self) -> Iterator[tuple[Command, int]]:
        """Commands, and how many lines of the agent stand before each."""
        reader, told = LogReader(self._codec), 0
        first = shakes_hands = _shakes_hands(self._codec)
        for entry in self._recording:
            for item in reader.feed(entry):
                if not isinstance(item, Asked) or item.command is None:
                    continue
                if shakes_hands:  # our host side does it by itself, with its first command
                    shakes_hands = False
                    continue
                yield _anew(item.command), 0 if first else told
                first = False
            told += entry.who == "agent"


def _shakes_hands(codec: Codec) -> bool:
    out = bytearray()
    codec.host().send(commands.Ping(), out)
    return len(split(bytes(out))) > 1


def _anew(command: Command) -> Command:
    if isinstance(command, commands.Prompt):
        return replace(command, ref=None, open=False, when_busy="", approve=[])
    if isinstance(command, commands.Stop):
        return replace(command, ref=UNSET)
    return replace(command, id="") if isinstance(command, commands.OpenSession) else command


async def played_through(path: Path, codec: Codec) -> tuple[int, list[bytes]]:
    """Serve a recording to a host that asks what was recorded: the exit status, and what the host heard."""
    recording = open_recording(path)
    ours, theirs = socket.socketpair()
    player, status = Player(recording, codec), -1
    transport = SocketTransport(theirs)

    async def serve() -> None:
        nonlocal status
        status = await StandIn(recording, codec, transport, Pace(0)).run()
        transport.close()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            nursery.start_soon(player.run, trio.SocketStream(trio.socket.from_stdlib_socket(ours)))
    return status, player.heard
