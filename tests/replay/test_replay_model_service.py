"""What a model service sent, recorded as it came and read again by the real provider, without service and key."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from byte_service import Answer, byte_service
from replaying import asides, kept, verified
from support.model_service import ModelService
from support.replies import Cut, Gate, Refused, Reply, Text, Thinking, Tokens, ToolCall, raw

from agentwire import connect
from agentwire.events import AnyEvent, ErrorRaised, Image, ReasoningDelta, RetryScheduled, TextDelta, TurnFinished
from agentwire.events import Text as Prose
from agentwire.messages import Message, ToolMessage, UserMessage
from agentwire.provider import ModelRequest, ProviderError, conversation
from agentwire.recording import HttpReply, open_recording
from agentwire.replay.rereading import Failure, Reread, Rereading
from agentwire.replay.rereading import Reply as Recorded

pytestmark = pytest.mark.slow

KEY = "sk-a-key/of+ours-0123456789"
PASSWORD = "in-the-query-77"


def serve(folder: Path, provider: str, url: str, *options: str, key: str = KEY) -> list[str]:
    """The command of a recorded agent with this model service."""
    return [
        sys.executable, "-m", "agentwire", "serve", "--codec", "aionrs", "--provider", provider, "--base-url", url,
        "--model", "m", "--ephemeral", "--record", str(folder / "r"), "--workspace", str(folder),
        *(["--api-key", key] if key else []), *options,
    ]  # fmt: skip


async def converse(argv: list[str], *prompts: str) -> list[AnyEvent]:
    """Say something, allow everything, and hear what comes."""
    events: list[AnyEvent] = []
    with trio.fail_after(60):
        async with connect(argv, codec="aionrs", on_approval=lambda question: True) as peer:
            for prompt in prompts:
                events += [event async for event in peer.prompt(prompt)]
    return events


@pytest.fixture
async def model(nursery: trio.Nursery) -> ModelService:
    service = ModelService()
    await nursery.start(service.serve)
    return service


TALK = [
    Reply(
        Thinking("Let me "), Thinking("see."), "Look \u2014 ", ToolCall("c1", "ExecCommand", {"cmd": "touch mark"}),
        tokens=Tokens(40, 12, cached=30),
    ),
    Refused(429, "slow down", {"retry-after": "0", "x-request-id": "req_7", "set-cookie": "who=we"}),
    Reply("It is ", "done."),
    Reply("And half", Cut()),
    Refused(500, "Broken", {"x-ratelimit-remaining-tokens": "12", "openai-organization": "we"}),
    Reply("again"),
    Reply("third", Cut(reset=True)),
]  # fmt: skip


@pytest.fixture(params=["openai", "anthropic"])
async def talk(request, model, tmp_path) -> Path:
    """A conversation with everything that happens to one."""
    model.script(*TALK)
    events = await converse(serve(tmp_path, request.param, model.url), "hi", "more", "and more", "last")
    assert model.faults == []
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == [
        "completed", "failed", "completed", "failed",
    ]  # fmt: skip
    assert sum(isinstance(event, RetryScheduled) for event in events) == 2
    assert any(isinstance(event, ReasoningDelta) for event in events)
    return tmp_path / "r"


async def test_everything_that_came_is_kept_and_read_the_same(talk):
    (mark := talk.parent / "mark").unlink()
    (first, refused, done, half, broken, *_) = [kept(about) for about in asides(talk, "model")]
    assert [(reply["method"], reply["status"]) for reply in (first, refused, done, half, broken)] == [
        ("POST", 200), ("POST", 429), ("POST", 200), ("POST", 200), ("POST", 500),
    ]  # fmt: skip
    assert first["path"] in ("/v1/chat/completions", "/v1/messages")
    assert dict(refused["headers"]).keys() & {"retry-after", "x-request-id", "set-cookie"} == {
        "retry-after", "x-request-id",
    }  # fmt: skip
    assert [name for name, _ in broken["headers"] if name.startswith(("x-", "openai"))] == [
        "x-ratelimit-remaining-tokens"
    ]
    assert (first["whole"], half.get("whole"), half["broke"]["kind"]) == (True, None, "RemoteProtocolError")
    assert all("done" not in chunk[1] or "It is" not in chunk[1] for chunk in done["body"]), "borders are lost"
    times = [chunk[0] for chunk in first["body"]]
    assert first["answered"] <= times[0] <= times[-1] <= first["ended"]
    assert times == sorted(times)
    await verified(talk)
    assert not mark.exists(), "a tool ran"


async def test_a_byte_of_a_reply_makes_a_difference(talk):
    line = change(talk, '"It is \\"', '"It iz \\"')
    shown = await verified(talk, "different")
    assert shown.splitlines()[:2] == [f"--- {talk}, line {line}: the model's reply", "+++ the same bytes, read again"]
    assert '-  "text": "It is "' in shown
    assert '+  "text": "It iz "' in shown


async def test_a_reply_that_was_read_otherwise_makes_a_difference(talk):
    line = change(talk, '"finish_reason":"tool_calls"', '"finish_reason":"length"')
    shown = await verified(talk, "different")
    assert shown.startswith(f"--- {talk}, line {line}: the model's reply\n")
    assert '-  "finish_reason": "length",' in shown


async def test_a_parser_that_reads_otherwise_makes_a_difference(talk, monkeypatch):
    from agentwire.provider.sse import EventParser

    feed = EventParser.feed

    def without_blanks(self, chunk):
        return feed(self, chunk.replace(b"It is ", b"It is"))

    monkeypatch.setattr(EventParser, "feed", without_blanks)
    shown = await verified(talk, "different")
    assert '+  "text": "It is"' in shown


async def test_what_the_host_read_is_compared_as_well(talk):
    line = change(talk, '\\"text\\":\\"It is \\"', '\\"text\\":\\"It was \\"', who="agent")
    shown = await verified(talk, "different")
    assert shown.startswith(f"--- {talk}, line {line}\n+++ the server's line ")


def change(path: Path, old: str, new: str, who: str = "model") -> int:
    """Change something in the first entry of the model's that has it; its line."""
    lines = path.read_text().splitlines(keepends=True)
    number = next(number for number, line in enumerate(lines) if f'"who":"{who}"' in line and old in line)
    lines[number] = lines[number].replace(old, new, 1)
    path.write_text("".join(lines))
    return number + 1


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_no_key_and_nothing_of_a_request_is_kept(provider, tmp_path):
    """Keys in headers, in the address, in a header of the user's own; sent back in headers, errors and streams."""
    own = "a-token-of-the-user"
    escaped = json.dumps({"error": {"message": f"bad key {KEY}, {own}"}}).replace("/", "\\/").encode()
    middle = escaped.index(b"key\\/of")
    page = f"<h1>No such thing: /v1?api_key={PASSWORD}</h1>".encode()
    told = b'data: {"error":{"message":"what is %s","type":"invalid_request_error"}}\n\n' % KEY.encode()
    echo = {"x-request-id": f"req-{KEY}", "content-type": "application/json"}
    answers = [
        Answer([escaped[:middle], escaped[middle:]], 401, echo),
        Answer([page], 404, {"content-type": "text/html"}),
        Answer([told]),
        Answer([gzip.compress(escaped)], 403, {"content-type": "application/json", "content-encoding": "gzip"}),
        Answer([zlib.compress(escaped)], 403, {"content-type": "application/json", "content-encoding": "unheard-of"}),
    ]
    async with byte_service(*answers) as service:
        user = "us:pass-word@" if provider == "anthropic" else ""  # a password goes where OpenAI's key does
        url = f"{service.url.replace('//', f'//{user}')}/v1?api_key={PASSWORD}&version=2"
        more = ["--provider-option", f"headers={json.dumps({'X-Api-Token': own})}"]
        events = await converse(serve(tmp_path, provider, url, *more), *"abcde")
        requests = [head.decode().lower() for head in service.heads]
    assert len(requests) == 5
    assert all(KEY in head and own in head and PASSWORD in head for head in requests)
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == ["failed"] * 5
    text = (tmp_path / "r").read_text()
    basic = base64.b64encode(b"us:pass-word").decode()
    for secret in (KEY, KEY.replace("/", "\\\\/"), "of+ours", own, PASSWORD, "pass-word", basic):
        assert secret not in text
    sent = {line.partition(": ")[::2] for head in requests for line in head.split("\r\n")[1:]}
    for name, value in sent:
        if name not in ("content-type", "content-length", "connection", "host"):  # a reply has those, or messages
            assert f'"{name}"' not in text.lower(), name
            assert value == "text/event-stream" or f'"{value}"' not in text.lower(), name
    assert '"path":"/v1/' in text
    assert "version=2" not in text
    (refused, *_) = [kept(about) for about in asides(tmp_path / "r", "model")]
    assert ["x-request-id", "req-***"] in refused["headers"]
    await verified(tmp_path / "r")


