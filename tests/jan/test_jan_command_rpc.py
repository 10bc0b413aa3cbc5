"""``agentwire-jan cli agent rpc``: the RPC with the services of Jan's own configuration."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from jancommand import MODULE, configure
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import matches
from support.replies import JsonObject, Reply, ToolCall
from support.serving import launch, model
from support.wire_rules import compact

__all__ = ["launch", "model"]


class RpcRules:
    """Compact JSON-RPC."""

    open_turn = None

    def read(self, line: bytes) -> JsonObject:
        """Check one line and decode it."""
        frame: JsonObject = json.loads(line)
        assert compact(frame) == line
        assert frame["jsonrpc"] == "2.0"
        return frame


class RpcProcess(AgentProcess):
    """The program, driven by requests."""

    def __init__(self, process: trio.Process) -> None:
        super().__init__(process)
        self.rules = RpcRules()  # type: ignore[assignment]
        self.asked = 0

    async def ask(self, method: str, **params: Any) -> JsonObject:
        """Send a request and read up to its answer."""
        self.asked += 1
        await self.send({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        while "id" not in (frame := await self.next_event()):
            pass
        assert frame["id"] == self.asked
        return frame

    async def notified(self, method: str) -> JsonObject:
        """Read up to a notification."""
        while not matches(frame := await self.next_event(), {"method": method}):
            pass
        params: JsonObject = frame["params"]
        return params


@pytest.fixture
async def rpc(nursery: trio.Nursery, launch: Launcher) -> AsyncIterator[RpcProcess]:
    configure(launch, model="stub-model")
    configure(launch, "other", model="other-model")
    process = await RpcProcess.spawn(
        nursery, ("cli", "agent", "rpc"), cwd=launch.workspace, environ=launch.environ, module=MODULE
    )
    assert isinstance(process, RpcProcess)
    try:
        yield process
        await process.close_stdin()
        assert await process.wait_exit() == 0
        assert "Traceback" not in process.errors, process.errors
    finally:
        if process.running:
            process.kill()


async def handshake(rpc: RpcProcess) -> None:
    info = {"name": "t", "version": "1"}
    answer = await rpc.ask("initialize", protocolVersion=1, clientInfo=info, capabilities={})
    assert answer["result"]["serverInfo"]["name"] == "jan"
    await rpc.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})


async def test_a_turn_on_the_default_model(rpc: RpcProcess, launch: Launcher, model: ModelService) -> None:
    """The first model of the first service, with that service's key."""
    await handshake(rpc)
    started = (await rpc.ask("session/start", cwd=str(launch.workspace)))["result"]
    assert started["model"] == "other-model"
    model.script("Hello")
    await rpc.ask("turn/start", sessionId=started["sessionId"], input="hi")
    ended = await rpc.notified("turn/completed")
    assert (ended["stopReason"], ended["error"]) == ("completed", None)
    assert model.requests[0].body["model"] == "other-model"
    assert model.requests[0].headers["authorization"] == "Bearer test-key"


async def test_the_configured_models_are_those_that_there_are(
    rpc: RpcProcess, launch: Launcher, model: ModelService
) -> None:
    await handshake(rpc)
    where = str(launch.workspace)
    refused = await rpc.ask("session/start", cwd=where, model="no-such-model")
    assert refused["error"]["code"] == -32602
    assert "no-such-model" in refused["error"]["message"]
    started = (await rpc.ask("session/start", cwd=where, model="stub/stub-model"))["result"]
    session = started["sessionId"]
    assert started["model"] == "stub-model"
    refused = await rpc.ask("session/model/set", sessionId=session, model="no-such-model")
    assert "no-such-model" in refused["error"]["message"]
    assert (await rpc.ask("session/model/set", sessionId=session, model="other-model"))["result"] == {
        "model": "other-model"
    }
    model.script("ok")
    await rpc.ask("turn/start", sessionId=session, input="hi")
    await rpc.notified("turn/completed")
    assert model.requests[0].body["model"] == "other-model"


async def test_what_would_change_something_is_asked_about(
    rpc: RpcProcess, launch: Launcher, model: ModelService
) -> None:
    """Unlike a run, the RPC asks unless it is told otherwise."""
    await handshake(rpc)
    session = (await rpc.ask("session/start", cwd=str(launch.workspace)))["result"]["sessionId"]
    model.script(Reply(ToolCall("c1", "shell", {"cmd": "touch made"})), "ok")
    await rpc.ask("turn/start", sessionId=session, input="hi")
    question = (await rpc.notified("item/permission_request"))["event"]
    assert question["tool_name"] == "shell"
    await rpc.ask("permission/respond", requestId=question["request_id"], decision="deny")
    assert (await rpc.notified("turn/completed"))["stopReason"] == "completed"
    assert not (launch.workspace / "made").exists()
