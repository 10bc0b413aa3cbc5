"""Starting ``agentwire-aionrs`` the way a host starts aionrs."""

from __future__ import annotations

from collections.abc import Mapping

from .agent_process import AgentProcess
from .launcher import Launcher

MODULE = "agentwire_aionrs.command"


async def start(launch: Launcher, *arguments: str, environ: Mapping[str, str | None] | None = None) -> AgentProcess:
    """Start it in the workspace and read its ``ready``."""
    agent = await launch.spawn("--json-stream", *arguments, environ=environ, module=MODULE)
    await agent.expect("ready")
    return agent


async def refused(launch: Launcher, *arguments: str, message: str, status: int = 1) -> None:
    """It does not start: the host reads why in one line, a person on standard error."""
    agent = await launch.spawn("--json-stream", *arguments, module=MODULE, expected=(status,))
    assert await agent.wait_exit() == status
    [event] = agent.events
    assert event["msg_id"] is None
    assert event["error"]["code"] == "config_error"
    assert not event["error"]["retryable"]
    assert message in event["error"]["message"]
    assert message in agent.errors
