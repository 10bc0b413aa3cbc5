"""Failure cases S-c on the wires that have no module of their own for them: stops, questions, ends, tool output."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

import pytest
import trio
from case_table import on_wires
from every_wire import Jan, Peer, Starter, Talk, outputs, said, start, tool
from support.agent_process import gone, lines_of
from support.cases import CASES, replies
from support.mcp_commands import SERVER
from support.model_service import ModelService
from support.patterns import matches
from support.replies import Gate, JsonObject, Reply, ToolCall

from agentwire.commands import Done, OpenSession, SessionState
from agentwire.events import (
    ApprovalRequested,
    CallCancelled,
    CallFinished,
    CallReady,
    HostTool,
    HostToolRequested,
    TextDelta,
    TurnFinished,
    TurnStarted,
)

pytestmark = pytest.mark.slow

__all__ = ["start"]

ALL = ("jan", "jan-stream", "levpro")
ASKING = ("jan", "jan-stream")


def script(wire: str, given: list[JsonObject], gate: Gate | None = None) -> list[Reply]:
    """A case's replies, its tools called as on this wire."""
    named = [
        {**entry, "tool_calls": [{**call, "name": tool(wire, call["name"])} for call in entry["tool_calls"]]}
        if "tool_calls" in entry
        else entry
        for entry in given
    ]
    return replies(named, gate)


# --- questions -------------------------------------------------------------------------------------------------


@on_wires("S-c01", *ASKING)
async def test_stop_while_an_approval_is_pending(wire: str, start: Starter, model: ModelService) -> None:
    case = CASES["S-c01"]
    model.script(*script(wire, case["input"]["provider_script"]))
    talk = Talk(start, wire, provider="anthropic")
    peer = await talk.peer()
    await peer.prompt()
    await peer.hear(ApprovalRequested, call_id="t1")
    with trio.fail_after(case["expect"]["within_s"]):
        await peer.stop()
        await peer.hear(TurnFinished, outcome="cancelled")
    assert not any(isinstance(event, CallFinished) for event in peer.heard)
    assert len(peer.of(TurnFinished)) == 1
    await talk.over()
    assert said(await talk.turn("next")) == "second turn"
    (block,) = model.requests[1].result_blocks
    assert (block["tool_use_id"], block["is_error"]) == ("t1", True)
    assert not (start.workspace / "ran").exists()


@on_wires("S-c01", "jan")
async def test_stop_withdraws_what_the_host_was_asked_to_do(wire: str, start: Starter, model: ModelService) -> None:
    """Before the end of the turn, and with the reason."""
    model.script(Reply(ToolCall("t1", "host__arm", {})))
    peer = await start.start(wire)
    arm = HostTool("arm", "Moves.", {"type": "object"})
    opened = await peer.ask(OpenSession(workspace=".", builtins=False, tools=[arm], host_permissions=True))
    assert isinstance(opened, Done)
    assert isinstance(opened.value, SessionState)
    peer.session = opened.value.id
    await peer.prompt()
    asked = await peer.hear(HostToolRequested)
    await peer.stop()
    await peer.hear(TurnFinished, outcome="cancelled")
    notes = [event for event in peer.events if "method" in event]
    withdrawn = [event for event in notes if event["method"] == "item/tool_request_cancelled"]
    assert [event["params"]["event"]["request_id"] for event in withdrawn] == [asked.request_id]
    assert withdrawn[0]["params"]["event"]["reason"] == CASES["S-c01"]["expect"]["jan-rpc"].split('"')[1]
    assert notes.index(withdrawn[0]) < len(notes) - 1
    assert notes[-1]["method"] == "turn/completed"


@on_wires("S-c02", *ASKING)
async def test_an_approval_after_stop_gives_nothing(wire: str, start: Starter, model: ModelService) -> None:
    """It is refused where lines have answers, and after an abort nothing more is read. "Always" leaves no grant."""
    model.script(*script(wire, CASES["S-c02"]["input"]["provider_script"]))
    talk = Talk(start, wire)
    peer = await talk.peer()
    await peer.prompt()
    question = (await peer.hear(ApprovalRequested, call_id="t1")).approval_id
    seen = len(peer.events)
    late = json.dumps(peer.decision(question, "allow_always", "late")).encode() + b"\n"
    await peer.stop(together_with=late)
    await peer.hear(TurnFinished, outcome="cancelled")
    if wire == "jan":
        await peer.answers()
    assert sum(peer.is_stale(event, "late") for event in peer.events[seen:]) == (wire == "jan")
    await talk.over()
    peer = await talk.peer()
    await peer.prompt("again")
    await peer.hear(ApprovalRequested, call_id="t2")
    await peer.stop()
    await peer.hear(TurnFinished, outcome="cancelled")
    assert list(start.workspace.iterdir()) == []


