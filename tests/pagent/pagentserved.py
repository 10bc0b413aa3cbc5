"""A served agent as a pagent host sees it: real pipes, and every line checked as it is read.

Lines are given to tests as ``{"type": METHOD, **params}``, so that the shared ways of looking at events fit them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import trio
from jsonschema import Draft202012Validator
from pagent.wire import decode_event_line, encode_event_line
from pagentlines import CODECS
from pagentv4.adapters.acp import decode_event_line as decode_v4
from pagentv4.adapters.acp import encode_event_line as encode_v4
from support.agent_process import PATIENCE, AgentProcess
from support.launcher import Launcher
from support.replies import JsonObject

from agentwire_pagent import wire

_CONTROL = frozenset(wire.CONTROL)
_DELTAS = ("TextDelta", "ReasoningDelta")


class PagentRules:
    """What must hold of every stream (sections 1 and 3): the peer's own encoding, and one thing at a time.

    :attr:`open_turn` is not None while a run is under way that will say its end: a classic one may just stop.
    """

    def __init__(self, dialect: str) -> None:
        self.v4 = dialect == "pagent-v4"
        schemas = CODECS["v4" if self.v4 else "classic"].schemas
        assert schemas is not None
        self._schema = Draft202012Validator(schemas()[f"{dialect}.events.json"])
        self.open_turn: str | None = None
        self._running = False
        self._turn: int | None = None
        self._call: str | None = None

    def read(self, line: bytes) -> JsonObject:
        """Check one line, given without its line feed."""
        text = line.decode() + "\n"
        message = json.loads(text)
        method, params = message["method"], message["params"]
        assert json.dumps(message, ensure_ascii=False) + "\n" == text, text
        if method not in _DELTAS:
            self._schema.validate(message)
        if not self.v4:
            assert encode_event_line(decode_event_line(text)) == text
        elif method not in _CONTROL:
            assert encode_v4(decode_v4(text)) == text
        self._place(method, params)
        return {"type": method, **params}

    def _place(self, method: str, params: JsonObject) -> None:
        if method in _CONTROL and method not in ("PermitRequest", "Error"):
            return
        if method == "RunBegin":
            assert not (self._running and self.v4), "a run began inside another"
            self._running, self._turn, self._call = True, None, None
            self.open_turn = "run" if self.v4 else None
            return
        if method == "Error" and params["where"] != "turn":
            return
        assert self._running, f"outside a run: {method}"
        if method in ("RunEnd", "Error"):
            self._running, self.open_turn = False, None
        elif method == "TurnBegin":
            assert params["turn"] == (0 if self._turn is None else self._turn + 1)
            self._turn = params["turn"]
        elif method == "TurnEnd":
            assert params["turn"] == self._turn
            assert self._call is None
        elif method == "ToolCallBegin":
            assert self._call is None, "a call began before the result of another"
            self._call = params["tool_call_id"]
        elif method in ("PermitRequest", "ToolResult"):
            assert params["tool_call_id"] == self._call
            self._call = None if method == "ToolResult" else self._call


class PagentProcess(AgentProcess):
    """One ``agentwire serve --codec pagent`` or ``pagent-v4``."""

    async def user(self, text: str = "go") -> None:
        """Send a user input."""
        await self.send({"cmd": "user", "text": text})

    async def run(self) -> list[JsonObject]:
        """Every line up to the end of the run."""
        return await self.until("RunEnd")

    async def fence(self) -> None:
        """Prove that nothing was said in answer to all earlier lines: v4 answers ``commands``, classic with a run."""
        await self.send({"cmd": "commands"})
        await self.expect("SlashCommands", commands=[])

    async def begin(self) -> JsonObject:
        """Read what v4 says first; the thread that is shown."""
        await self.expect("SlashCommands", commands=[])
        return await self.expect("CurrentThread")

    async def says(self, word: str) -> None:
        """Wait until that stands on standard error."""
        with trio.move_on_after(PATIENCE):
            while word not in self.errors:  # noqa: ASYNC110 - what a person reads comes with no event
                await trio.sleep(0.02)
            return
        raise AssertionError(f"never said: {word}\n{self.story()}")

    @property
    def words(self) -> list[str]:
        """What was written on standard error in the peer's way, without time and level."""
        return [line.partition("[wire] ")[2] for line in self.errors.splitlines() if "[wire] " in line]


class PagentLauncher(Launcher):
    """Starts servers that speak one of the two dialects."""

    async def spawn(
        self,
        *arguments: str,
        environ: Mapping[str, str | None] | None = None,
        python: tuple[str, ...] = (),
        expected: tuple[int, ...] = (0,),
        module: str = "agentwire",
    ) -> PagentProcess:
        """Run ``python -m agentwire ARGUMENTS``; the dialect is what stands after ``--codec``."""
        changed = {**self.environ, **(environ or {})}
        agent = await PagentProcess.spawn(
            self._nursery,
            arguments,
            cwd=self.workspace,
            environ={name: value for name, value in changed.items() if value is not None},
            python=python,
            module=module,
        )
        assert isinstance(agent, PagentProcess)
        agent.rules = PagentRules(arguments[arguments.index("--codec") + 1])  # type: ignore[assignment]  # alike
        self.agents.append(agent)
        self._expected[agent] = frozenset(expected)
        return agent

    async def __call__(  # type: ignore[override]  # another dialect has no `ready`
        self, *arguments: str, codec: str = "pagent-v4", provider: str = "openai", expected: tuple[int, ...] = (0,)
    ) -> PagentProcess:
        """Start ``agentwire serve`` on the scripted service; v4's first lines are read."""
        serve = [codec if argument == "aionrs" else argument for argument in self.serve(provider)]
        agent = await self.spawn(*serve, *arguments, expected=expected)
        if codec == "pagent-v4":
            await agent.begin()
        return agent


def names(events: list[JsonObject]) -> list[str]:
    """The methods of lines, runs of deltas joined into one."""
    methods = [event["type"] for event in events]
    return [name for n, name in enumerate(methods) if name not in _DELTAS or n == 0 or methods[n - 1] != name]


def text(events: list[JsonObject]) -> str:
    """The answer, put together."""
    return "".join(event["text"] for event in events if event["type"] == "TextDelta")