async def test_nobody_is_there_and_nobody_is_again(tmp_path):
    events = await converse(serve(tmp_path, "openai", "http://127.0.0.1:9"), "hi")
    (error, *_) = [event.error for event in events if isinstance(event, ErrorRaised)]
    assert "Cannot connect to 127.0.0.1:9" in error.message
    assert kept(asides(tmp_path / "r", "model")[0])["broke"]["kind"] == "ConnectError"
    await verified(tmp_path / "r")


async def test_a_stop_in_the_middle_comes_again(model, tmp_path):
    model.script(Reply("one ", "two ", Gate(), "never"), "Fine.")
    with trio.fail_after(60):
        async with connect(serve(tmp_path, "anthropic", model.url), codec="aionrs") as peer:
            async for event in peer.prompt("go"):
                if isinstance(event, TextDelta) and "two" in event.text:
                    await peer.stop()
            assert await peer.ask("on") == "Fine."
    left = kept(asides(tmp_path / "r", "model")[0])
    assert "whole" not in left
    assert "broke" not in left
    await verified(tmp_path / "r")


SPLIT = 'data: {"choices":[{"delta":{"content":"a\u2014b"},"finish_reason":"stop"}]}\n\n'.encode()


async def test_pieces_that_are_no_text_by_themselves(tmp_path):
    middle = SPLIT.index("\u2014".encode()) + 1
    pieces = [SPLIT[:middle], SPLIT[middle:], b"data: [DONE]\n\n"]
    packed = zlib.compressobj(wbits=31)
    squeezed = [packed.compress(piece) + packed.flush(zlib.Z_SYNC_FLUSH) for piece in pieces] + [packed.flush()]
    zipped = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    async with byte_service(Answer(pieces), Answer(squeezed, headers=zipped)) as service:
        events = await converse(serve(tmp_path, "openai", service.url), "hi", "again")
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["a\u2014b", "a\u2014b"]
    for about in asides(tmp_path / "r", "model"):
        reply = kept(about)
        body = [base64.b64decode(chunk[2]) if chunk[2:] else chunk[1].encode() for chunk in reply["body"]]
        assert body == pieces
        assert "content-encoding" not in dict(reply["headers"])
    await verified(tmp_path / "r")


