"""New, resumed and forked sessions, and prior context from the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agent_process import AgentProcess
from support.launcher import Launcher
from support.model_service import ModelService
from support.patterns import said
from support.replies import Gate, Reply, Thinking, ToolCall

pytestmark = pytest.mark.slow


async def refused(launch: Launcher, *arguments: str, message: str, status: int = 1) -> None:
    """Start a server that cannot start: one fatal error on stdout, the same words on stderr, and the status."""
    agent = await launch.spawn(*launch.serve(), *arguments, expected=(status,))
    assert await agent.wait_exit(within=5) == status
    assert [event["type"] for event in agent.events] == ["error"]
    fatal = agent.events[0]
    assert fatal["msg_id"] is None
    assert fatal["error"] == {"code": "config_error", "message": message, "retryable": False}
    assert message in agent.errors


async def one_turn(agent: AgentProcess, msg_id: str, content: str) -> str:
    """A message and its answer."""
    await agent.message(msg_id, content)
    return said(await agent.turn(msg_id))


def journals(launch: Launcher) -> dict[Path, bytes]:
    """Every file of the session store."""
    files = (path for path in (launch.data / "sessions").rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


async def test_s17_resume_falls_back_to_a_new_session(launch: Launcher) -> None:
    """The way hosts start: resume, and if that fails a new session under the same id."""
    await refused(launch, "--resume", "nope", message="Session 'nope' not found")
    agent = await launch("--session-id", "nope")
    assert agent.events[0]["session_id"] == "nope"
    await launch.close(agent)
    await refused(launch, "--session-id", "nope", message="Session ID 'nope' already exists")
    await refused(
        launch, "--resume", "nope", "--session-id", "x", message="Cannot use --resume and --session-id together"
    )


async def test_s17_latest_without_sessions(launch: Launcher) -> None:
    await refused(launch, "--resume", "latest", message="No sessions found")


@pytest.mark.parametrize("bad", ["", ".."])
async def test_an_id_that_names_a_folder_is_refused(bad: str, launch: Launcher) -> None:
    agent = await launch.spawn(*launch.serve(), "--session-id", bad, expected=(1, 2))
    assert await agent.wait_exit() in (1, 2)
    assert [event["type"] for event in agent.events] == ["error"]
    assert agent.events[0]["error"]["code"] == "config_error"


@pytest.mark.parametrize("odd", ["../up/grüße dich", "x" * 100])
async def test_an_id_is_never_a_way_out_of_the_store(odd: str, launch: Launcher) -> None:
    agent = await launch("--session-id", odd)
    assert agent.events[0]["session_id"] == odd
    await launch.close(agent)
    files = [path for path in launch.data.rglob("*") if path.is_file()]
    assert files
    assert {path.parent for path in files} == {launch.data / "sessions"}
    await launch("--resume", odd)


async def test_s18_resume_goes_on_with_the_old_history(launch: Launcher, model: ModelService) -> None:
    """Same id; the model is the one of the command line, not the one of the file."""
    model.script("Noted.", "42.")
    agent = await launch("--session-id", "my-conv-123")
    await one_turn(agent, "m1", "Remember 42.")
    await launch.close(agent)
    agent = await launch("--resume", "my-conv-123", model="other-model")
    assert agent.events[0]["session_id"] == "my-conv-123"
    assert await one_turn(agent, "m2", "What was it?") == "42."
    request = model.requests[1]
    assert request.body["model"] == "other-model"
    assert request.texts("user") == ["Remember 42.", "What was it?"]
    assert request.texts("assistant") == ["Noted."]


async def test_s18_calls_and_results_survive_a_resume(launch: Launcher, model: ModelService) -> None:
    path = launch.write("a.txt", "hello\n")
    model.script(Reply("Reading.", ToolCall("t1", "Read", {"file_path": path})), "It says hello.", "Yes.")
    agent = await launch("--auto-approve", "--session-id", "s")
    await one_turn(agent, "m1", "Read it.")
    before = model.requests[1].messages
    await launch.close(agent)
    agent = await launch("--resume", "s")
    assert agent.events[0]["capabilities"]["current_mode"] == "default"
    await one_turn(agent, "m2", "Sure?")
    assert model.requests[2].messages[: len(before)] == before
    assert model.requests[2].texts("assistant") == ["Reading.", "It says hello."]


async def test_s18_signed_reasoning_goes_back_word_for_word(launch: Launcher, model: ModelService) -> None:
    """The service that made a reasoning block wants it back beside the call it led to, also after a resume."""
    path = launch.write("a.txt", "hello\n")
    call = ToolCall("t1", "Read", {"file_path": path})
    model.script(Reply(Thinking("Hm, "), Thinking("the file."), "Reading.", call), "It says hello.", "Yes.")
    agent = await launch("--auto-approve", "--session-id", "s", "--thinking", "enabled", provider="anthropic")
    await one_turn(agent, "m1", "Read it.")
    blocks = model.requests[1].messages[1]["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    assert blocks[0] == {"type": "thinking", "thinking": "Hm, the file.", "signature": "c2ln"}
    await launch.close(agent)
    agent = await launch("--resume", "s", "--thinking", "enabled", provider="anthropic")
    await one_turn(agent, "m2", "Sure?")
    assert model.requests[2].messages[1]["content"][0] == blocks[0]


@pytest.mark.parametrize(("first", "second"), [("anthropic", "openai"), ("openai", "anthropic")])
async def test_s18_a_session_may_go_on_with_another_service(
    first: str, second: str, launch: Launcher, model: ModelService
) -> None:
    """The provider is the one of the command line too; what only the old one understands is left out."""
    path = launch.write("a.txt", "hello\n")
    call = ToolCall("call/0:1", "Read", {"file_path": path})
    model.script(Reply(Thinking("Hm."), "Reading.", call), "It says hello.", "Yes.")
    agent = await launch("--auto-approve", "--session-id", "s", provider=first)
    await one_turn(agent, "m1", "Read it.")
    await launch.close(agent)
    agent = await launch("--resume", "s", provider=second)
    assert await one_turn(agent, "m2", "Sure?") == "Yes."
    request = model.requests[2]
    assert request.texts("assistant") == ["Reading.", "It says hello."]
    assert list(request.results.values()) == ["     1\thello"]
    assert "Hm." not in str(request.body)


async def test_s18_a_fork_leaves_the_original_alone(launch: Launcher, model: ModelService) -> None:
    model.script("one", "two", "three")
    agent = await launch("--session-id", "parent")
    await one_turn(agent, "m1", "first")
    await launch.close(agent)
    before = journals(launch)
    agent = await launch("--resume", "parent", "--fork-session")
    assert agent.events[0]["session_id"] not in ("parent", "")
    assert await one_turn(agent, "m2", "second") == "two"
    await launch.close(agent)
    after = journals(launch)
    assert {path: after[path] for path in before} == before
    assert model.requests[1].texts("user") == ["first", "second"]


async def test_s18_latest_is_the_newest_created_in_this_workspace(launch: Launcher, model: ModelService) -> None:
    """Not the last used, and not one of another workspace."""
    model.script("a")
    for name in ("older", "newer"):
        await launch.close(await launch("--session-id", name))
    agent = await launch("--resume", "older")
    await one_turn(agent, "m", "used last")
    await launch.close(agent)
    elsewhere = launch.home / "elsewhere"
    elsewhere.mkdir()
    agent = await launch("--session-id", "foreign", "--workspace", str(elsewhere))
    await launch.close(agent)
    agent = await launch("--resume", "latest")
    assert agent.events[0]["session_id"] == "newer"


async def test_an_ephemeral_session_has_no_id_and_leaves_nothing(launch: Launcher, model: ModelService) -> None:
    """Protocol section 1.1: session_id is left out when sessions are off."""
    model.script("hi")
    agent = await launch("--ephemeral")
    assert "session_id" not in agent.events[0]
    await one_turn(agent, "m", "hello")
    await launch.close(agent)
    assert journals(launch) == {}


async def test_journals_are_for_their_owner_only(launch: Launcher, model: ModelService) -> None:
    model.script("hi")
    agent = await launch("--session-id", "private")
    await one_turn(agent, "m", "hello")
    found = journals(launch)
    assert found
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)
    assert not any(b"sk-test" in content for content in found.values())


async def test_s32_prior_context_is_read_by_the_model(launch: Launcher, model: ModelService) -> None:
    """Protocol section 2.5: no answer; several add up in order; kept with the session."""
    model.script("Blue.", "Still blue.")
    agent = await launch("--session-id", "s")
    await agent.send(
        {"type": "init_history", "text": "The user's favourite colour is blue."},
        {"type": "init_history", "text": "Their name is Ada."},
    )
    await agent.fence()
    await one_turn(agent, "m1", "Which colour?")
    everything = str(model.requests[0].body["messages"])
    assert 0 < everything.index("favourite colour is blue") < everything.index("name is Ada")
    assert everything.index("name is Ada") < everything.index("Which colour?")
    await launch.close(agent)
    agent = await launch("--resume", "s")
    await one_turn(agent, "m2", "And now?")
    assert "favourite colour is blue" in str(model.requests[1].body["messages"])


async def test_s32_prior_context_after_the_first_message_is_too_late(launch: Launcher, model: ModelService) -> None:
    middle = Gate()
    model.script(Reply("a", middle, "b"))
    agent = await launch()
    await agent.message("m1")
    await agent.until("text_delta", text="a")
    late = {"type": "init_history", "text": "late"}
    await agent.send(late)
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
    middle.open()
    await agent.turn("m1")
    await agent.send(late)
    await agent.expect("error", msg_id=None, error__code="protocol_error", error__retryable=False)
