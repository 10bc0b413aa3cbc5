"""Every requirement can be met, and every requirement can fail: by a peer that is wrong in that one thing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from described_peer import Deed, Described, describe, put, sample
from peer_runs import GOOD, WRONG

from agentwire import load_codec
from agentwire.check.acting import Actor, Pipes
from agentwire.check.agents import play_host
from agentwire.check.catalogue import catalogue
from agentwire.check.findings import Finding, judge, unplayed
from agentwire.check.host_matrix import left
from agentwire.check.hosts import settle
from agentwire.check.provided import provide
from agentwire.codec.kit import (
    AwaitEnd,
    HangUp,
    Requirement,
    Role,
    Transcript,
)

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-S", "-E", str(Path(__file__).with_name("peer_program.py"))]

PATIENCE = 15.0
SHORT = 0.8
"""For peers that do nothing: waiting for them in vain is the point."""

WIRES = ("aionrs", "pagent", "pagent-v4", "jan", "jan-stream", "levpro")

ELSEWHERE = {("jan-stream", "command-line")}
"""What is proved by a test of its own."""


def playable(wire: str, role: Role) -> Iterator[tuple[str, Requirement]]:
    """Of a wire's requirements, those that a play can prove."""
    for one in catalogue(load_codec(wire), role):
        if unplayed(one.play) is None and (wire, one.id) not in ELSEWHERE:
            yield wire, one


AGENTS = [case for wire in WIRES for case in playable(wire, "agent")]
HOSTS = [case for wire in WIRES for case in playable(wire, "host")]


def special(wire: str, requirement: Requirement):
    """What makes a good peer one that breaks a requirement which looks at the whole run."""
    named = (requirement.role, requirement.id)
    return WRONG.get((wire, *named), WRONG.get(("", *named)))


def good(wire: str, requirement: Requirement, given: dict[str, Any]) -> Described:
    """A peer that meets the requirement."""
    peer = describe(requirement.play, given, host=requirement.role == "host")
    given = GOOD.get((wire, requirement.role, requirement.id))
    if given is not None:
        peer.deeds, peer.waited = given(peer), []
    return peer


def wrong(wire: str, requirement: Requirement, peer: Described) -> Iterator[tuple[str, list[Deed], float]]:
    """Peers that break it: what they do wrong, how, and how long to wait for them."""
    breaks = special(wire, requirement)
    if breaks is not None:
        yield "what only a check sees", breaks(peer), PATIENCE
    needed = [place for step, place in peer.waited if not step.absent]
    if needed:
        yield "one line is left out", peer.without(needed[-1]), PATIENCE
    for step, place in peer.waited:
        if step.never:
            yield "a line comes too early", peer.with_before(place, sample(step.never[0], dict(peer.given))), PATIENCE
            break
    last = requirement.play.steps[-1]
    if isinstance(last, HangUp):
        yield "it does not end", [deed for deed in peer.deeds if deed[0] != "read all"] + [("hang", None)], SHORT
    if isinstance(last, AwaitEnd):
        if not needed or requirement.role == "agent":
            lives = [deed for deed in peer.deeds if deed[0] not in ("exit", "read all", "signal")]
            yield "it does not end", [*lives, ("hang", None)], SHORT
        if last.status is not None or last.fails:
            ends = [(what, (0 if last.fails else 3) if what == "exit" else value) for what, value in peer.deeds]
            yield "it ends with another status", ends, PATIENCE


async def run_agent(
    requirement: Requirement, deeds: list[Deed], patience: float, path: Path, given: dict[str, Any]
) -> Finding:
    argv = [*PROGRAM, str(put(deeds, path))]
    return judge(requirement, await play_host(argv, requirement.play, patience=patience, given=given))


async def run_host(
    requirement: Requirement, deeds: list[Deed], patience: float, path: Path, given: dict[str, Any]
) -> Finding:
    """The play's agent is in this process; the host is the peer program."""
    process = await trio.lowlevel.open_process(
        [*PROGRAM, str(put(deeds, path))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    ended = trio.Event()
    transcript: Transcript

    class Incoming(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes=None):
            chunk = await process.stdout.receive_some(max_bytes)
            if not chunk:
                ended.set()
            return chunk

        async def aclose(self):
            await process.stdout.aclose()

    try:
        play = requirement.play
        transcript = await Actor("agent", play, Pipes(process.stdin, Incoming(), ended.wait), patience).run()
        await process.stdin.aclose()
        with trio.move_on_after(patience):
            await process.wait()
        settle(transcript, play, process.returncode)
        return judge(requirement, transcript)
    finally:
        process.kill()
        await process.wait()
        await process.stdin.aclose()
        await process.stdout.aclose()


def name(case: tuple[str, Requirement]) -> str:
    return f"{case[0]}-{case[1].id}"


def in_portions(cases):
    """Every third case runs with the slow tests, all of them with ``-m slow``: each starts processes."""
    return [
        pytest.param(case, id=name(case), marks=[] if at % 3 == 0 else [pytest.mark.exhaustive])
        for at, case in enumerate(cases)
    ]


@pytest.mark.parametrize("case", in_portions(AGENTS))
async def test_an_agent_can_meet_and_break_it(case, tmp_path):
    await meets_and_breaks(*case, run_agent, tmp_path)


@pytest.mark.parametrize("case", in_portions(HOSTS))
async def test_a_host_can_meet_and_break_it(case, tmp_path):
    await meets_and_breaks(*case, run_host, tmp_path)


async def meets_and_breaks(wire, requirement, run, tmp_path):
    given = provide(tmp_path)
    peer = good(wire, requirement, given)
    finding = await run(requirement, peer.deeds, PATIENCE, tmp_path / "good", given)
    assert finding.verdict == "passed", (finding.why, finding.transcript.lines)
    if requirement.check not in (None, left):
        assert special(wire, requirement), "a peer should break what only a check sees"
    broken = 0
    for number, (fault, deeds, patience) in enumerate(wrong(wire, requirement, peer)):
        finding = await run(requirement, deeds, patience, tmp_path / f"wrong-{number}", given)
        assert finding.verdict == "failed", fault
        assert finding.why
        broken += 1
    assert broken, "no peer breaks it"
