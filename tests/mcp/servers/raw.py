"""An MCP server over stdio, written by hand so that it can misbehave in every way.

``raw.py PLAN``: a JSON object with ``tools`` (the listing, or ``pages`` of it), ``initialize`` and ``call`` (names of
behaviours below), ``result`` (the answer of behaviour "result") and ``file`` (where a behaviour leaves traces).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PLAN: dict[str, Any] = json.loads(sys.argv[1])
NOTIFICATIONS: list[Any] = []


def say(raw: str) -> None:
    sys.stdout.write(raw)
    sys.stdout.flush()


def send(**message: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(request: dict[str, Any], result: Any) -> None:
    send(id=request["id"], result=result)


def text(request: dict[str, Any], words: str) -> None:
    answer(request, {"content": [{"type": "text", "text": words}]})


def leave(trace: str) -> None:
    with Path(PLAN["file"]).open("a") as file:
        file.write(trace + "\n")


# --- initialize ---


def greet(request: dict[str, Any]) -> None:
    version = request["params"]["protocolVersion"]
    info = {"name": "raw", "version": "1"}
    answer(request, {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info})


def greet_noisily(request: dict[str, Any]) -> None:
    sys.stderr.write("log line of the demo server\n" * 8000)
    sys.stderr.flush()
    say("Starting demo server v1\n")
    greet(request)


def greet_when_told(request: dict[str, Any]) -> None:
    while not Path(PLAN["file"]).exists():
        time.sleep(0.01)
    greet(request)


def say_nothing(request: dict[str, Any]) -> None:
    leave(str(os.getpid()))


def quit_at_once(request: dict[str, Any]) -> None:
    sys.exit(1)


def refuse(request: dict[str, Any]) -> None:
    send(id=request["id"], error={"code": -32603, "message": "no licence"})


def refuse_vaguely(request: dict[str, Any]) -> None:
    send(id=request["id"], error={"code": -32000, "message": "no seats left"})


def speak_of_the_future(request: dict[str, Any]) -> None:
    answer(request, {"protocolVersion": "2099-01-01", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}})


def greet_badly(request: dict[str, Any]) -> None:
    answer(request, {"protocolVersion": request["params"]["protocolVersion"], "serverInfo": "raw"})


def be_stubborn(request: dict[str, Any]) -> None:
    """Ignores what asks it to end, and has a child that does too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal,time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(1000)",
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()
    leave(f"{os.getpid()} {child.pid}")
    greet(request)


# --- tools/call ---


def echo(request: dict[str, Any]) -> None:
    text(request, json.dumps({"name": request["params"]["name"], "arguments": request["params"].get("arguments")}))


def give_result(request: dict[str, Any]) -> None:
    answer(request, PLAN["result"])


def answer_noisily(request: dict[str, Any]) -> None:
    say("\n")
    say('{"level":"info"}\n')
    say("loading...")
    say("\n")
    text(request, "hi")


def die(request: dict[str, Any]) -> None:
    leave("transfer")
    say('{"jsonrpc":"2.0","id":')
    sys.exit(3)


def die_once(request: dict[str, Any]) -> None:
    if Path(PLAN["file"]).exists():
        text(request, "alive again")
    else:
        die(request)


def die_for_good(request: dict[str, Any]) -> None:
    Path(PLAN["file"]).touch()
    sys.exit(3)


def report_progress(request: dict[str, Any]) -> None:
    token = request["params"]["_meta"]["progressToken"]
    for step in range(1, 21):
        params = {"progressToken": token, "progress": step, "total": 20, "message": f"step {step}"}
        send(method="notifications/progress", params=params)
    text(request, "done")


def never_answer(request: dict[str, Any]) -> None:
    if request["params"]["name"] == "seen":
        text(request, json.dumps(NOTIFICATIONS))
    else:
        leave("called")


def grow(request: dict[str, Any]) -> None:
    PLAN["tools"].append({"name": "grown", "inputSchema": {"type": "object"}})
    for _ in range(3):
        send(method="notifications/tools/list_changed")
    text(request, "grown")


def fail(request: dict[str, Any]) -> None:
    send(id=request["id"], error={"code": -32602, "message": "Unknown tool: nope"})


def show_environment(request: dict[str, Any]) -> None:
    text(request, json.dumps(dict(os.environ)))


def show_directory(request: dict[str, Any]) -> None:
    text(request, os.getcwd())


def ask_back(request: dict[str, Any]) -> None:
    """Pings the client and answers once it has answered."""
    send(id="ping-1", method="ping")
    reply = json.loads(sys.stdin.readline())
    text(request, json.dumps(reply))


def speak_bad_utf8(request: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": "X"}]}})
    sys.stdout.buffer.write(body.encode().replace(b"X", b"caf\xe9") + b"\n")
    sys.stdout.buffer.flush()


def go_on_and_on(request: dict[str, Any]) -> None:
    while True:
        say("x" * 65536)


def fall_silent(request: dict[str, Any]) -> None:
    """Closes its stdout and lives on."""
    leave(str(os.getpid()))
    os.close(1)
    time.sleep(1000)


# --- tools/list ---


def list_tools(request: dict[str, Any]) -> None:
    if PLAN.get("listing") == "unknown":
        send(id=request["id"], error={"code": -32601, "message": "Method not found"})
        return
    if PLAN.get("initialize") == "greet_noisily":
        say("[INFO] listing tools\n")
    pages = PLAN.get("pages")
    if pages is None:
        answer(request, {"tools": PLAN.get("tools", [])})
        return
    at = int(request.get("params", {}).get("cursor", 0))
    more = {"nextCursor": str(at + 1)} if at + 1 < len(pages) else {}
    if PLAN.get("listing") == "endless":
        more = {"nextCursor": "0"}
    answer(request, {"tools": pages[at], **more})


def main() -> None:
    behaviours = globals()
    methods = {
        "initialize": behaviours[PLAN.get("initialize", "greet")],
        "tools/list": list_tools,
        "tools/call": behaviours[PLAN.get("call", "echo")],
    }
    while True:
        line = sys.stdin.readline()
        if not line:
            if PLAN.get("initialize") == "be_stubborn":
                time.sleep(1000)
            return
        message = json.loads(line)
        if "id" not in message:
            NOTIFICATIONS.append(message)
        elif message["method"] in methods:
            if message["method"] == "initialize" and PLAN.get("call") == "die_for_good" and Path(PLAN["file"]).exists():
                sys.exit(4)
            methods[message["method"]](message)


main()