async def test_a_date_until_which_to_wait_is_one_again(model, tmp_path):
    from datetime import UTC, datetime, timedelta
    from email.utils import format_datetime

    until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    model.script(Refused(429, "later", {"retry-after": until}), "Now.")
    events = await converse(serve(tmp_path, "openai", model.url), "hi")
    assert any(isinstance(event, RetryScheduled) for event in events)
    await trio.sleep_until(trio.current_time() + 2)  # the date is over
    await verified(tmp_path / "r")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"api": "responses"}, "/v1/responses"),
        ({"api_path": "/own/place?api_key=in-the-query-77"}, "/own/place"),
        ({"thinking_tags": False}, "/v1/chat/completions"),
    ],
)  # fmt: skip
async def test_a_provider_reads_as_it_was_told_to(options: dict[str, Any], path, tmp_path):
    """Options that decide how a reply is read are kept; what a user wrote freely is not."""
    told = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "<think>x</think>y", "annotations": []}]}  # fmt: skip
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**told, "content": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": told},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [told]}},
    ]  # fmt: skip
    chat = [{"choices": [{"delta": {"content": "<think>x</think>y"}, "finish_reason": "stop"}]}]
    said = events if options.get("api") == "responses" else chat
    pieces = [f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n".encode() for event in said]
    more = [part for name, value in options.items()
            for part in ("--provider-option", f"{name}={json.dumps(value)}")]  # fmt: skip
    async with byte_service(Answer([*pieces, b"data: [DONE]\n\n"])) as service:
        await converse(serve(tmp_path, "openai", service.url, *more), "hi")
    (about,) = asides(tmp_path / "r", "model")
    assert kept(about)["path"] == path
    assert about["completion"]["text"] == ("y" if "api_path" in options else "<think>x</think>y")
    assert kept(about)["reader"]["options"] == {name: value for name, value in options.items() if name != "api_path"}
    assert PASSWORD not in (tmp_path / "r").read_text()
    await verified(tmp_path / "r")


MESSAGE = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm \u2014"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi."}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
TOKEN = "a-token-of-the-cloud-42"


