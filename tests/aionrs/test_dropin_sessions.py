"""``agentwire-aionrs --resume`` with what aionrs has left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.agent_process import AgentProcess
from support.dropin import MODULE, refused, start
from support.launcher import Launcher
from support.model_service import ModelService
from support.original_sessions import (
    assistant,
    image,
    result,
    state,
    thinking,
    use,
    user,
    write_current,
    write_older,
)
from support.patterns import said
from support.replies import JsonObject, Reply, ToolCall

pytestmark = pytest.mark.slow

TALK = (user("Remember 42."), assistant("Noted."))
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def base(launch: Launcher) -> Path:
    """Where aionrs keeps sessions unless it is told otherwise."""
    return launch.workspace / ".aionrs" / "sessions"


def flags(launch: Launcher, provider: str = "openai") -> tuple[str, ...]:
    """The beginning of every command line."""
    return "--provider", provider, "--model", "test-model", "--base-url", launch.url


async def ask(
    agent: AgentProcess, model: ModelService, content: str = "Which number?", answer: str = "42."
) -> list[JsonObject]:
    """A message and its answer; the messages that the model read."""
    model.script(answer)
    await agent.message("m1", content)
    assert said(await agent.turn("m1")) == answer
    return model.requests[-1].messages


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("write", [write_current, write_older])
async def test_a_conversation_goes_on(
    write: Callable[..., Path], launch: Launcher, model: ModelService, base: Path
) -> None:
    """Same id, same history, and aionrs's files as they were; the second time it is our own session."""
    write(base, state("conv-1", *TALK))
    before = files(launch.workspace)
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    assert agent.events[0]["session_id"] == "conv-1"
    assert [message["content"] for message in await ask(agent, model)] == ["Remember 42.", "Noted.", "Which number?"]
    await launch.close(agent)
    assert files(launch.workspace) == before
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    told = await ask(agent, model, "Again?", "42, again.")
    assert [message["content"] for message in told] == ["Remember 42.", "Noted.", "Which number?", "42.", "Again?"]


async def test_a_process_killed_in_the_middle_of_its_calls(launch: Launcher, model: ModelService, base: Path) -> None:
    """A call without a result would make a service refuse every request from here on."""
    calls = assistant("Reading.", use("t1", "Read", {"file_path": "/a"}), use("t2", "Read", {"file_path": "/b"}))
    write_current(base, state("conv-1", user("Read both"), calls, user(result("t1", "one"))))
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    await ask(agent, model)
    results = model.requests[0].results
    assert results["t1"] == "one"
    assert "interrupted" in results["t2"]


async def test_a_later_call_does_not_clash_with_an_old_one(launch: Launcher, model: ModelService, base: Path) -> None:
    write_current(
        base,
        state("c", user("a"), assistant(use("call_1", "Read", {})), user(result("call_1", "old")), assistant("b")),
    )
    agent = await start(launch, *flags(launch), "--resume", "c", "--auto-approve")
    model.script(Reply(ToolCall("call_1", "ExecCommand", {"cmd": "echo new"})), "ok")
    await agent.message("m1")
    await agent.turn("m1")
    results = model.requests[1].results
    assert len(results) == 2
    assert results["call_1"] == "old"


async def test_signed_thinking_goes_back_to_its_service(launch: Launcher, model: ModelService, base: Path) -> None:
    content = [
        thinking("I should read.", "c2lnbmVk"),
        {"type": "text", "text": "Reading."},
        use("t1", "Read", {"a": 1}),
    ]
    kept = state(
        "c", user("go"), assistant(*content), user(result("t1", "one")), assistant("Done."), provider="anthropic"
    )
    write_current(base, kept)
    agent = await start(launch, *flags(launch, "anthropic"), "--resume", "c")
    messages = await ask(agent, model)
    assert messages[1]["role"] == "assistant"
    assert messages[1]["content"] == content
    await launch.close(agent)
    agent = await start(launch, *flags(launch, "openai"), "--resume", "c")
    messages = await ask(agent, model)
    assert messages[1]["content"] == "Reading."
    assert "c2lnbmVk" not in model.requests[-1].raw.decode()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_images_are_still_seen(provider: str, launch: Launcher, model: ModelService, base: Path) -> None:
    write_current(base, state("c", user("What is this?", image(PNG)), assistant("A dot.")))
    agent = await start(launch, *flags(launch, provider), "--resume", "c")
    await ask(agent, model)
    assert PNG in model.requests[0].raw.decode()


