"""Over generated logs: what a bridge tells its host is what the agent's wire left, and what the host's wire leaves."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import Phase, assume, given, settings
from msgspec import UNSET
from strategies import logs

from agentwire import events as bus
from agentwire import load_codec
from agentwire.agent.running import finish
from agentwire.agent.toolbox import Toolbox
from agentwire.agent.turn import Turn
from agentwire.bridge.following import OWN, Following, beside
from agentwire.bridge.link import Link
from agentwire.bridge.report import Account
from agentwire.bridge.words import Words
from agentwire.codec.contract import Answered, Codec, Heard
from agentwire.codec.fidelity import EXACT, Fidelity, tag
from agentwire.commands import Command, Deny
from agentwire.log.history import History
from agentwire.log.log import SessionLog
from agentwire.log.record import Record
from agentwire.session import Session
from agentwire.settings import SessionSettings
from agentwire.transcode import LogWriter, broken_laws
from agentwire.transcode.logbook import Logbooks
from agentwire.transcode.steps import At

pytestmark = pytest.mark.slow

WIRES = {name: load_codec(name) for name in ("aionrs", "pagent", "pagent-v4", "jan", "levpro")}

QUICK = settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
"""A failing log is shown as it is: to make it smaller takes minutes."""

MADE_HERE = (bus.CapabilitiesChanged, bus.HostToolRequested, bus.HostToolCancelled)
"""What a bridge tells in its own way: with its own mode, and as its own host is asked."""

pairs = pytest.mark.parametrize(("host", "agent"), [(a, b) for a in WIRES for b in WIRES])


class Nobody:
    """In the place of a process that is not there."""

    peer = None
    users = 0


def hear(codec: Codec, records: Sequence[Record]) -> list[Heard]:
    """What a host hears of an agent of a wire whose log this is."""
    writer, side, out = LogWriter(codec), codec.host(), b""
    for record in records:
        out += writer.write("s", record)
    out += writer.close()
    said: list[Heard | Answered] = [item for line in out.split(b"\n")[:-1] for item in side.receive(line)]
    return [item for item in said + side.close() if isinstance(item, Heard)]


async def bridged(
    host: Codec, agent: Codec, heard: Sequence[Heard], posted: list[Command] | None = None, **policy: Any
) -> list[Record]:
    """Our log of what was heard, made by the bridge's own hands; its host says nothing to any question."""
    rules = {"can_ask": True, "free": frozenset(), "shows_subagents": True, **policy}
    session = Session(
        "s",
        SessionLog(None),
        History(),
        settings=SessionSettings(workspace="/"),
        policy=msgspec.structs.replace(host.policy, **rules),
        ephemeral=True,
    )
    toolbox = Toolbox()
    link = Link(Nobody(), None, Words(agent), Account(host.name, agent.name, host.fidelity()))  # type: ignore[arg-type]
    if posted is not None:
        link.post = lambda command, answered=None: posted.append(command)  # type: ignore[method-assign]
    numbers: dict[Any, int] = {}
    following: Following | None = None
    session.opened = session.append(bus.SessionOpened("s"))
    async with trio.open_nursery() as nursery:
        for item in heard:
            event = item.event
            number = 0 if item.ref is None else numbers.setdefault(item.ref, len(numbers) + 1)
            if number and isinstance(event, bus.TurnStarted) and not item.origin:
                session.turns += 1
                name, ref = f"turn-{session.turns}", f"ref-{session.turns}"
                turn = Turn(session, toolbox, number=session.turns, id=name, ref=ref, input=event.input)
                session.active = turn
                turn.say(bus.TurnStarted(name, ref, event.input))
                following = Following(turn, link, nursery)
                following.turn = number
            if following is None or following.turn != number or following.ended.is_set():
                if not number:
                    beside(session.append, event, "default")
                continue
            following.hear(Record(0, 0, event, number, item.origin))  # type: ignore[arg-type]
            await trio.testing.wait_all_tasks_blocked()
            if following.ended.is_set():
                following.close()
                finish(following._ours)
        nursery.cancel_scope.cancel()
    cursor, records = session.log.cursor(after=0), []
    while batch := cursor.take():
        records += batch
    return records


def told(records: Sequence[Record]) -> list[tuple[str, Any]]:
    """A log without what a bridge may change: its own opening, ids of turns and questions, and how an end is put."""
    ids: dict[str, str] = {}
    found = []
    for record in records:
        event = record.event
        if isinstance(event, (*OWN, *MADE_HERE)):
            continue
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        if "approval_id" in fields:
            fields["approval_id"] = ids.setdefault(fields["approval_id"], f"approval-{len(ids)}")
        if isinstance(event, bus.TurnStarted):
            fields.update(id="", ref="", agent="", user="")
        if isinstance(event, bus.TurnFinished):
            fields["limit"] = fields["limit"] or ("steps" if event.outcome == "limit" else "")
            fields["finish_reason"] = "" if event.outcome == "cancelled" else event.finish_reason
            fields["error"] = UNSET if event.outcome == "failed" else event.error
        found.append((f"{tag(type(event))} {record.origin}", fields))
    return found


