"""Recordings of sessions that were there before, and of agents of one's own, done again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from replaying import asides, serve, verified

from agentwire import connect
from agentwire.commands import InitHistory
from agentwire.events import TurnFinished

pytestmark = pytest.mark.slow

PLAY = [
    {"text": "First.", "tool_calls": [{"id": "c1", "name": "ExecCommand", "arguments": {"cmd": "echo made"}}]},
    {"text": "Done."},
    *({"text": f"Answer {number}."} for number in range(4)),
]


def command(folder: Path, codec: str, *options: str) -> list[str]:
    """An agent that keeps its sessions, recorded into a new file."""
    argv = [word for word in serve(folder, codec, PLAY) if word != "--ephemeral"]
    return [*argv, "--record", str(folder / "r"), *options]


async def told(argv: list[str], codec: str, folder: Path, *prompts: str) -> None:
    (folder / "r").unlink(missing_ok=True)
    env = {**os.environ, "AGENTWIRE_DATA_DIR": str(folder / "data")}
    with trio.fail_after(60):
        async with connect(argv, codec=codec, env=env, on_approval=lambda question: True) as peer:
            for prompt in prompts:
                events = [event async for event in peer.prompt(prompt)]
                assert isinstance(events[-1], TurnFinished)
                assert events[-1].outcome == "completed"


@pytest.mark.parametrize("more", [[], ["--fork-session"], ["--ephemeral"]], ids=["on", "fork", "memory"])
@pytest.mark.parametrize("name", ["mine", "latest"])
async def test_a_session_that_was_there_before(name, more, tmp_path):
    await told(command(tmp_path, "aionrs", "--session-id", "mine"), "aionrs", tmp_path, "hi")
    await verified(tmp_path / "r")
    await told(command(tmp_path, "aionrs", "--resume", name, *more), "aionrs", tmp_path, "more")
    assert any("journal" in about for about in asides(tmp_path / "r", "note"))
    (tmp_path / "data" / "sessions" / "mine.jsonl").unlink()
    await verified(tmp_path / "r")


async def test_a_session_whose_last_record_was_torn(tmp_path):
    await told(command(tmp_path, "aionrs", "--session-id", "mine"), "aionrs", tmp_path, "hi")
    journal = tmp_path / "data" / "sessions" / "mine.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq":99,"\xc3')
    await told(command(tmp_path, "aionrs", "--resume", "mine"), "aionrs", tmp_path, "more")
    assert b"was incomplete" in (tmp_path / "r").read_bytes()
    await verified(tmp_path / "r")


async def test_a_session_that_is_not_there(tmp_path):
    env = {**os.environ, "AGENTWIRE_DATA_DIR": str(tmp_path / "data")}
    argv = command(tmp_path, "aionrs", "--resume", "nobody")
    done = await trio.run_process(argv, env=env, check=False, capture_stdout=True, capture_stderr=True)
    assert done.returncode == 1
    assert b"nobody" in done.stdout
    await verified(tmp_path / "r")


async def test_what_was_said_before_the_first_prompt(tmp_path):
    env = {**os.environ, "AGENTWIRE_DATA_DIR": str(tmp_path / "data")}
    with trio.fail_after(60):
        async with connect(
            command(tmp_path, "aionrs"), codec="aionrs", env=env, on_approval=lambda question: True
        ) as peer:
            await peer.send(InitHistory("Earlier we spoke of trees."))
            assert await peer.ask("hi") == "Done."
    await verified(tmp_path / "r")


async def say(process: trio.Process, line: bytes, until: bytes) -> None:
    """Say something to an agent, and read what it says until that has come."""
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.send_all(line + b"\n")
    heard = b""
    while until not in heard:
        data = await process.stdout.receive_some()
        assert data, heard
        heard += data


async def say_all(folder: Path, codec: str, lines: list[tuple[bytes, bytes]]) -> None:
    (folder / "r").unlink(missing_ok=True)
    env = {**os.environ, "AGENTWIRE_DATA_DIR": str(folder / "data")}
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            command(folder, codec, "--auto-approve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        for line, until in lines:
            await say(process, line, until)
        assert process.stdin is not None
        await process.stdin.aclose()
        assert await process.wait() == 0


async def test_sessions_that_prompts_name(tmp_path):
    """New at first, and taken up by another process."""
    chat = [(b'{"id":"%d","method":"chat","params":{"input":"hi","session_id":"%s"}}' % (number, name), b'"result"')
            for number, name in enumerate([b"mine", b"other", b"mine"])]  # fmt: skip
    await say_all(tmp_path, "levpro", chat[:1])
    await verified(tmp_path / "r")
    await say_all(tmp_path, "levpro", chat)
    assert {about["journal"] for about in asides(tmp_path / "r", "note") if "journal" in about} == {"mine"}
    await verified(tmp_path / "r")


async def test_a_session_that_cannot_be_read(tmp_path):
    chat = [(b'{"id":"1","method":"chat","params":{"input":"hi","session_id":"mine"}}', b'"result"')]
    await say_all(tmp_path, "levpro", chat)
    journal = tmp_path / "data" / "sessions" / "mine.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"seq":2', b'"seq":7'))
    await say_all(tmp_path, "levpro", chat)
    assert str(journal) in (tmp_path / "r").read_text()
    await verified(tmp_path / "r")


async def test_stored_sessions_that_a_host_lists_and_removes(tmp_path):
    prompt = (b'{"cmd":"user","text":"hi"}', b'"RunEnd"')
    threads = (b'{"cmd":"list_threads"}', b'"threads"')
    await say_all(tmp_path, "pagent-v4", [prompt])
    await say_all(tmp_path, "pagent-v4", [prompt, threads])
    await verified(tmp_path / "r")
    first, second = sorted(path.stem for path in (tmp_path / "data" / "sessions").iterdir())
    resume = (b'{"cmd":"resume","thread_id":"%s"}' % second.encode(), b"CurrentThread")
    remove = (b'{"cmd":"delete_thread","thread_id":"%s"}' % first.encode(), b'"threads"')
    await say_all(tmp_path, "pagent-v4", [threads, resume, threads, remove, prompt])
    notes = [about for about in asides(tmp_path / "r", "note") if "journal" in about]
    assert [(about["journal"], len(about["lines"]) > 1) for about in notes] == [(second, True), (first, False)]
    await verified(tmp_path / "r")


AGENT = """\
import agentwire

