"""``serve --codec levpro`` over real pipes: the scenarios of the protocol (section 10), and cases of others' bugs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from levprocore import Core, Launcher, Line, eventually
from support.cases import case, lines

import agentwire
from agentwire.events import CallCancelled, CallFinished, Notice, TextDelta, TurnFinished

OK = {"status": "ok"}

SLOW = {"chunks": ["one ", *["more "] * 200], "delay_ms": 100, "match": "slow"}
"""A reply that is still streaming when a test is done with it."""

WRITES = {
    "text": "I write.",
    "tool_calls": [{"id": "t", "name": "Write", "arguments": {"file_path": "a", "content": "x"}}],
}


def ping(request: Any) -> Line:
    return {"id": request, "method": "ping"}


def chat(request: Any, text: str = "hi", **params: Any) -> Line:
    return {"id": request, "method": "chat", "params": {"input": text, **params}}


def cancel(request: Any, **params: Any) -> Line:
    return {"id": request, "method": "cancel", "params": params}


async def streaming(core: Core, request: Any, **params: Any) -> None:
    """A chat that is under way."""
    await core.ask(chat(request, "slow", **params))
    await core.event(request, "llm_chunk")


async def test_small_talk(launch: Launcher) -> None:
    """Scenarios 1 to 7: ping, ids, handshake, what is no request."""
    async with launch.start(launch.serve({"text": "x"})) as core:
        assert (await core.run(ping("1"))) == {"id": "1", "type": "result", "result": OK}
        assert (await core.run(ping(7)))["result"] == OK
        told = (await core.run({"id": "i", "method": "initialize", "params": {"protocol_versions": [3, 1, 2]}}))[
            "result"
        ]
        assert told["protocol_version"] == 1
        refused = await core.run({"id": "j", "method": "initialize", "params": {"protocol_versions": [2, 3]}})
        assert refused["message"] == "no common protocol version; supported: 1"
        await core.write('hello\n[1]\n{"method":"ping"}\n{"id":"a"}\n{"id":true,"method":"ping"}\r\n\n')
        await core.ask({"id": "b", "method": "ping", "params": []}, {"id": "x", "method": "warmup"})
        assert (await core.run({"id": "c", "method": "ping", "params": None}))["result"] == OK
    errors = [(line["id"], line["code"]) for line in core.lines if line["type"] == "error"][1:]
    assert errors == [
        (None, "invalid_json"), (None, "invalid_request"), (None, "invalid_request"), ("a", "invalid_request"),
        (None, "invalid_request"), ("b", "invalid_request"), ("x", "unknown_method"),
    ]  # fmt: skip


async def test_a_chat(launch: Launcher) -> None:
    """Scenario 8, and the conversation goes on in its session."""
    async with launch.start(launch.serve({"text": "4"}, {"text": "5"})) as core:
        end = await core.run(chat("c1", "2+2?", session_id="abc123"))
        start = await core.event("c1", "run_start")
        assert start["user_input"] == "2+2?"
        assert core.of("c1") == ["run_start", "llm_start", "llm_chunk", "llm_done", "final", "result"]
        assert end["result"] == {
            "response": "4", "session_id": "abc123", "trace_id": start["trace_id"], "warnings": [],
        }  # fmt: skip
        assert (await core.run(chat("c0", "and 1 more?", session_id="abc123")))["result"]["response"] == "5"
        await core.ask(chat("c2"))
        assert (await core.terminal("c2"))["code"] == "internal_error"  # the script is used up
        assert core.of("c2")[-2:] == ["loop_abort", "internal_error"]


@pytest.mark.parametrize(("approve", "status"), [(None, "denied"), (False, "denied"), (True, "ok")])
async def test_a_tool_that_needs_approval(launch: Launcher, approve: bool | None, status: str) -> None:
    """Scenarios 9 and 10: the wire cannot ask."""
    async with launch.start(launch.serve(WRITES, {"text": "Done."})) as core:
        given = {} if approve is None else {"approve_execution": approve}
        end = await core.run(chat("c1", **given))
        assert end["result"]["response"] == "Done."
        start = await core.event("c1", "tool_start")
        assert (start["tool"], start["args"], start["step"]) == ("Write", {"content": "x", "file_path": "a"}, 0)
        done = await core.event("c1", "tool_done")
        assert (done["status"], done["retryable"]) == (status, False)
        assert (launch.workspace / "a").exists() is (status == "ok")
    said = core.of("c1")
    assert said[said.index("tool_start") - 1] == "llm_done"
    assert said[said.index("tool_done") + 1] == "llm_start"


async def test_targeted_cancel(launch: Launcher) -> None:
    """Scenarios 12 and 13."""
    async with launch.start(launch.serve(SLOW, SLOW, {"text": "quick", "match": "quick"})) as core:
        assert (await core.run(cancel("k0")))["result"] == {"cancelled": False, "request_id": None}
        await streaming(core, "c1")
        await streaming(core, 2)
        refused = await core.run(cancel("k1"))
        assert (refused["code"], refused["message"]) == (
            "invalid_request", "request_id is required when several chats are active",
        )  # fmt: skip
        assert (await core.run(cancel("k2", request_id="2")))["result"] == {"cancelled": False, "request_id": "2"}
        await core.ask(cancel("k3", request_id="c1"))
        assert (await core.terminal("c1"))["code"] == "cancelled"
        assert (await core.terminal("k3"))["result"] == {"cancelled": True, "request_id": "c1"}
        order = [line["id"] for line in core.lines if line["type"] != "event"]
        assert order.index("k3") < order.index("c1")
        assert core.of("c1")[-2:] == ["llm_done", "cancelled"]
        assert (await core.run(cancel("k4", request_id="c1")))["result"]["cancelled"] is False
        assert (await core.run(cancel("k5")))["result"] == {"cancelled": True, "request_id": 2}
        assert (await core.terminal(2))["code"] == "cancelled"
        assert (await core.run(chat("c3", "quick")))["result"]["response"] == "quick"


async def test_a_chat_that_waits_can_be_cancelled_and_has_said_nothing(launch: Launcher) -> None:
    async with launch.start(launch.serve(SLOW, {"text": "quick", "match": "quick"})) as core:
        await streaming(core, "c1", session_id="s")
        await core.ask(chat("c2", "quick", session_id="s"), chat("c3", "quick", session_id="s"))
        assert (await core.run(cancel("k", request_id="c2")))["result"] == {"cancelled": True, "request_id": "c2"}
        assert (await core.terminal("c2"))["code"] == "cancelled"
        assert core.of("c2") == ["cancelled"]
        await core.ask(cancel("k2", request_id="c1"))
        assert (await core.terminal("c3"))["result"]["response"] == "quick"


async def test_no_configuration(launch: Launcher) -> None:
    """Scenario 15: the process starts, and says what is wrong to whoever asks."""
    argv = ["agentwire_levpro.command", "serve-stdio"]
    async with launch.start(argv) as core:
        assert (await core.run(chat("c")))["code"] == "config_missing"
        assert core.of("c") == ["config_missing"]
        assert (await core.run({"id": "p", "method": "plan"}))["code"] == "config_missing"
        told = (await core.run({"id": "d", "method": "doctor"}))["result"]
        assert told["status"] == "fail"
        assert "fail" in [check["status"] for check in told["checks"]]
        assert (await core.run(ping("1")))["result"] == OK


async def test_an_id_in_use(launch: Launcher) -> None:
    """Scenario 16."""
    async with launch.start(launch.serve(SLOW), unruly=True) as core:
        await streaming(core, "c1")
        await core.ask(chat("c1"))
        error = await core.until(lambda line: line["type"] == "error")
        assert (error["id"], error["code"], error["message"]) == ("c1", "invalid_request", "id is in use")
        await core.ask(cancel("k"))
        await core.until(lambda line: line.get("code") == "cancelled")
        assert core.of("c1").count("invalid_request") == 1


@case("S-b12")
async def test_a_host_that_does_not_read(launch: Launcher, case: Line) -> None:
    """Scenarios 17 and 18: nothing is dropped, the model is not held up, commands are still read."""
    assert "levpro" in case["input"]["codec_variants"]
    chunks = [f"{n:06}" + "x" * 194 for n in range(20_000)]
    argv = launch.serve(
        {"chunks": chunks, "match": "many"}, {"chunks": ["a"] * 100, "delay_ms": 60_000, "match": "slow"}
    )
    async with launch.start(argv) as core:
        await core.ask(chat("hangs", "slow"))
        await core.event("hangs", "llm_start")
        core.hold_reading()
        await core.ask(chat("c1", "many", session_id="s"), ping("p1"), ping("p2"), cancel("k", request_id="hangs"))
        journal = launch.root / "data" / "sessions" / "s.jsonl"
        # the turn is over though nobody read any of it
        await eventually(lambda: journal.exists() and b'"turn_finished"' in journal.read_bytes())
        core.resume_reading()
        end = await core.terminal("c1")
        assert (await core.terminal("hangs"))["code"] == "cancelled"
        assert [line["id"] for line in core.lines if line["id"] in ("p1", "p2")] == ["p1", "p2"]
        assert core.text("c1") == end["result"]["response"] == "".join(chunks)


async def test_a_host_that_hangs_up(launch: Launcher) -> None:
    """Scenario 19: said once; requests are still carried out; status 0."""
    async with launch.start(launch.serve(WRITES, {"text": "Done."})) as core:
        assert (await core.run(ping(1)))["result"] == OK
        await core.hang_up()
        await core.ask(chat("c1", approve_execution=True))
        await eventually((launch.workspace / "a").exists)
        await core.ask({"id": "s", "method": "shutdown"})
        assert await core.exit() == 0
        assert core.errors.count("ERROR_STACKTRACE") == 1


async def test_shutdown_with_a_chat_running(launch: Launcher) -> None:
    """Scenario 20: its end comes first, then the last line; what is written after it is not read."""
    async with launch.start(launch.serve(SLOW)) as core:
        await streaming(core, "c1")
        await core.ask({"id": "s", "method": "shutdown"}, ping("late"))
        assert await core.exit() == 0
        assert core.lines[-1] == {"id": "s", "type": "result", "result": OK}
        assert core.lines[-2]["id"] == "c1"
        assert core.lines[-2]["code"] == "cancelled"
        assert core.of("late") == []


async def test_shutdown_lets_what_was_asked_before_be_answered(launch: Launcher) -> None:
    async with launch.start(launch.serve({"text": "x"})) as core:
        await core.ask(
            {"id": "d", "method": "doctor"}, {"id": "p", "method": "plan"}, {"id": "s", "method": "shutdown"}
        )
        assert await core.exit() == 0
        assert [line["id"] for line in core.lines][-1] == "s"
        assert {line["id"] for line in core.lines} == {"d", "p", "s"}


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
def test_a_line_and_the_end_of_input(launch: Launcher, end: str) -> None:
    """Scenario 21."""
    done = subprocess.run(
        [sys.executable, "-m", *launch.serve({"text": "x"})], input='{"id":1,"method":"ping"}' + end,
        capture_output=True, text=True, env=launch.environ, cwd=launch.workspace, timeout=30, check=True,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"id": 1, "type": "result", "result": OK}]


@case("S-c05")
async def test_the_end_of_input_cancels_what_runs(launch: Launcher, case: Line) -> None:
    async with launch.start(launch.serve(SLOW)) as core:
        await streaming(core, "c1", session_id="s")
        await core.ask(chat("c2", "slow", session_id="s"), {"id": "d", "method": "doctor"})
        await core.end_input()
        assert await core.exit() == 0
        assert [core.of(name)[-1] for name in ("c1", "c2")] == ["cancelled", "cancelled"]
        assert core.of("d") == ["result"]
        assert case["expect"]["levpro"].startswith("running chats end with error cancelled")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_an_end_of_input(launch: Launcher, number: int) -> None:
    async with launch.start(launch.serve(SLOW)) as core:
        await streaming(core, "c1")
        core.process.send_signal(number)
        assert await core.exit() == 0
        assert core.of("c1")[-1] == "cancelled"


async def test_resume_without_a_checkpoint(launch: Launcher) -> None:
    """Scenario 22."""
    async with launch.start(launch.serve({"text": "a"}, {"text": "b"})) as core:
        end = await core.run(chat("c1", resume=True))
        assert end["result"]["response"] == "a"
        assert len(end["result"]["warnings"]) == 1


async def test_a_history_that_cannot_be_read_is_reset(launch: Launcher) -> None:
    """Scenario 22, its other half; another process finds the session of the first."""
    for answer in ("a", "b"):
        async with launch.start(launch.serve({"text": answer})) as core:
            assert (await core.run(chat("c1", session_id="s")))["result"]["warnings"] == []
    journal = launch.root / "data" / "sessions" / "s.jsonl"
    damaged = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([damaged[0], b"{\n", *damaged[2:]]))
    async with launch.start(launch.serve({"text": "c"})) as core:
        end = await core.run(chat("c1", session_id="s"))
        assert end["result"]["response"] == "c"
        assert len(end["result"]["warnings"]) == 1


@case("S-c04")
async def test_parallel_chats(launch: Launcher, case: Line) -> None:
    """Scenario 23: side by side in two sessions, one after the other in one."""
    assert "side by side" in case["expect"]["levpro"]
    slow = {"chunks": ["a", "b", "c"], "delay_ms": 150}
    async with launch.start(launch.serve(slow, slow, slow)) as core:
        await core.ask(chat("c1", session_id="one"), chat("c2", session_id="two"), chat("c3", session_id="one"))
        for name in ("c1", "c2", "c3"):
            assert (await core.terminal(name))["result"]["response"] == "abc"
        places = {name: [n for n, line in enumerate(core.lines) if line["id"] == name] for name in ("c1", "c2", "c3")}
        assert places["c2"][0] < places["c1"][-1]
        assert places["c1"][0] < places["c2"][-1]
        assert places["c3"][0] > places["c1"][-1]


@case("S-b01")
async def test_long_lines(launch: Launcher, case: Line) -> None:
    sizes = [size for size in case["input"]["sizes"] if size < 1_000_000]
    size = case["input"]["over_limit_sizes"]["levpro"]
    async with launch.start(launch.serve(*[{"text": "ok"}] * len(sizes))) as core:
        for n, long in enumerate(sizes):
            assert (await core.run(chat(n, "x" * long)))["result"]["response"] == "ok"
            assert (await core.event(n, "run_start"))["user_input"] == "x" * long
        await core.ask(chat("big", "x" * size), ping("after"))
        assert (await core.terminal("after"))["result"] == OK
        (refused,) = [line for line in core.lines if line["type"] == "error"]
        assert (refused["id"], refused["code"]) == (None, "invalid_request")


@case("S-b02")
async def test_malformed_lines(launch: Launcher, case: Line) -> None:
    await _lines_and_answers(launch, case)


@case("S-b06")
async def test_ids(launch: Launcher, case: Line) -> None:
    await _lines_and_answers(launch, case)


@case("S-b07")
async def test_bare_values(launch: Launcher, case: Line) -> None:
    await _lines_and_answers(launch, case)


async def _lines_and_answers(launch: Launcher, case: Line) -> None:
    """A case whose lines each get one answer."""
    given = case["input"]["codec_variants"].get("levpro") or case["input"]["lines"]
    expected = case["expect"]["levpro"]
    async with launch.start(launch.serve({"text": "x"})) as core:
        await core.write(lines(given))
        await core.run(ping("the last one"))
        assert len(core.lines) == len(expected) + 1
        for line, pattern in zip(core.lines, expected, strict=False):
            accepted = pattern.get("accept", [pattern])
            assert any(wanted.items() <= line.items() for wanted in accepted), (line, pattern)
            assert any(type(wanted["id"]) is type(line["id"]) for wanted in accepted)


# --- driven by our own host side -----------------------------------------------------------------------------


async def test_our_host_drives_our_core(launch: Launcher) -> None:
    """Prompts that name no session are one conversation; a tool that was refused is heard as such."""
    argv = [sys.executable, "-m", *launch.serve(WRITES, {"text": "Done."}, {"text": "Again."})]
    argv += ["--workspace", str(launch.workspace)]
    async with agentwire.connect(argv, codec="levpro", env=launch.environ) as peer:
        events = [event async for event in peer.prompt("write")]
        assert [event.cause for event in events if isinstance(event, CallCancelled)] == ["refused"]
        assert not any(isinstance(event, CallFinished | Notice) for event in events)
        end = events[-1]
        assert isinstance(end, TurnFinished)
        assert (end.outcome, end.text, end.steps) == ("completed", "Done.", 2)
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I write.Done."
        await peer.ping()
        assert await peer.ask("again") == "Again."
    (journal,) = (launch.root / "data" / "sessions").glob("*.jsonl")
    assert journal.read_text().count('"turn_started"') == 2


async def test_our_host_stops_a_chat(launch: Launcher) -> None:
    argv = [sys.executable, "-m", *launch.serve(SLOW)]
    async with agentwire.connect(argv, codec="levpro", env=launch.environ) as peer:
        outcome = ""
        async for event in peer.prompt("slow"):
            if isinstance(event, TextDelta) and not outcome:
                outcome = "stopping"
                await peer.stop()
            if isinstance(event, TurnFinished):
                outcome = event.outcome
        assert outcome == "cancelled"