def booked(heard: Sequence[Heard]) -> list[Record]:
    """What was heard as a log in good order, without any bridge."""
    books = Logbooks()
    logged = [item for one in heard for item in books.hear(one, At(0, 0))]
    return [item.record for item in [*logged, *books.close(At(0, 0))]]


def differences(host: Codec, records: Sequence[Record], fidelity: Fidelity) -> list[str]:
    """Where a table's account of what a host hears of a bridge's log is not what it hears."""
    heard = [item.event for item in hear(host, records)]
    said = [item.event for item in fidelity.surviving(records, "s")]
    return [f"{a} is not {b}" for a, b in zip(heard, said, strict=False) if a != b] + (
        []
        if len(heard) == len(said)
        else [f"{len(heard)} heard, not {len(said)}: {(heard[len(said) :] + said[len(heard) :])[:2]}"]
    )


def cross(host: str, agent: str, records: Sequence[Record]) -> tuple[list[Heard], list[Record]]:
    heard = hear(WIRES[agent], records)
    return heard, trio.run(bridged, WIRES[host], WIRES[agent], heard)


def without_errors(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """A failure that no line told is told by the bridge."""
    return [row for row in rows if not row[0].startswith("error_raised")]


@pairs
@QUICK
@given(records=logs())
def test_a_bridge_tells_what_it_heard(host: str, agent: str, records: list[Record]) -> None:
    assume(ids_are_unique(records))
    heard, ours = cross(host, agent, records)
    assert broken_laws(ours) == []
    if not early(host, agent):
        assert without_errors(told(ours)) == without_errors(told(booked(heard)))


def ids_are_unique(records: Sequence[Record]) -> bool:
    """No call of a subagent has the id of one of the main agent, or of another turn: an engine takes care of that."""
    places: dict[str, tuple[int, str]] = {}
    for record in records:
        event, place = record.event, (record.turn, record.origin)
        named = [call.call_id for call in event.calls] if isinstance(event, bus.StepFinished) else []
        named.append(getattr(event, "call_id", ""))
        if any(places.setdefault(call_id, place) != place for call_id in named if call_id):
            return False
    return True


def early(host: str, agent: str) -> bool:
    """Pairs of wires where calls have to end before their results are known."""
    return WIRES[host].policy.calls == "sequential" and WIRES[agent].policy.calls == "reads_together"


@pairs
@QUICK
@given(records=logs())
def test_its_host_hears_what_its_wire_leaves_of_that(host: str, agent: str, records: list[Record]) -> None:
    assume(ids_are_unique(records))
    _, ours = cross(host, agent, records)
    fidelity = WIRES[host].fidelity()
    assert differences(WIRES[host], ours, fidelity) == []
    account = Account(host, agent, fidelity)
    account.add("s", ours)
    counted = {(loss.event, loss.field, loss.when): loss.count for loss in account.report().losses}
    assert counted == {(d.event, d.field, d.when): n for d, n in fidelity.losses(ours).items()}


# --- a table that hides something is found out ------------------------------------------------------------------


def hiding(fidelity: Fidelity) -> Iterator[tuple[tuple[str, str, str], Fidelity]]:
    """Tables that leave out one loss each, with what they leave out."""
    for kind, rows in fidelity._rows.items():
        for at, row in enumerate(rows):
            if row.verdict == "absent":
                exact = dict.fromkeys(kind.__struct_fields__, EXACT)
                hidden = msgspec.structs.replace(row, verdict="exact", fields=exact)
                yield (tag(kind), "", row.when), _with(fidelity, kind, at, hidden)
            for field, rule in row.fields.items():
                if rule.verdict != "exact" and row.becomes is None:
                    hidden = msgspec.structs.replace(row, fields={**row.fields, field: EXACT})
                    yield (tag(kind), field, row.when), _with(fidelity, kind, at, hidden)


def _with(fidelity: Fidelity, kind: type[bus.Event], at: int, row: Any) -> Fidelity:
    other = copy.copy(fidelity)
    rows = [*fidelity._rows[kind]]
    rows[at] = row
    other._rows = {**fidelity._rows, kind: rows}
    return other


def one_turn() -> list[Record]:
    """A turn with a little of everything that the wires tell."""
    usage = bus.Usage(1500, 320, 800, 200, 40, {"cost": 1})
    diff = bus.Diff("/w/a", "--- a/w/a\n+++ b/w/a\n@@ -1 +1 @@\n-x\n+y", "x\n", "y\n")
    calls = [bus.CallRef("c1", "edit", '{"b":1}'), bus.CallRef("c2", "run", "{}")]
    error = bus.ErrorInfo("provider_error", "it broke", retryable=True)
    told = [
        bus.TurnStarted("t1", "r1", [bus.Text("do it"), bus.Image("image/png", "AA==")], "coder", "me"),
        bus.StepStarted(0, 9),
        bus.RequestSent("p", "m", "chat", "ab", 12, "cd"),
        bus.ReasoningDelta("let me see", "m1"),
        bus.RetryScheduled(1, 3, 500, "overloaded", stream=True),
        bus.TextDelta("I will", "m1"),
        bus.CallStarted("c1", "edit"),
        bus.CallArgumentsDelta("c1", '{"b":1}'),
        bus.StepFinished(0, "I will", "let me see", calls, usage, "tool_calls", "p"),
        bus.CallReady("c1", "edit", '{"b":1}', msgspec.Raw(b'{"b":1}'), "edit", "Edit a", [bus.Location("/w/a", 3)]),
        bus.CallReady("c2", "run", "{}", msgspec.Raw(b"{}"), "exec", "Run it"),
        bus.ApprovalRequested("p1", "c1", "edit", "edit", "/w/a", "", diff, "write", False),
        bus.ApprovalResolved("p1", "c1", "allowed", "tool", "host", "fine"),
        bus.CallRunning("c1", "edit"),
        bus.CallOutputDelta("c1", "half", "stdout"),
        bus.CallFinished(
            "c1", "edit", "ok", "done", diff, [bus.Image("image/png", "AA==")], {"n": 1}, duration_ms=7, retryable=True
        ),
        bus.ApprovalRequested("p2", "c2", "run", "exec", "", "ls", prompt_kind="exec"),
        bus.ApprovalResolved("p2", "c2", "denied", "call", "host", "no"),
        bus.CallCancelled("c2", "denied", "no", "run", "You may not"),
        bus.Notice("by the way", "warning"),
        bus.StepStarted(1, 9),
        bus.TextDelta("so far"),
        bus.StepFinished(1, "so far", "", [], usage, "stop", "p"),
        bus.ErrorRaised(error),
        bus.TurnFinished("failed", "so far", usage + usage, error, "stop", 2),
    ]
    opened = bus.SessionOpened("s", "new", "/w", "p", "m")
    return [Record(1, 0, opened), *(Record(seq, 0, event, 1) for seq, event in enumerate(told, 2))]


@pytest.mark.parametrize("host", ["aionrs", "pagent-v4", "jan", "levpro"])
def test_a_table_that_hides_a_loss_is_found_out(host: str) -> None:
    true = WIRES[host].fidelity()
    ours = [cross(host, agent, one_turn())[1] for agent in ("jan", "aionrs", "pagent-v4")]
    found, missed = 0, []
    for hidden, false in hiding(true):
        hit = [log for log in ours if hidden in {(d.event, d.field, d.when) for d in true.losses(log)}]
        found += bool(hit)
        if hit and not any(differences(WIRES[host], log, false) for log in hit):
            missed.append(hidden)
    assert missed == []
    assert found > 1


def test_the_host_and_agent_of_a_wire_lose_nothing_twice(tmp_path: Path) -> None:
    """What survived a wire once survives it again: between two of a kind a bridge adds no loss."""
    for name in ("aionrs", "jan", "levpro"):
        heard, ours = cross(name, name, one_turn())
        kinds = {type(item.event) for item in heard} - set(OWN)
        again = {type(item.event) for item in hear(WIRES[name], ours)}
        assert kinds <= again, name


def test_a_subagents_question_that_the_host_cannot_see_is_denied() -> None:
    told = [
        bus.TurnStarted("t"),
        bus.CallReady("c", "run"),
        bus.ApprovalRequested("p", "c", "run"),
        bus.CallCancelled("c", "denied", "no", "run"),
        bus.TurnFinished("completed"),
    ]
    heard = [Heard(event, "", "r", "sub-1" if "call_id" in event.__struct_fields__ else "") for event in told]
    posted: list[Command] = []
    ours = trio.run(lambda: bridged(WIRES["aionrs"], WIRES["jan"], heard, posted, shows_subagents=False))
    assert [type(command) for command in posted] == [Deny]
    assert not any(isinstance(record.event, bus.ApprovalRequested) for record in ours)
    assert [record.event.cause for record in ours if isinstance(record.event, bus.CallCancelled)] == ["refused"]
