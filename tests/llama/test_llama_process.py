"""A whole agent on a model of this machine: what its host sees, and that nothing is left when it goes."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from llama_world import World
from support.agent_process import AgentProcess, gone, lines_of
from support.launcher import Launcher
from support.patterns import find, said

pytestmark = pytest.mark.slow


async def serve(launch: Launcher, world: World, *, expected: tuple[int, ...] = (0,), **options: Any) -> AgentProcess:
    given = [f"{name}={json.dumps(value)}" for name, value in {**world.options, **options}.items()]
    arguments = [argument for option in given for argument in ("--provider-option", option)]
    agent = await launch.spawn(
        "serve", "--codec", "aionrs", "--provider", "llama", "--workspace", str(launch.workspace), *arguments,
        environ={"PATH": world.environ["PATH"]}, expected=expected,
    )  # fmt: skip
    await agent.expect("ready")
    assert world.starts == []
    return agent


async def test_a_turn(launch: Launcher, world: World) -> None:
    agent = await serve(launch, world)
    await agent.message("m1")
    assert said(await agent.turn("m1")) == "Hello there"
    assert "OPENAI_API_KEY" not in json.loads((world.root / "environ").read_text())
    (start,) = world.starts
    await launch.close(agent)
    await gone(start.pid, within=2)


async def test_a_crash_before_the_first_word_is_tried_again(launch: Launcher, world: World) -> None:
    world.behave({"die_after": 0}, {})
    agent = await serve(launch, world)
    await agent.message("m1")
    assert said(await agent.turn("m1")) == "Hello there"
    assert len(world.starts) == 2


async def test_a_server_that_never_starts_is_the_turns_error(launch: Launcher, world: World) -> None:
    world.behave({"say": "error: no kernel image is available", "exit": 4}, {})
    agent = await serve(launch, world, restart_limit=0)
    await agent.message("m1")
    (error,) = find(await agent.turn("m1"), "error")
    assert "llama-server ended with exit status 4: error: no kernel image is available" in error["error"]["message"]
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "Hello there"


async def test_a_turn_is_stopped_while_the_model_loads(launch: Launcher, world: World) -> None:
    world.behave({"gate": "gate"})
    agent = await serve(launch, world)
    await agent.message("m1")
    await world.started()
    await agent.stop()
    assert said(await agent.turn("m1")) == ""
    world.open()
    await agent.message("m2")
    assert said(await agent.turn("m2")) == "Hello there"
    assert len(world.starts) == 1


@pytest.mark.parametrize("loading", [True, False], ids=["loading", "answering"])
async def test_a_killed_agent_takes_its_server_with_it(launch: Launcher, world: World, loading: bool) -> None:
    """Also one that does not listen, and what it has started."""
    world.behave({"stubborn": True, "child": True, **({"gate": "never"} if loading else {})})
    agent = await serve(launch, world, expected=(-signal.SIGKILL,))
    await agent.message("m1")
    start = await world.started()
    (child,) = await lines_of(world.root / "children", 1)
    if not loading:
        await agent.turn("m1")
    agent.kill()
    await agent.wait_exit()
    await gone(start.pid, within=4)
    await gone(int(child), within=4)


async def test_a_signal_ends_it_in_good_order(launch: Launcher, world: World) -> None:
    world.behave({"gate": "never", "stubborn": True})
    agent = await serve(launch, world)
    await agent.message("m1")
    start = await world.started()
    agent.send_signal(signal.SIGTERM)
    await agent.wait_exit(within=4)
    await gone(start.pid, within=2)


async def test_a_missing_model_is_told_in_one_line(launch: Launcher, world: World) -> None:
    agent = await launch.spawn(
        "serve", "--codec", "aionrs", "--provider", "llama", "--model", "/nowhere/m.gguf",
        environ={"PATH": world.environ["PATH"]}, expected=(1,),
    )  # fmt: skip
    await agent.wait_exit()
    assert "Error: the model /nowhere/m.gguf cannot be read (No such file or directory)" in agent.errors
