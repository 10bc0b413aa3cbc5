"""Connections over real sockets: several on one session, one that does not read, one that goes away."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import trio
import trio.testing
from support.stage import SocketTransport
from support.world import Reply, World

from agentwire import load_codec
from agentwire.policy import Policy
from agentwire.server.connection import Connection

CODEC = load_codec("aionrs")


class Host:
    """The other end, as a host uses it."""

    def __init__(self, world: World, nursery: trio.Nursery, name: str) -> None:
        ours, theirs = socket.socketpair()
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self.connection = Connection(
            world.server, CODEC.agent(), SocketTransport(theirs), max_line=CODEC.max_line, session="s", name=name
        )
        self.connection.outbox.follow(world.session)
        world.server.attach(self.connection)
        self.buffer = b""
        nursery.start_soon(self.connection.run)

    async def send(self, *messages: dict) -> None:
        await self.stream.send_all(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def next(self) -> dict:
        while b"\n" not in self.buffer:
            chunk = await self.stream.receive_some(65536)
            assert chunk, "the connection was closed"
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    async def until(self, kind: str) -> list[dict]:
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events


@pytest.fixture
def world(nursery: trio.Nursery, tmp_path: Path) -> World:
    replies = [Reply("ab", ["change"]), Reply("done")]
    made = World(nursery, replies, Policy(), tmp_path)
    made.session.opened = made.open()
    return made


async def test_two_hosts_drive_one_session_and_the_first_answer_wins(world, nursery):
    with trio.fail_after(10):
        first, second = Host(world, nursery, "first"), Host(world, nursery, "second")
        assert (await first.next())["type"] == "ready"
        assert (await second.next())["type"] == "ready"
        await first.send({"type": "message", "msg_id": "m", "content": "go"})
        await first.until("tool_request")
        (request,) = [event for event in await second.until("tool_request") if event["type"] == "tool_request"]
        await second.send({"type": "tool_approve", "call_id": request["call_id"]})
        await second.until("tool_running")
        await first.send({"type": "tool_deny", "call_id": request["call_id"]}, {"type": "ping"})
        seen = await first.until("stream_end")
        assert {"type": "pong"} in seen
        assert [event["type"] for event in seen if event["type"].startswith("tool_")] == ["tool_running", "tool_result"]
        assert (await second.until("stream_end"))[-1]["msg_id"] == "m"
    by = [record.event.by for record in world.records() if type(record.event).__name__ == "ApprovalResolved"]
    assert by == ["second"]


async def test_a_host_that_joins_in_the_middle_of_a_turn_sees_the_rest_of_it(world, nursery):
    with trio.fail_after(10):
        first = Host(world, nursery, "first")
        await first.send({"type": "message", "msg_id": "m", "content": "go"})
        request = (await first.until("tool_request"))[-1]
        late = Host(world, nursery, "late")
        assert (await late.next())["type"] == "ready"
        await late.send({"type": "tool_approve", "call_id": request["call_id"]})
        seen = await late.until("stream_end")
        assert [event["type"] for event in seen][:2] == ["tool_running", "tool_result"]
        assert seen[0]["tool_name"] == "change"
        assert all(event["msg_id"] == "m" for event in seen)


async def test_a_host_that_does_not_read_slows_nobody_and_loses_nothing(nursery, tmp_path):
    text = "".join(chr(0x4E00 + n % 1000) for n in range(10_000))
    world = World(nursery, [Reply(text)], Policy(), tmp_path, pause=0)
    world.session.opened = world.open()
    with trio.fail_after(60):
        deaf, quick = Host(world, nursery, "deaf"), Host(world, nursery, "quick")
        await quick.send({"type": "message", "msg_id": "m", "content": "go"})
        heard = await quick.until("stream_end")
        assert "".join(event.get("text", "") for event in heard) == text
        assert len(deaf.connection.outbox.out) < 256 * 1024
        late = await deaf.until("stream_end")
        assert "".join(event.get("text", "") for event in late) == text
        assert [e["type"] for e in late if e["type"] != "text_delta"] == [
            e["type"] for e in heard if e["type"] not in ("text_delta",)
        ]


async def test_one_host_that_goes_away_takes_its_questions_with_it(world, nursery):
    with trio.fail_after(10):
        host = Host(world, nursery, "only")
        await host.send({"type": "message", "msg_id": "m", "content": "go"})
        await host.until("tool_request")
        await host.stream.send_eof()
        seen = await host.until("stream_end")
        assert seen[0] == {
            "type": "tool_cancelled", "msg_id": "m", "call_id": seen[0]["call_id"], "reason": "Client disconnected",
        }  # fmt: skip


async def test_one_of_two_hosts_that_goes_away_leaves_the_questions_to_the_other(world, nursery):
    with trio.fail_after(10):
        going, staying = Host(world, nursery, "going"), Host(world, nursery, "staying")
        await going.send({"type": "message", "msg_id": "m", "content": "go"})
        request = (await staying.until("tool_request"))[-1]
        await going.stream.send_eof()
        await trio.testing.wait_all_tasks_blocked()
        await staying.send({"type": "tool_approve", "call_id": request["call_id"]})
        seen = await staying.until("stream_end")
        assert [event["type"] for event in seen if event["type"].startswith("tool_")] == ["tool_running", "tool_result"]
