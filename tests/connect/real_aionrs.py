"""Stands in for the real aionrs 0.2.10: a program that departs from its protocol where that does.

It reports its own version; names no turn in an error, and one code for all; drops a line that it cannot read, and
in a turn every message, server and history, without a word; tells a start that fails on standard error alone; leaves
when it is stopped, without an end of the turn; forgets "always"; asks about calls one after the other, and not about
reads; tells an edit as text; forgets a history that it is given; takes servers until any other command comes, reads
nothing else meanwhile, and calls a server that failed ready; keeps the mode where a flag frees everything; knows no
``--workspace`` and no ``--fork-session``; says nothing while it tries again; waits for ever for an answer that the
end of its input makes impossible; counts usage over the session; and lets its programs read its input.

What its model says, which MCP servers there are and how long things take is a *play*, a JSON file that ``--profile``
names. A play's turn is a list of rounds, each one reply of the model::

    {"turns": [[{"say": "Hi", "calls": [{"id": "c1", "name": "Write", "args": {}, "output": "done"}]}, {"say": "Ok"}]],
     "servers": {"good": ["tool_a"]}, "ready_after": 0, "chatter": 0}

``ready_after`` may also name a file: it is ready when that is there. What happened to it is in a diary beside the play:
a JSON line for its start, every line that it read, and its end.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

CATEGORIES = {"Read": "info", "Glob": "info", "Grep": "info", "Write": "edit", "Edit": "edit", "tool_a": "mcp"}
ALLOWED = ("Read", "Grep", "Glob")
FREED = {"default": (), "auto_edit": ("info", "edit"), "yolo": ("info", "edit", "exec", "mcp")}
TRANSPORTS = ("stdio", "sse", "streamable-http", "streamable_http")
FLAGS = ("--provider", "--model", "--base-url", "--system-prompt", "--profile", "--session-id", "--resume")
REQUIRED = {
    "message": ("msg_id", "content"), "tool_approve": ("call_id",), "tool_deny": ("call_id",), "set_mode": ("mode",),
    "init_history": ("text",), "add_mcp_server": ("name", "transport"), "stop": (), "ping": (), "set_config": (),
}  # fmt: skip
EOF: dict[str, Any] = {"type": "EOF"}


class Aionrs:
    def __init__(self) -> None:
        parser = argparse.ArgumentParser("aionrs", allow_abbrev=False)  # what it does not know ends it with status 2
        for flag in FLAGS:
            parser.add_argument(flag, default=os.environ.get(flag[2:].replace("-", "_").upper()))
        parser.add_argument("--json-stream", action="store_true")
        parser.add_argument("--auto-approve", action="store_true")
        self.given = parser.parse_args()
        play = Path(self.given.profile)
        self.play = json.loads(play.read_text())
        self.diary = play.with_suffix(".diary")
        self.note(argv=sys.argv[1:], cwd=os.getcwd(), pid=os.getpid(), model=self.given.model, env=sorted(os.environ))
        self.mode = "default"
        self.mode_changed = False
        self.queued: dict[str, Any] | None = None
        self.inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self.eating = 0
        self.history: list[dict[str, Any]] = []
        self.total = [0, 0]

    # --- what it tells ---

    def note(self, **what: Any) -> None:
        with self.diary.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def emit(self, kind: str, **keys: Any) -> None:
        line = json.dumps({"type": kind, **keys}, ensure_ascii=False, separators=(",", ":"))
        os.write(1, line.encode() + b"\n")

    def info(self, text: str) -> None:
        self.emit("info", msg_id="", message=text)

    def error(self, text: str) -> None:
        self.emit("error", error={"code": "engine_error", "message": text, "retryable": False})

    def capabilities(self) -> dict[str, Any]:
        return {
            "tool_approval": True, "image_input": "unknown", "thinking": True, "effort": False, "effort_levels": [],
            "modes": list(FREED), "current_mode": self.mode, "mcp": bool(self.play.get("servers")),
        }  # fmt: skip

    def leave(self, status: int) -> NoReturn:
        self.note(exit=status)
        os._exit(status)

    def chatter(self) -> None:
        """Log lines; whoever does not read them stops the program."""
        left = self.play.get("chatter", 0)
        while left > 0:
            left -= os.write(2, b"DEBUG " + b"x" * 1000 + b"\n")

    # --- its session ---

    def file(self) -> Path:
        return Path(".aionrs/sessions/sessions", self.session, "state.json")

    def save(self) -> None:
        self.file().parent.mkdir(parents=True, exist_ok=True)
        self.file().write_text(json.dumps({"id": self.session, "total_usage": self.total, "messages": self.history}))

    def dangling(self) -> bool:
        """A call without a result: services refuse such a conversation."""
        called = {call for message in self.history for call in message.get("calls", ())}
        return bool(called - {result for message in self.history for result in message.get("results", ())})

    def boot(self) -> None:
        given = self.given
        if given.resume and given.session_id:
            self.fatal("Cannot use --resume and --session-id together")
        self.session = given.resume or given.session_id or str(uuid.uuid4())
        if given.resume:
            if not self.file().exists():
                self.fatal(f"Session '{given.resume}' not found")
            state = json.loads(self.file().read_text())
            self.history, self.total = state["messages"], state["total_usage"]
        after = self.play.get("ready_after", 0)  # MCP servers of its configuration are connected first
        while isinstance(after, str) and not Path(after).exists():
            time.sleep(0.005)
        time.sleep(after if isinstance(after, int | float) else 0)
        if not given.resume:
            if self.file().exists():
                self.fatal(f"Session ID '{self.session}' already exists")
            self.save()
        self.chatter()
        self.emit("ready", version="0.2.10", session_id=self.session, capabilities=self.capabilities())

    def fatal(self, text: str) -> NoReturn:
        print(f"Error: {text}", file=sys.stderr)
        self.leave(1)

    # --- what it reads ---

    def read(self) -> None:
        for line in sys.stdin.buffer:
            if self.eating:  # the program that it runs has the same standard input
                self.eating -= 1
                self.note(eaten=line.decode())
                continue
            self.note(read=line.decode())
            try:
                command = json.loads(line)
                keys = REQUIRED[command["type"]]
                fits = all(isinstance(command[key], str) for key in keys) and command.get("mode", "yolo") in FREED
            except (ValueError, KeyError, TypeError):
                continue  # a bad line is no word to anybody
            if fits and None not in (command.get("files", 0), command.get("scope", 0), command.get("reason", 0)):
                self.inbox.put(command)
        self.inbox.put(EOF)

    def run(self) -> None:
        self.boot()
        threading.Thread(target=self.read, daemon=True).start()
        opening = True
        while True:
            command = self.inbox.get()
            kind = command["type"]
            if kind in ("stop", "EOF"):
                self.leave(0)
            opening = opening and kind == "add_mcp_server"
            if kind == "message":
                self.turn(command)
            elif kind == "add_mcp_server":
                self.add_server(command, opening)
            elif kind == "ping":
                self.emit("pong")
            elif kind == "set_mode":
                self.set_mode(command["mode"])
                self.emit("config_changed", capabilities=self.capabilities())
            elif kind == "set_config":
                self.info(
                    f"config updated: {self.changes(command)}" if command.get("model") else "set_config: no changes"
                )
                self.emit("config_changed", capabilities=self.capabilities())

    def add_server(self, command: dict[str, Any], opening: bool) -> None:
        name = command["name"]
        if not opening:
            self.error(f"AddMcpServer '{name}': rejected — only allowed before first Message")
        elif command["transport"] not in TRANSPORTS:
            self.error(f"AddMcpServer '{name}': unknown transport: {command['transport']}")
        else:
            time.sleep(self.play.get("connect_after", 0))
            self.emit("mcp_ready", name=name, tools=self.play.get("servers", {}).get(name, []))

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        self.info(f"mode updated: {mode}")

    def changes(self, command: dict[str, Any]) -> str:
        return f"model: {self.given.model} → {command['model']}"

    # --- a turn ---

    def turn(self, message: dict[str, Any]) -> None:
        self.id, text = message["msg_id"], message["content"].strip()
        if text == "/help":
            self.info("Available commands:\n  /help — Show this help")
        elif text == "/quit":
            self.error("User aborted the session")
        else:
            self.emit("stream_start", msg_id=self.id)
            self.model_turn(text)
            return
        self.emit("stream_end", msg_id=self.id, usage={"input_tokens": 0, "output_tokens": 0})

    def model_turn(self, text: str) -> None:
        number = sum("user" in message for message in self.history)
        self.history.append({"user": text})
        self.save()
        self.chatter()
        rounds = self.play["turns"][number % len(self.play["turns"])]
        usage = None
        for reply in rounds:
            if self.dangling():
                reply = {"fail": "Provider error: API error 400: tool_use ids were found without tool_result blocks"}
            if "fail" in reply:
                self.error(reply["fail"])
                usage = {"input_tokens": 0, "output_tokens": 0}
                break
            self.round(reply)
        sent, received = self.total  # of the session, not of the turn
        self.emit("stream_end", msg_id=self.id, usage=usage or {"input_tokens": sent, "output_tokens": received})
        if self.queued is not None:
            self.info(f"config applied: {self.changes(self.queued)}")
        if self.queued is not None or self.mode_changed:
            self.emit("config_changed", capabilities=self.capabilities())
        self.queued, self.mode_changed = None, False

    def round(self, reply: dict[str, Any]) -> None:
        if "think" in reply:
            self.emit("thinking", text=reply["think"], msg_id=self.id)
        if "say" in reply:
            self.emit("text_delta", text=reply["say"], msg_id=self.id)
        if "info" in reply:
            self.info(reply["info"])
        self.heed(reply.get("seconds", 0))
        self.total = [have + used for have, used in zip(self.total, reply.get("usage", (10, 5)), strict=True)]
        calls = reply.get("calls", [])
        at = f"{len(self.history)}:"  # its own ids are unique; those of the model need not be
        self.history.append({"text": reply.get("say", ""), "calls": [at + call["id"] for call in calls]})
        self.save()
        for call in calls:
            self.info(f"Tool call: {call['name']}")
            self.call(call)
        if calls:
            self.history.append({"results": [at + call["id"] for call in calls]})
            self.save()

    def call(self, call: dict[str, Any]) -> None:
        name, category = call["name"], CATEGORIES.get(call["name"], "exec")
        place = {"msg_id": self.id, "call_id": call["id"]}
        if not (self.given.auto_approve or name in ALLOWED or category in FREED[self.mode]):
            tool = {"name": name, "category": category, "args": call.get("args", {}), "description": f"{name} it"}
            self.emit("tool_request", **place, tool=tool)
            reason = self.decision(call["id"])
            if reason is not None:
                self.emit("tool_cancelled", **place, reason=reason)
                return
        self.eating = call.get("eats", 0)  # from here on, for what answers the next line is no longer ours
        self.emit("tool_running", **place, tool_name=name)
        self.heed(call.get("seconds", 0))
        while self.eating:
            time.sleep(0.005)
        output, status = call.get("output", "done"), call.get("status", "success")
        self.emit("tool_result", **place, tool_name=name, status=status, output=output, output_type="text")
        self.info(f"[{name} {status}] {output}")

    def decision(self, call_id: str) -> str | None:
        """Why the call is denied; None: it is approved, for this once whatever the scope says."""
        while True:
            command = self.inbox.get()
            if command is EOF:
                self.note(hangs=call_id)
                time.sleep(3600)
            if command.get("call_id") == call_id:
                return None if command["type"] == "tool_approve" else command.get("reason", "")
            self.heed_one(command)

    def heed(self, seconds: float) -> None:
        """What is heard while something takes its time. What else is written then is lost or waits."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 or not self.inbox.empty():
            try:
                command = self.inbox.get(timeout=max(left, 0.001))
            except queue.Empty:
                return
            if command is EOF:
                self.inbox.put(EOF)  # the turn goes on to its end
                time.sleep(max(left, 0))
                return
            self.heed_one(command)

    def heed_one(self, command: dict[str, Any]) -> None:
        kind = command["type"]
        if kind == "stop":
            if self.queued is not None:
                self.info(f"config applied: {self.changes(self.queued)}")
                self.emit("config_changed", capabilities=self.capabilities())
            self.leave(0)
        elif kind == "ping":
            self.emit("pong")
        elif kind == "set_mode":
            self.set_mode(command["mode"])
            self.mode_changed = True
        elif kind == "set_config":
            self.queued = command
            self.info("set_config: queued, will apply after current response")
        else:
            self.note(lost=command)


if __name__ == "__main__":
    Aionrs().run()