@on_wires("S-c03", *ASKING)
async def test_answering_twice(wire: str, start: Starter, model: ModelService) -> None:
    """The first answer counts; every other is refused, and so is one to a question that never was."""
    case = CASES["S-c03"]
    model.script(*script(wire, case["input"]["provider_script"]))
    peer = await start.start(wire)
    await peer.prompt()
    question = (await peer.hear(ApprovalRequested, call_id="t1")).approval_id
    decisions = [("never-issued", "deny"), (question, "allow_once"), (question, "allow_once"), (question, "deny")]
    together = [peer.decision(asked, word, f"d{n}") for n, (asked, word) in enumerate(decisions)]
    said_since = await peer.answers(b"".join(json.dumps(line).encode() + b"\n" for line in together))
    stale = [event for event in said_since if any(peer.is_stale(event, f"d{n}") for n in (0, 2, 3))]
    assert len(stale) == 3, said_since
    await peer.hear(TurnFinished, outcome="completed")
    assert len(peer.of(CallFinished)) == 1
    assert not peer.of(CallCancelled)
    assert (start.workspace / "count").read_text() == case["expect"]["workspace"]["count"]
    if wire == "jan":
        (refused,) = await peer.answers(peer.decision(question, "allow_once", "after"))
        assert matches(refused, {"id": "after", "error.code": -32602})


# --- two at once, and ends -------------------------------------------------------------------------------------


@on_wires("S-c04", "jan")
async def test_a_second_turn_while_one_runs(wire: str, start: Starter, model: ModelService) -> None:
    """It is refused, may be tried again, and the running one is untouched; in another session, too."""
    case, gate = CASES["S-c04"], Gate()
    model.script(*script(wire, case["input"]["provider_script"], gate))
    peer = await start.start(wire)
    assert isinstance(peer, Jan)
    await peer.prompt("a")
    await peer.hear(TextDelta)
    first = peer.session
    other = {"id": "message", "error.code": -32001, "error.data.retryable": True}
    assert any(matches(event, other) for event in await peer.answers(peer.message("b")))
    await peer.open()
    assert any(matches(event, other) for event in await peer.answers(peer.message("b")))
    peer.session = first
    gate.open()
    await peer.hear(TurnFinished, outcome="completed")
    assert said(peer.heard) == case["expect"]["m1"]["text_delta_concat"]
    assert len(peer.of(TurnStarted)) == len(model.requests) == 1


@on_wires("S-c04", "jan-stream")
async def test_a_second_input_joins_the_run(wire: str, start: Starter, model: ModelService) -> None:
    """There is one run; what is said meanwhile is read by the model before it may end."""
    case, gate = CASES["S-c04"], Gate()
    model.script(*script(wire, case["input"]["provider_script"], gate))
    peer = await start.start(wire)
    await peer.prompt("a")
    await peer.hear(TextDelta)
    await peer.answers(peer.message("b"))
    gate.open()
    await peer.hear(TurnFinished, outcome="completed")
    assert said(peer.heard) == case["expect"]["m1"]["text_delta_concat"] + "second"
    assert model.requests[1].texts("user") == ["a", "b"]
    assert peer.events[-1]["result"] == "second"


@on_wires("S-c05", *ASKING)
async def test_input_ends_while_the_model_streams(wire: str, start: Starter, model: ModelService) -> None:
    """Jan's RPC ends the turn with its host, and says so; a run goes on to its end."""
    case, gate = CASES["S-c05"], Gate()
    model.script(*script(wire, case["input"]["provider_script"], gate))
    peer = await start.start(wire)
    await peer.prompt("hi")
    await peer.hear(TextDelta)
    await peer.close_stdin()
    if wire == "jan-stream":
        gate.open()
    assert await peer.wait_exit() == 0
    (end,) = peer.of(TurnFinished)
    assert end.outcome == ("completed" if wire == "jan-stream" else "cancelled")
    if wire == "jan-stream":
        assert said(peer.heard) == case["expect"]["model_streaming"]["text_delta_concat"]


