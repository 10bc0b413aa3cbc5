"""A recording as a live agent: real hosts of every wire, who do not notice, and what they do differently."""

from __future__ import annotations

import json
from contextlib import aclosing, suppress

import pytest
import trio
from pagent.wire import decode_event_line
from pagentv4.adapters.acp import decode_event_line as decode_v4
from replaying import ANSWERS, ASKING, EVERY, RECORDINGS, recorded, replay, said, serve, talk

from agentwire import connect, load_codec
from agentwire.events import ApprovalRequested, CallCancelled, TextDelta, TurnFinished
from agentwire.host.connect import AgentDied
from agentwire.recording import open_recording
from agentwire.replay.comparing import Comparison
from agentwire.replay.ids import Ids
from agentwire.replay.pace import Pace
from agentwire.replay.standing_in import StandIn
from agentwire.testing import RecordedAgent
from agentwire.transcode import wire_of

pytestmark = pytest.mark.slow

LOGS = sorted(path for path in RECORDINGS.glob("*.jsonl") if path.stem not in ("decode_probes", "http_demo"))


@pytest.mark.parametrize("codec", EVERY)
async def test_a_host_of_each_wire_does_not_notice(codec, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert await talk(serve(tmp_path, codec), codec, first) == ANSWERS
    agent = RecordedAgent(first)
    assert agent.codec == codec
    assert await talk(agent.argv, codec, second) == ANSWERS
    _same_again(first, second)
    # A host that uses the same ids reads the same bytes.
    done = replay(first, "--serve", "--instant", given=said(first, "host"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == said(first, "agent")


def _same_again(first, second):
    """Recording a replay gives the recording again, but for ids and times."""
    comparison = Comparison(Ids())
    for who in ("host", "agent"):
        then, now = (said(path, who).split(b"\n") for path in (first, second))
        assert len(then) == len(now)
        for old, new in zip(then, now, strict=True):
            assert not comparison.different(old, new), (old, new)


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("source", ["aionrs", "jan"])
async def test_a_recording_is_an_agent_of_any_other_wire(source, target, tmp_path):
    if source == target:
        pytest.skip("its own wire is tested above")
    path = tmp_path / "r"
    await talk(serve(tmp_path, source), source, path)
    agent = RecordedAgent(path, target)
    assert await talk(agent.argv, target, tmp_path / "again") == ANSWERS
    assert wire_of(open_recording(tmp_path / "again")) == target


@pytest.mark.parametrize("codec", ASKING)
async def test_a_question_waits_for_the_host(codec, tmp_path):
    await talk(serve(tmp_path, codec), codec, tmp_path / "r", allow=False)
    async with RecordedAgent(tmp_path / "r").connect() as peer:
        kinds = []
        async with aclosing(peer.prompt("hi")) as events:
            async for event in events:
                kinds.append(type(event))
                if isinstance(event, ApprovalRequested):
                    with trio.move_on_after(0.3) as waited:
                        await events.__anext__()
                    assert waited.cancelled_caught
                    break
        assert kinds[-1] is ApprovalRequested


@pytest.mark.parametrize("codec", ASKING)
async def test_the_host_denies_as_it_did(codec, tmp_path):
    await talk(serve(tmp_path, codec), codec, tmp_path / "r", allow=False)
    async with RecordedAgent(tmp_path / "r").connect(on_approval=lambda question: False) as peer:
        events = [event async for event in peer.prompt("hi")]
    assert [event.cause for event in events if isinstance(event, CallCancelled)] == ["denied"]


class Given:
    """A host that says everything at once, and listens."""

    def __init__(self, data: bytes) -> None:
        self._left = [data] if data else []
        self.out = bytearray()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self._left.pop() if self._left else b""

    def send_now(self, data) -> int:
        self.out += data[:100]  # and takes little at a time
        return min(len(data), 100)

    async def wait_writable(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        pass


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_log_of_an_agent_answers_prompts(path):
    """Each run answers the next user; a real peer's decoder reads it."""
    recording = open_recording(path)
    v4 = wire_of(recording) == "pagent-v4"
    if recording.plain:
        runs = path.read_bytes().count(b'"RunBegin"')
        answers = b""
        if v4:
            calls = [json.loads(line)["params"] for line in path.read_bytes().splitlines() if b"PermitRequest" in line]
            answers = b"".join(
                b'{"cmd": "permit", "tool_call_id": "%s"}\n' % call["tool_call_id"].encode() for call in calls
            )
        given = b'{"cmd": "user", "text": "whatever"}\n' * max(runs, 1) + answers
    else:
        given = said(path, "host")
    transport = Given(given)
    codec = load_codec("pagent-v4" if v4 else "pagent")
    assert trio.run(StandIn(recording, codec, transport, Pace(0)).run) == 0
    assert transport.out == said(path, "agent")
    for line in transport.out.decode().split("\n")[:-1]:
        if '"RunBegin"' in line or '"TextDelta"' in line or '"RunEnd"' in line:
            assert (decode_v4 if v4 else decode_event_line)(line) is not None


def test_a_run_waits_for_its_user():
    done = replay(
        RECORDINGS / "two_runs_one_session.jsonl", "--serve", "--instant", given=b'{"cmd":"user","text":"x"}\n'
    )
    assert done.returncode == 0
    assert done.stdout.count(b"RunBegin") == 1
    assert done.stdout.count(b"RunEnd") == 1


HOST = b'{"type":"message","msg_id":"m1","content":"hi"}\n'
TALK = [
    ("agent", b'{"type":"ready","version":"0.2.0","capabilities":{}}\n'),
    ("host", HOST),
    ("agent", b'{"type":"stream_start","msg_id":"m1"}\n'),
    ("agent", b'{"type":"text_delta","text":"the id is m1, \\"msg_id\\":\\"m1\\"","msg_id":"m1"}\n'),
    ("agent", b'{"type": "tool_request", "msg_id": "m1", "call_id": "c1", "tool": {"name": "t", "category": "exec", '
              b'"args": {"msg_id": "other"}, "description": ""}}\n'),
    ("host", b'{"type":"tool_approve","call_id":"c1","scope":"once"}\n'),
    ("agent", b'{"type":"stream_end","msg_id":"m1"}\n'),
]  # fmt: skip


def live(path, *lines: bytes, lenient: bool = False):
    return replay(path, "--serve", "--instant", *(["--lenient"] if lenient else []), given=b"".join(lines))


def test_only_ids_change_and_only_where_they_are_ids(tmp_path):
    path = recorded(tmp_path / "r", "aionrs", TALK)
    done = live(path, HOST.replace(b"m1", b"other-\xc3\xa9"), b'{"type":"tool_approve","call_id":"c1"}\n')
    assert done.returncode == 0, done.stderr
    expected = said(path, "agent").replace(b'"msg_id":"m1"', b'"msg_id":"other-\xc3\xa9"')
    expected = expected.replace(b'"msg_id": "m1"', b'"msg_id": "other-\xc3\xa9"')
    assert done.stdout == expected
    assert b'the id is m1, \\"msg_id\\":\\"m1\\"' in done.stdout


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([HOST.replace(b"hi", b"bye")], "line 3: the host sent prompt with another text"),
        ([b'{"type":"ping"}\n'], "line 3: the host sent ping where the recording has prompt"),
        ([b"nonsense\n"], "line 3: the host sent a line that is no command where"),
        ([HOST, b'{"type":"tool_approve","call_id":"c2"}\n'], "line 7: the host sent approve with another call_id"),
        ([HOST, b'{"type":"tool_deny","call_id":"c1"}\n'], "line 7: the host sent deny where the recording"),
        ([HOST], "line 7: the host ended its input"),
        ([HOST, b'{"type":"tool_approve","call_id":"c1"}\n', HOST], "at the end: the host goes on"),
    ],
)  # fmt: skip
def test_a_host_that_does_something_else_is_told_where(lines, what, tmp_path):
    path = recorded(tmp_path / "r", "aionrs", TALK)
    done = live(path, *lines)
    assert done.returncode == 1
    assert what in done.stderr.decode()
    assert str(path) in done.stderr.decode()
    assert said(path, "agent").startswith(done.stdout)


def test_lenient_the_kind_is_enough_and_the_rest_is_reported(tmp_path):
    path = recorded(tmp_path / "r", "aionrs", TALK)
    lines = [HOST.replace(b"hi", b"bye"), b'{"type":"ping"}\n', b'{"type":"tool_approve","call_id":"c9"}\n']
    done = live(path, *lines, lenient=True)
    assert done.returncode == 0
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == [
        "ready", "stream_start", "text_delta", "tool_request", "pong", "stream_end",
    ]  # fmt: skip
    reports = done.stderr.decode().split("replay: ")[1:]
    assert len(reports) == 1
    assert "line 7: the host sent ping where the recording has approve" in reports[0]


async def test_on_another_wire_a_host_that_does_something_else_is_told_where(tmp_path):
    path = tmp_path / "r"
    await talk(serve(tmp_path, "aionrs"), "aionrs", path)
    told = "line 4: the host said 'something else' where the recording has 'hi'"
    async with RecordedAgent(path, "jan", lenient=True).connect(on_approval=lambda question: True) as peer:
        events = [event async for event in peer.prompt("something else")]
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == ["completed"]
    assert (peer.process.process.returncode, told in peer.stderr) == (0, True)
    async with RecordedAgent(path, "jan").connect() as peer:
        with suppress(AgentDied):  # or it is told of the turn's end before that
            events = [event async for event in peer.prompt("something else")]
            assert not any(isinstance(event, TextDelta) for event in events)
    assert (peer.process.process.returncode, told in peer.stderr) == (1, True)


async def test_a_wire_of_one_task_replays(tmp_path):
    path = tmp_path / "r"
    argv = serve(tmp_path, "jan-stream", PLAY_TASK, "--codec-option", "task=hi", "--auto-approve")
    async with connect(argv, codec="jan-stream", record=path) as peer:
        await peer.process.gone.wait()
    done = replay(path, "--serve", "--instant", given=said(path, "host"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == said(path, "agent")
    assert done.stdout.count(b"\n") > 3


PLAY_TASK = [{"text": "A task."}]


def test_codecs_are_all_covered():
    from agentwire import registry

    assert {*EVERY, "jan-stream"} == set(registry.names(registry.CODECS))
    assert all(load_codec(name).name == name for name in EVERY)
