"""``agentwire serve --codec jan`` as a process: requests, notifications, and what must hold of every line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import trio
from janlines import INITIALIZED, published_events
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.patterns import matches
from support.replies import JsonObject
from support.wire_rules import compact

EVENTS = published_events()

SAMPLE = 100
"""So many events of each kind are held against the schema, which takes its time."""


class RpcRules:
    """Each line is compact JSON-RPC; each event fits Jan's schema and nothing of a turn comes after its end."""

    open_turn: str | None = None

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self._seen: Counter[str] = Counter()

    def read(self, line: bytes) -> JsonObject:
        """Check one line and decode it."""
        frame: JsonObject = json.loads(line)
        assert compact(frame) == line
        assert frame["jsonrpc"] == "2.0"
        if "method" not in frame:
            assert list(frame) in (["jsonrpc", "id", "result"], ["jsonrpc", "id", "error"])
            if "error" in frame:
                assert list(frame["error"]) == ["code", "message", "data"]
            return frame
        params = frame["params"]
        assert params["turnId"] not in self.ended, "a line after the turn's end"
        if frame["method"] == "turn/completed":
            assert list(params) == ["sessionId", "turnId", "stopReason", "error"]
            self.ended.add(params["turnId"])
        else:
            assert frame["method"] == "item/" + params["event"]["type"]
            kind = params["event"]["type"]
            self._seen[kind] += 1
            if self._seen[kind] <= SAMPLE:
                EVENTS.validate(params["event"])
        return frame


class Jan(AgentProcess):
    """The server, driven by requests. ``notes`` are the notifications read so far."""

    def __init__(self, process: trio.Process) -> None:
        super().__init__(process)
        self.rules = RpcRules()  # type: ignore[assignment]
        self.asked = 0
        self.notes: list[JsonObject] = []

    # --- requests ---

    async def write(self, method: str, params: Any = None, /, **more: Any) -> int:
        """Send a request; its id."""
        self.asked += 1
        await self.send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params or more})
        return self.asked

    async def answered(self, number: int) -> JsonObject:
        """Read up to the answer with that id; notifications on the way are kept."""
        while "id" not in (frame := await self.next_event()):
            self.notes.append(frame)
        assert frame["id"] == number, frame
        return frame

    async def ask(self, method: str, /, **params: Any) -> JsonObject:
        """The result of a request."""
        frame = await self.answered(await self.write(method, params))
        assert "result" in frame, frame
        result: JsonObject = frame["result"]
        return result

    async def refused(self, method: str, /, **params: Any) -> JsonObject:
        """The error that a request is answered with."""
        frame = await self.answered(await self.write(method, params))
        assert "error" in frame, frame
        error: JsonObject = frame["error"]
        return error

    async def handshake(self) -> None:
        """Section 1.3."""
        await self.ask("initialize", protocolVersion=1, clientInfo={"name": "t", "version": "1"})
        await self.send(INITIALIZED)

    async def start(self, **options: Any) -> str:
        """Open a session; its id."""
        session: str = (await self.ask("session/start", **{"cwd": ".", **options}))["sessionId"]
        return session

    async def turn(self, session: str, given: Any = "go") -> str:
        """Start a turn; its id."""
        turn: str = (await self.ask("turn/start", sessionId=session, input=given))["turnId"]
        return turn

    # --- notifications ---

    async def item(self, tag: str, **fields: Any) -> JsonObject:
        """Read up to an event; answers may not come before it."""
        while True:
            frame = await self.next_event()
            assert "method" in frame, f"an answer: {frame}\n{self.story()}"
            self.notes.append(frame)
            assert frame["method"] != "turn/completed", f"no {tag} in\n{self.story()}"
            event: JsonObject = frame["params"]["event"]
            if matches(event, {"type": tag, **fields}):
                return event

    async def end(self) -> JsonObject:
        """Read up to the end of a turn; its parameters."""
        while (frame := await self.next_event()).get("method") != "turn/completed":
            self.notes.append(frame)
        self.notes.append(frame)
        params: JsonObject = frame["params"]
        return params

    def told(self, tag: str = "") -> list[JsonObject]:
        """The events read so far, of one kind or of all."""
        found = [note["params"]["event"] for note in self.notes if "event" in note.get("params", {})]
        return [event for event in found if tag in ("", event["type"])]

    def tags(self) -> list[str]:
        """What was notified so far, neighbours of one kind once."""
        tags = [note["method"].removeprefix("item/") for note in self.notes if "method" in note]
        return [tag for n, tag in enumerate(tags) if n == 0 or tags[n - 1] != tag]


async def serve(
    nursery: trio.Nursery, launch: Launcher, *arguments: str, environ: Mapping[str, str] | None = None
) -> Jan:
    """A server of the scripted model service, after the handshake."""
    set_up = ("--provider", "openai", "--model", "test-model", "--base-url", launch.url)
    agent = await Jan.spawn(
        nursery,
        ["serve", "--codec", "jan", *set_up, *arguments],
        cwd=launch.workspace,
        environ={**launch.environ, **(environ or {})},
    )
    assert isinstance(agent, Jan)
    launch.agents.append(agent)
    launch._expected[agent] = frozenset({0})
    await agent.handshake()
    return agent