@agentwire.tool
def weather(town: str) -> str:
    "The weather in a town."
    open("asked", "a").write(town)
    return "Rain."

agent = agentwire.Agent(tools=[weather], builtins=False)

async def parrot(turn: agentwire.Turn) -> None:
    for word in turn.prompt.split():
        turn.text(word + "! ")

class Echo:
    async def run(self, turn: agentwire.Turn) -> None:
        turn.text(turn.prompt)

echo = Echo()

def plain(turn):
    turn.text("Plainly: " + turn.prompt)
"""

START = """\
import sys
import agentwire
from my_agents import {name} as served
sys.exit(agentwire.serve(served, codec="aionrs", provider="script", ephemeral=True, record="r",
                         provider_options={{"script": "play.jsonl"}}))
"""

ASKED = [
    {"tool_calls": [{"id": "c1", "name": "weather", "arguments": {"town": "Bergen"}}]},
    {"text": "It rains."},
]


@pytest.fixture
def agents(tmp_path, monkeypatch) -> Path:
    import json

    (tmp_path / "my_agents.py").write_text(AGENT)
    (tmp_path / "play.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in ASKED))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_agents", None)


async def speak(folder: Path, start: str, *options: str) -> None:
    (folder / "start.py").write_text(start)
    (folder / "r").unlink(missing_ok=True)
    with trio.fail_after(60):
        async with connect(
            [sys.executable, *(options or ["start.py"])], codec="aionrs", cwd=folder, on_approval=lambda question: True
        ) as peer:
            events = [event async for event in peer.prompt("what of Bergen")]
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].outcome == "completed", events


@pytest.mark.parametrize("name", ["agent", "parrot", "echo", "plain"])
async def test_an_agent_of_ones_own(name, agents):
    await speak(agents, START.format(name=name))
    (setup,) = [about["setup"] for about in asides(agents / "r", "note") if "setup" in about]
    assert setup["agent"] == f"my_agents:{name}"
    if name == "agent":
        (agents / "asked").unlink()
    await verified(agents / "r", agent=setup["agent"])
    assert not (agents / "asked").exists(), "a tool ran"


async def test_an_agent_that_answers_otherwise_now(agents):
    await speak(agents, START.format(name="parrot"))
    (agents / "my_agents.py").write_text(AGENT.replace('"! "', '"? "'))
    assert '+  "text": "what? "' in await verified(agents / "r", "different", agent="my_agents:parrot")


async def test_an_agent_that_is_not_here_is_named(agents):
    await speak(agents, START.format(name="parrot"))
    (agents / "my_agents.py").write_text("")
    named = {"agent": "my_agents:parrot"}
    text = await verified(agents / "r", "cannot", **named)
    assert text == f"{agents / 'r'} is of the agent my_agents:parrot: the module my_agents has no parrot"
    (agents / "my_agents.py").unlink()
    sys.modules.pop("my_agents")
    assert "the module my_agents cannot be imported" in await verified(agents / "r", "cannot", **named)


async def test_what_a_recording_names_is_not_imported_for_that(agents):
    await speak(agents, START.format(name="parrot"))
    (agents / "my_agents.py").write_text(f"open({str(agents / 'imported')!r}, 'w')")
    text = await verified(agents / "r", "cannot")
    assert text.endswith(
        "is of the agent my_agents:parrot, whose own code would run: name it, --agent my_agents:parrot"
    )
    assert not (agents / "imported").exists()


async def test_an_agent_made_in_a_program_is_named_by_hand(agents):
    made = AGENT + '\nimport sys; sys.exit(agentwire.serve(parrot, codec="aionrs", ephemeral=True, record="r"))\n'
    await speak(agents, made)
    text = await verified(agents / "r", "cannot")
    assert text.endswith("is of the agent __main__:parrot, whose own code would run: name it, --agent MODULE:NAME")
    await verified(agents / "r", agent="my_agents:parrot")
    await speak(agents, START.replace("{name} as served", "Echo").replace("serve(served", "serve(Echo()").format())
    assert "my_agents:Echo()" in await verified(agents / "r", "cannot")
    assert "has no nobody" in await verified(agents / "r", "cannot", agent="my_agents:nobody")


async def test_recordings_one_after_the_other_in_a_file(tmp_path):
    await told(command(tmp_path, "aionrs", "--session-id", "mine"), "aionrs", tmp_path, "hi")
    first = (tmp_path / "r").read_text()
    await told(command(tmp_path, "aionrs", "--resume", "mine"), "aionrs", tmp_path, "more")
    second = (tmp_path / "r").read_text()
    (tmp_path / "r").write_text(first + second)
    await verified(tmp_path / "r")
    said = '\\"text\\":\\"Done.\\"'
    assert said in second
    (tmp_path / "r").write_text(first + second.replace(said, said.replace("Done", "None")))
    shown = await verified(tmp_path / "r", "different")
    line = 1 + next(number for number, line in enumerate(second.splitlines())
                    if said in line and '"who":"agent"' in line)  # fmt: skip
    assert shown.startswith(f"--- {tmp_path / 'r'}, line {len(first.splitlines()) + line}\n")
