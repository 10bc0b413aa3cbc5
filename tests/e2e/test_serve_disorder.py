"""A host and a model service without manners: whatever they do, in whatever order, the rules of the wire hold.

Every line is checked by :class:`support.wire_rules.WireRules`, every model request by the strict service. The random
numbers are always the same; the interleaving with the server's own pace is not, and need not be.
"""

from __future__ import annotations

import random

import pytest
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import find
from support.replies import Answer, Cut, JsonObject, Part, Refused, Reply, Text, Thinking, ToolCall

pytestmark = pytest.mark.slow

STEPS = 150
GARBAGE = [b"\n", b"no json\n", b"[1]\n", b'{"type":"foo"}\n', b'{"type":"message"}\n', b"\xff\xfe\n"]


class Moody:
    """A model that answers as it likes. It repeats call ids, breaks off and is overloaded now and then."""

    def __init__(self, number: int, path: str) -> None:
        self._random = random.Random(number)
        self._path = path

    def __call__(self, body: JsonObject) -> Answer:
        choose = self._random.random()
        if choose < 0.05:
            return Refused(400, "not like this")
        if choose < 0.1:
            return Refused(503, "busy", {"retry-after": "0"})
        parts: list[Part] = [Thinking("Hm. ")] * self._random.randrange(3)
        parts += [Text(f"word {n} ") for n in range(self._random.randrange(20))]
        if choose < 0.15:
            return Reply(*parts, Cut())
        if choose < 0.6:
            parts += [self._call(n) for n in range(self._random.randrange(1, 4))]
        return Reply(*parts, "done")

    def _call(self, number: int) -> ToolCall:
        calls: list[tuple[str, JsonObject | str]] = [
            ("Read", {"file_path": self._path}),
            ("ExecCommand", {"cmd": "echo x; sleep 0.01"}),
            ("ExecCommand", {"cmd": "sleep 30", "timeout": 200}),
            ("Glob", {"pattern": "*"}),
            ("Nope", {"a": None}),
            ("Glob", "{broken"),
            ("", {}),
        ]
        name, arguments = self._random.choice(calls)
        return ToolCall(f"call_{number}", name, arguments)


ACTIONS = ["message"] * 4 + ["approve"] * 8 + ["watch"] * 12 + ["deny", "stop", "mode", "config", "garbage", "burst"]


class Rude:
    """A host that sends what it likes when it likes, and looks up now and then."""

    def __init__(self, number: int, agent: AgentProcess) -> None:
        self._random = random.Random(number)
        self._agent = agent
        self.sent: list[str] = []
        self.pings = 0

    def _some_call(self) -> str:
        waiting = [call for call, state in self._agent.rules.calls.items() if state == "asked"]
        settled = [call for call, state in self._agent.rules.calls.items() if state == "closed"]
        return self._random.choice(waiting * 5 + settled[-3:] or ["none"])

    async def act(self) -> None:
        """Do one thing."""
        choose, agent = self._random.choice, self._agent
        action = choose(ACTIONS)
        if action == "message":
            self.sent.append(f"m{len(self.sent)}")
            await agent.message(self.sent[-1], "go on")
        elif action == "approve":
            await agent.approve(self._some_call(), scope=choose(["once"] * 9 + ["always"]))
        elif action == "deny":
            await agent.deny(self._some_call(), "no")
        elif action == "stop":
            await agent.stop()
        elif action == "mode":
            await agent.send({"type": "set_mode", "mode": choose(["default", "auto_edit", "yolo"])})
        elif action == "config":
            await agent.send({"type": "set_config", "model": choose(["a", "b"]), "effort": choose(["low", "x"])})
        elif action == "garbage":
            await agent.send_bytes(choose(GARBAGE))
        elif action == "burst":
            self.pings += 3
            await agent.send({"type": "stop"}, *[{"type": "ping"}] * 3)
        await self._look(action == "watch")

    async def _look(self, watch: bool) -> None:
        """See what there is; when watching, up to the next question or the end of the turn."""
        await self._agent.send({"type": "ping"})
        self.pings += 1
        await self._agent.until("pong")
        while watch and self._agent.rules.open_turn and "asked" not in self._agent.rules.calls.values():
            await self._agent.next_event()


@pytest.mark.parametrize(("number", "provider"), [(3, "openai"), (10, "anthropic")])
async def test_the_rules_hold_in_disorder(number: int, provider: str, launch: Launcher, model: ModelService) -> None:
    model.choose = Moody(number, launch.write("a.txt", "x\n"))
    agent = await launch("--session-id", "s", provider=provider)
    host = Rude(number, agent)
    for _ in range(STEPS):
        await host.act()
    await agent.stop()
    await agent.message("last", "stop me")
    await agent.stop()
    for event in agent.events:
        assert event["type"] != "error" or event["error"]["code"] != "internal_error", event
    await launch.close(agent)
    started = [event["msg_id"] for event in find(agent.events, "stream_start")]
    ended = [event["msg_id"] for event in find(agent.events, "stream_end")]
    refused = [
        event["msg_id"] for event in find(agent.events, "error", error__code="protocol_error") if event["msg_id"]
    ]
    assert started == ended
    assert sorted(started + refused) == sorted([*host.sent, "last"])
    assert len(find(agent.events, "pong")) == host.pings
    assert find(agent.events, "tool_request")
    assert find(agent.events, "tool_result")

    model.choose = None
    model.script("calm again")
    agent = await launch("--resume", "s", provider=provider)
    await agent.message("after")
    events = await agent.turn("after")
    assert find(events, "text_delta", text="calm again")
