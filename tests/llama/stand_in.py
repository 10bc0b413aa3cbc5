"""Stands in for `llama-server` in tests: its arguments, its health, its stream, and every way to misbehave.

Its world is a folder: every start is noted in `starts` (process and port), every request in `requests`, and
`behaviour.json` holds what each start does (the last one counts for all that come after it):

    load       seconds until it is healthy; `loaded` appears in the folder then
    gate       the name of a file in the folder; it is healthy once that is there
    exit       status with which it ends at once
    say        text that it writes to its output at the start
    stubborn   it ignores TERM
    child      it starts a process of its own, noted in `children`
    die_after  pieces of a reply after which it is killed from within
    pieces     what it replies
    refuse     the status that it answers every request with
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def note(path: Path, text: str) -> int:
    """Append a line; how many there were before."""
    with path.open("a+") as file:
        file.seek(0)
        before = len(file.readlines())
        file.write(f"{text}\n")
    return before


class Handler(BaseHTTPRequestHandler):
    """Health and Chat Completions."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/health":
            return self.answer(404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})
        if healthy():
            return self.answer(200, {"status": "ok"})
        return self.answer(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["authorization"] != f"Bearer {os.environ['LLAMA_API_KEY']}":
            return self.answer(401, {"error": {"code": 401, "message": "Invalid API Key"}})
        if not healthy():
            return self.answer(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
        note(world / "requests", json.dumps({"path": self.path, "body": body}))
        if "refuse" in behaviour:
            return self.answer(behaviour["refuse"], {"error": {"message": "Failed to parse grammar"}})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(behaviour.get("pieces", ["Hello", " there"])):
            if number == behaviour.get("die_after"):
                print("ggml_abort: CUDA error: out of memory", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            self.event({"choices": [{"index": 0, "delta": {"content": piece}}]})
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")
        return None

    def event(self, value: object) -> None:
        self.chunk(b"data: " + json.dumps({"object": "chat.completion.chunk", **value}).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def answer(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        print(f"srv  log_server_r: {format % arguments}", flush=True)


def healthy() -> bool:
    if "gate" in behaviour:
        return (world / behaviour["gate"]).exists()
    return time.monotonic() >= started + behaviour.get("load", 0)


if __name__ == "__main__":
    started = time.monotonic()
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--world", type=Path, required=True)
    for name in ("--model", "--alias", "--host", "--ctx-size", "--n-gpu-layers", "--threads", "--sleep-idle-seconds"):
        parser.add_argument(name)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--jinja", action="store_true")
    given, unknown = parser.parse_known_args()
    world = given.world
    start = note(world / "starts", json.dumps({"pid": os.getpid(), "port": given.port, "argv": sys.argv[3:]}))
    behaviours = json.loads((world / "behaviour.json").read_text())
    behaviour = behaviours[min(start, len(behaviours) - 1)]
    (world / "environ").write_text(json.dumps(dict(os.environ)))
    if unknown:
        print(f"error: invalid argument: {unknown[0]}", file=sys.stderr, flush=True)
        sys.exit(1)
    if behaviour.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour.get("child"):
        note(world / "children", str(subprocess.Popen(["sleep", "300"]).pid))
    if "say" in behaviour:
        print(behaviour["say"], flush=True)
    if "exit" in behaviour:
        sys.exit(behaviour["exit"])
    server = ThreadingHTTPServer((given.host, given.port), Handler)
    threading.Thread(target=server.serve_forever).start()