@on_wires("S-c05", *ASKING)
async def test_input_ends_while_an_approval_is_pending(wire: str, start: Starter, model: ModelService) -> None:
    model.script(*script(wire, CASES["S-c05"]["input"]["variant_pending_approval"]["provider_script"]))
    peer = await start.start(wire)
    await peer.prompt()
    await peer.hear(ApprovalRequested)
    await peer.close_stdin()
    assert await peer.wait_exit(within=5) == 0
    (end,) = peer.of(TurnFinished)
    assert (end.outcome, said(peer.heard)) == (("cancelled", "") if wire == "jan" else ("completed", "bye"))
    assert not (start.workspace / "ran").exists()


@on_wires("S-c06", *ALL)
async def test_a_signal_while_a_shell_runs(wire: str, start: Starter, model: ModelService, tmp_path: Path) -> None:
    """The turn is ended in the wire's form, nothing is left running, and the session can be gone on with."""
    case = CASES["S-c06"]
    command = re.search(r"ExecCommand '(.+)' and connect", case["input"]["text"])
    assert command
    call = ToolCall("t1", tool(wire, "ExecCommand"), {"cmd": command[1].replace('"', "'")})
    model.script(Reply(call), "welcome back")
    record, shell = tmp_path / "record", tmp_path / "shell"
    wrapper = f"echo $$ > {shell}; {sys.executable} {SERVER} --record {record}; true"
    server = f"[mcp_servers.wrapped]\ncommand = 'sh'\nargs = ['-c', {json.dumps(wrapper)}]\n"
    (start.config / "agentwire.toml").write_text(server)
    peer = await start.start(wire, "--auto-approve")
    await peer.prompt()
    server_pid = json.loads((await lines_of(record, 1))[0])["pid"]
    await peer.hear(CallReady)
    pids = [server_pid, *await lines_of(shell, 1), *await lines_of(start.workspace / "pids", 2)]
    peer.send_signal(signal.SIGTERM)
    assert await peer.wait_exit(within=case["expect"]["within_s"]) == 0
    (end,) = peer.of(TurnFinished)
    assert end.outcome == "cancelled"
    for pid in pids:
        await gone(int(pid), within=2)
    (start.config / "agentwire.toml").unlink()
    if wire != "jan":
        talk = Talk(start, wire, session=peer.session)
        assert said(await talk.turn("again")) == "welcome back"
        assert set(model.requests[-1].results) == {"t1"}


# --- what tools put out ----------------------------------------------------------------------------------------


@on_wires("S-c07", *ALL)
async def test_output_that_is_no_clean_text(wire: str, start: Starter, model: ModelService) -> None:
    given, expected = CASES["S-c07"]["input"], CASES["S-c07"]["expect"]["tool_result"]
    model.script(Reply(ToolCall("t1", tool(wire, given["tool"]), given["args"])), "done", "second")
    talk = Talk(start, wire, "--auto-approve")
    (output,) = outputs(await talk.turn())
    assert all(word in output for word in expected["output_contains"])
    assert "\0" not in output
    assert model.requests[1].results["t1"] == output
    assert said(await talk.turn()) == "second"


async def longest_silence(peer: Peer, gate: Gate, every: float) -> float:
    """Ask until the model is at its last reply; the longest time in seconds that an answer took."""
    longest = 0.0
    while not gate.reached.is_set():
        asked = trio.current_time()
        await peer.answers()
        longest = max(longest, trio.current_time() - asked)
        await trio.sleep(every)
    return longest


@on_wires("S-c08", *ALL)
async def test_huge_and_endless_output(wire: str, start: Starter, model: ModelService) -> None:
    """Lines are read meanwhile, memory stays bounded, and no line holds more than both outputs as they were cut."""
    given, expected = CASES["S-c08"]["input"], CASES["S-c08"]["expect"]
    gate = Gate()
    *calls, _ = script(wire, given["provider_script"])
    model.script(*calls, Reply(gate, "ok"))
    peer = await start.start(wire, *given["argv"])
    await peer.prompt()
    await peer.hear(CallReady)
    before = peer.memory()
    with trio.fail_after(30):
        silence = await longest_silence(peer, gate, given["steps"][1]["every_s"])
    growth = peer.memory() - before
    gate.open()
    await peer.hear(TurnFinished, outcome="completed")
    assert growth < expected["rss_growth_mib_max"] << 20
    assert silence <= expected["pong_latency_s_max"]
    assert max(map(len, peer.stdout.split(b"\n"))) < 2 * 50_000 + 64 * 1024
    assert [event.status for event in peer.of(CallFinished)] == ["ok", "error"]
    results = model.requests[-1].results
    (cut,) = re.findall(r"\[truncated (\d+) chars\]", results["t1"])
    assert int(cut) + 50_000 >= 200_000_000
    assert results["t2"].startswith("Command timed out after 2000ms\n")
