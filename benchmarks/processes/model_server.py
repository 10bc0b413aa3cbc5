"""A model service on 127.0.0.1 that is much faster than any client: whole replies are made beforehand.

Speaks OpenAI's Chat Completions and Anthropic's Messages. A request whose last message says ``stream 500`` gets 500
deltas, each an event and an HTTP chunk of its own. Says its port first; ends when its standard input does.
"""

import functools
import itertools
import json
import re
import socketserver
import sys
import threading
from typing import Any

PIECES = (" the", " last", " line", ",", " even", " without", " a", " line", " feed", ".\n", ' "quoted"', " –")
"""What the deltas say, in turns."""


def text(count: int) -> str:
    """What that many deltas say together."""
    return "".join(itertools.islice(itertools.cycle(PIECES), count))


def openai_chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """An event of a Chat Completions stream, with what services put around a delta."""
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    chunk = {
        "id": "chatcmpl-9yTq3vXk2LmNpRsTuVwXyZ", "object": "chat.completion.chunk", "created": 1764460800,
        "model": "test-model-2025-11-01", "service_tier": "default", "system_fingerprint": "fp_560af6e559",
        "choices": choices, **more,
    }  # fmt: skip
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def openai_events(count: int) -> list[bytes]:
    """A whole reply."""
    pieces = [openai_chunk({"content": piece}) for piece in PIECES]
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": count + 9}
    return [
        openai_chunk({"role": "assistant", "content": ""}),
        *itertools.islice(itertools.cycle(pieces), count),
        openai_chunk({}, "stop"),
        openai_chunk({}, usage=usage),
        b"data: [DONE]\n\n",
    ]


def anthropic_event(kind: str, **fields: Any) -> bytes:
    """An event of a Messages stream."""
    return f"event: {kind}\ndata: ".encode() + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def anthropic_events(count: int) -> list[bytes]:
    """A whole reply."""
    pieces = [
        anthropic_event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}) for piece in PIECES
    ]
    message: dict[str, Any] = {
        "id": "msg_01XYZ", "type": "message", "role": "assistant", "model": "test-model", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
    }  # fmt: skip
    return [
        anthropic_event("message_start", message=message),
        anthropic_event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *itertools.islice(itertools.cycle(pieces), count),
        anthropic_event("content_block_stop", index=0),
        anthropic_event(
            "message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": count}
        ),
        anthropic_event("message_stop"),
    ]


@functools.cache
def reply(anthropic: bool, count: int) -> bytes:
    """A whole HTTP response."""
    events = (anthropic_events if anthropic else openai_events)(count)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n"


class Connection(socketserver.StreamRequestHandler):
    """A client's connection, for as many requests as it likes."""

    def handle(self) -> None:
        """Answer until the client is gone."""
        try:
            while request := self.rfile.readline():
                size = 0
                while (header := self.rfile.readline()) != b"\r\n":
                    name, _, value = header.partition(b":")
                    if name.lower() == b"content-length":
                        size = int(value)
                count = re.findall(rb"stream (\d+)", self.rfile.read(size))[-1]
                self.connection.sendall(reply(b"/messages" in request, int(count)))
        except ConnectionError:
            return  # it left in the middle


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection."""

    daemon_threads = True


def main() -> None:
    """Serve until standard input ends."""
    with Server(("127.0.0.1", 0), Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_address[1], flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