@pytest.mark.parametrize(
    ("provider", "module", "environ"),
    [
        ("bedrock", "botocore", {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": TOKEN}),
        ("bedrock", "botocore", {"AWS_BEARER_TOKEN_BEDROCK": TOKEN}),
        ("vertex", "google.auth", {"VERTEX_ACCESS_TOKEN": TOKEN, "VERTEX_PROJECT_ID": "p1"}),
    ],
)  # fmt: skip
async def test_clouds(provider, module, environ, tmp_path, monkeypatch):
    """Signed and opened when it was recorded; afterwards there is no account."""
    pytest.importorskip(module)
    if provider == "bedrock":
        pieces = [frame(json.dumps({"bytes": base64.b64encode(json.dumps(event).encode()).decode()}).encode())
                  for event in MESSAGE]  # fmt: skip
        answer = Answer(pieces, headers={"content-type": "application/vnd.amazon.eventstream"})
        no = Answer([json.dumps({"message": f"The token {TOKEN} is no good"}).encode()], 403,
                    {"content-type": "application/json", "x-amzn-errortype": "AccessDeniedException"})  # fmt: skip
    else:
        pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in MESSAGE]
        answer = Answer(pieces)
        no = Answer([json.dumps([{"error": {"message": f"not {TOKEN}"}}]).encode()], 403,
                    {"content-type": "application/json"})  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    async with byte_service(answer, no) as service:
        events = await converse(serve(tmp_path, provider, service.url, key=""), "hi", "again")
        assert len(service.heads) == 2
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == ["completed", "failed"]
    text = (tmp_path / "r").read_text()
    assert TOKEN not in text
    assert "AWS4-HMAC" not in text
    (about, _) = asides(tmp_path / "r", "model")
    assert about["completion"]["items"][0] == {"type": "thinking", "thinking": "Hm \u2014", "signature": "c2ln"}
    for name in environ:
        monkeypatch.delenv(name)
    await verified(tmp_path / "r")


def frame(payload: bytes) -> bytes:
    """A frame of an AWS event stream that holds an event."""
    head = b"".join(b"%c%s\x07%s%s" % (len(name), name, struct.pack("!H", len(value)), value) for name, value in (
        (b":event-type", b"chunk"), (b":message-type", b"event"),
    ))  # fmt: skip
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


async def test_sessions_side_by_side_keep_their_replies(model, tmp_path):
    """Two turns of one process, and the second is answered first."""
    first, second = Gate(), Gate()
    model.script(Reply("a1 ", first, "a2"), Reply("b1 ", second, "b2"))
    argv = serve(tmp_path, "openai", model.url)
    argv[argv.index("aionrs")] = "levpro"
    chat = b'{"id":"%s","method":"chat","params":{"input":"hi","session_id":"%s"}}\n'
    heard = b""
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        for say, until in (
            (lambda: process.stdin.send_all(chat % (b"1", b"a")), b'"a1 "'),
            (lambda: process.stdin.send_all(chat % (b"2", b"b")), b'"b1 "'),
            (second.open, b'"type":"result","result":{"response":"b1 b2"'),
            (first.open, b'"type":"result","result":{"response":"a1 a2"'),
        ):
            if (sending := say()) is not None:
                await sending
            while until not in heard:
                heard += await process.stdout.receive_some()
        await process.stdin.aclose()
        assert await process.wait() == 0
    assert [kept(about)["body"][1][1].count("b1") for about in asides(tmp_path / "r", "model")] == [1, 0]
    await verified(tmp_path / "r")


async def test_a_provider_that_is_not_here_is_named(talk):
    lines = talk.read_text()
    talk.write_text(lines.replace('"reader":{"provider":"', '"reader":{"provider":"un'))
    shown = await verified(talk, "cannot")
    assert "replies were read by the provider 'un" in shown
    assert "\n" not in shown


async def test_no_file_is_read_because_a_recording_names_it(talk, tmp_path):
    (tmp_path / "private").write_text('{"text": "private"}\n')
    lines = talk.read_text()
    named = json.dumps(str(tmp_path / "private"))
    now = f'"reader":{{"provider":"script","options":{{"script":{named}}}'
    talk.write_text(re.sub(r'"reader":\{"provider":"\w+","options":\{[^{}]*\}', lambda _: now, lines))
    assert now in talk.read_text()
    assert await verified(talk, "cannot") == (
        "replies were read with an option 'script' that is no switch, number or choice"
    )


async def test_images_that_a_recording_only_names_are_not_read(monkeypatch):
    monkeypatch.setattr(conversation, "_read", lambda path: pytest.fail(f"{path} was read"))
    http = HttpReply("s", "POST", "/", {"provider": "openai"}, status=401, whole=True)
    reply = Recorded(1, 0, provider="openai", http=[http], error=Failure("API error 401 from s.", "auth", status=401))
    found: list[Reread] = []

    async def at_once(at: int) -> None:
        await trio.lowlevel.checkpoint()

    messages: list[Message] = [
        UserMessage([Prose("Look"), Image("image/png", path="/dev/zero")]),
        ToolMessage("c", "ViewImage", "ok", images=[Image("image/png", path="/dev/zero")]),
    ]
    again = Rereading(reply, at_once, found.append)
    reading = reply.reading
    assert reading is not None
    with pytest.raises(ProviderError, match="401"):
        await again.complete(reading, ModelRequest("m", messages), lambda event: None)
    assert found == []


async def test_an_entry_that_makes_no_sense_is_named(talk):
    line = change(talk, '"reader":{"provider":', '"reader":{"providers":')
    shown = await verified(talk, "cannot")
    assert shown.startswith(f"line {line} of the recording makes no sense: ")


async def test_recordings_without_bytes_verify_as_they_did(talk):
    """As recordings were made before: what the agent was told, and nothing of HTTP."""
    lines = [json.loads(line) for line in talk.read_text().splitlines()]
    for line in lines:
        line.get("about", {}).pop("http", None)
    talk.write_text("".join(json.dumps(line) + "\n" for line in lines))
    await verified(talk)


async def test_what_is_no_event_stream_at_all(model, tmp_path):
    model.script(raw(b"data: what\n\n"), Reply(Text("ok")))
    events = await converse(serve(tmp_path, "openai", model.url), "hi", "more")
    assert [event.outcome for event in events if isinstance(event, TurnFinished)] == ["failed", "completed"]
    await verified(tmp_path / "r")


def test_entries_of_replies_are_passed_over_by_all_else(tmp_path):
    """Who shows a recording needs none of it."""
    from agentwire.recording import Recorder

    with Recorder(tmp_path / "r", "aionrs", role="serve") as recorder:
        recorder.agent(b'{"type":"ready","version":"0.2.0","capabilities":{}}\n')
        recorder.aside("model", {"request": 1, "http": [{"service": "s", "method": "POST", "path": "/"}]})
    assert [entry.who for entry in open_recording(tmp_path / "r")] == ["agent", "model"]