async def test_latest_is_the_newest_of_both_kinds(launch: Launcher, model: ModelService, base: Path) -> None:
    write_current(base, state("older", *TALK, created_at="2020-01-01T00:00:00Z"))
    write_older(base, state("newer", *TALK, created_at="2021-01-01T00:00:00Z"))
    (base / "sessions" / "broken").mkdir()
    (base / "sessions" / "broken" / "state.json").write_text("{")
    agent = await start(launch, *flags(launch), "--resume", "latest")
    assert agent.events[0]["session_id"] == "newer"
    await launch.close(agent)
    agent = await start(launch, *flags(launch), "--session-id", "ours")
    await launch.close(agent)
    agent = await start(launch, *flags(launch), "--resume", "latest")
    assert agent.events[0]["session_id"] == "ours"


async def test_a_fork_leaves_both_as_they_were(launch: Launcher, model: ModelService, base: Path) -> None:
    write_current(base, state("conv-1", *TALK))
    agent = await start(launch, *flags(launch), "--resume", "conv-1", "--fork-session")
    forked = agent.events[0]["session_id"]
    assert forked != "conv-1"
    await ask(agent, model)
    await launch.close(agent)
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    told = await ask(agent, model, "And?")
    assert [message["content"] for message in told] == ["Remember 42.", "Noted.", "And?"]


async def test_a_session_in_another_directory(launch: Launcher, model: ModelService) -> None:
    launch.write(".aionrs.toml", '[session]\ndirectory = "kept/here"\n')
    write_current(launch.workspace / "kept" / "here", state("conv-1", *TALK))
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    assert len(await ask(agent, model)) == 3


async def test_sessions_switched_off_are_still_resumed(launch: Launcher, model: ModelService, base: Path) -> None:
    (launch.config / "agentwire.toml").write_text(f'trusted_workspaces = ["{launch.workspace}"]\n')
    launch.write(".aionrs.toml", "[session]\nenabled = false\n")
    write_current(base, state("conv-1", *TALK))
    agent = await start(launch, *flags(launch), "--resume", "conv-1")
    assert len(await ask(agent, model)) == 3


async def test_a_broken_file_asked_for(launch: Launcher, base: Path) -> None:
    path = write_current(base, state("conv-1", *TALK))
    path.write_text(path.read_text()[:200])
    await refused(launch, *flags(launch), "--resume", "conv-1", message=f"The session file {path} is broken: ")
    agent = await start(launch, *flags(launch), "--session-id", "conv-1")  # what a host does next
    assert agent.events[0]["session_id"] == "conv-1"


async def test_an_id_that_aionrs_has_is_taken(launch: Launcher, base: Path) -> None:
    write_current(base, state("conv-1", *TALK))
    await refused(launch, *flags(launch), "--session-id", "conv-1", message="Session ID 'conv-1' already exists")


@pytest.mark.parametrize("session", ["../../secret", "..", "x/../../y"])
async def test_no_id_leads_out_of_the_directory(session: str, launch: Launcher, base: Path) -> None:
    write_current(launch.workspace, state(session, *TALK), "secret")
    base.mkdir(parents=True)
    await refused(launch, *flags(launch), "--resume", session, message=session)


async def test_the_start_stays_quick(launch: Launcher, model: ModelService, base: Path) -> None:
    """A host that waits too long for ``ready`` starts another one under the same id."""
    turns: list[Any] = [message for n in range(3000) for message in (user(f"{n}"), assistant("x" * 300))]
    write_current(base, state("long", *turns))
    agent = await launch.spawn("--json-stream", *flags(launch), "--resume", "long", module=MODULE)
    ready = await agent.next_event(timeout=5)
    assert ready["type"] == "ready"
    assert len(await ask(agent, model)) == 6001
