"""Stands in for a real Jan behind its RPC: strict about what it is sent, in the order a client must keep.

What its model says is a *play*, the file ``play.json`` in its directory. A turn is a list of rounds, each one reply::

    {"turns": [[{"say": "Hi", "calls": [{"id": "c1", "name": "host__arm", "args": {"to": "bin"}}]}, {"say": "Ok"}]],
     "initialize_after": 0, "version": 1, "old": false, "max_line_bytes": 16777216}

What happened to it is in a diary beside the play: a JSON line for its start, every line that it read, and its end.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

MISSING = object()
PARAMS = {
    "session/start": {"cwd", "model", "ephemeral", "tools", "builtins", "subagents", "systemPrompt", "permissions"},
    "session/tools/get": {"sessionId"}, "session/tools/set": {"sessionId", "tools"}, "session/reset": {"sessionId"},
    "session/model/set": {"sessionId", "model"}, "session/resume": {"sessionId"}, "session/fork": {"sessionId"},
    "session/archive": {"sessionId"}, "turn/start": {"sessionId", "input"}, "turn/steer": {"sessionId", "input"},
    "turn/interrupt": {"sessionId"}, "permission/respond": {"requestId", "decision"},
    "tool/respond": {"requestId", "content", "isError", "details"},
}  # fmt: skip
NEW = ("subagents", "systemPrompt")
BUSY = ("session/tools/set", "session/model/set", "session/reset")


class Failed(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.error = {"code": code, "message": message, "data": data}


class Jan:
    def __init__(self) -> None:
        self.play = json.loads(Path("play.json").read_text())
        self.diary = Path("play.diary")
        self.note(argv=sys.argv[1:], cwd=os.getcwd(), pid=os.getpid(), env=dict(os.environ))
        self.inbox: queue.Queue[bytes | None] = queue.Queue()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.greeted = self.ready = False
        self.turn: dict[str, Any] | None = None
        self.running: Iterator[Any] | None = None
        self.paused = False
        self.pending: dict[str, Any] = {}
        self.count = 0

    def note(self, **what: Any) -> None:
        with self.diary.open("a") as file:
            file.write(json.dumps(what) + "\n")

    def write(self, frame: dict[str, Any]) -> None:
        os.write(1, json.dumps({"jsonrpc": "2.0", **frame}, ensure_ascii=False).encode() + b"\n")

    def event(self, kind: str, **fields: Any) -> None:
        turn = self.turn or {}
        place = {"sessionId": turn["session"], "turnId": turn["id"]}
        self.write({"method": f"item/{kind}", "params": {**place, "event": {"type": kind, **fields}}})

    def leave(self, status: int) -> NoReturn:
        self.note(exit=status)
        os._exit(status)

    # --- requests ---

    def run(self) -> None:
        os.write(2, b"INFO " + b"x" * self.play.get("chatter", 0))

        def read() -> None:
            for line in sys.stdin.buffer:
                self.note(read=line.decode())
                self.inbox.put(line)
            self.inbox.put(None)

        threading.Thread(target=read, daemon=True).start()
        while (line := self.inbox.get()) is not None:
            if not line.endswith(b"\n"):  # the name of a turn whose pause is over
                if self.turn is not None and self.turn["id"] == line.decode():
                    self.paused = False
                    self.advance()
            else:
                self.request(line)
        if self.turn is not None:
            self.withdraw("client_gone")
            self.complete("interrupted")
        self.note(eof=True)
        if self.play.get("deaf"):
            time.sleep(600)
        self.leave(0)

    def request(self, line: bytes) -> None:
        cap = self.play.get("max_line_bytes", 16 * 1024 * 1024)
        number: Any = None
        try:
            if len(line) > cap:
                raise Failed(-32600, "Input line exceeds max_line_bytes")
            try:
                frame = json.loads(line)
            except ValueError:
                raise Failed(-32700, "Parse error") from None
            if not isinstance(frame, dict) or frame.get("jsonrpc") != "2.0" or not frame.get("method"):
                raise Failed(-32600, "Invalid Request")
            method, params, number = frame["method"], frame.get("params"), frame.get("id")
            if method == "initialize":
                result = self.initialize(params)
            elif method == "initialized" and "id" not in frame and self.greeted:
                self.ready = True
                return
            elif not self.ready:
                raise Failed(-32002, "Server not initialized")
            else:
                result = self.method(method, params)
        except Failed as failed:
            self.write({"id": number, "error": failed.error})
            return
        if "id" in frame:
            self.write({"id": number, "result": result})
        self.advance()

    def initialize(self, params: Any) -> dict[str, Any]:
        self.greeted = self.ready = False
        time.sleep(self.play.get("initialize_after", 0))
        if self.play.get("refuses") or set(params) - {"protocolVersion", "clientInfo", "capabilities"}:
            raise Failed(-32602, "Unsupported protocol version or malformed clientInfo")
        self.greeted = True
        told = {"protocolVersion": self.play.get("version", 1), "serverInfo": {"name": "jan", "version": "0.8.4"}}
        if self.play.get("old"):
            return told
        limits = {"max_line_bytes": self.play.get("max_line_bytes", 16 * 1024 * 1024), "max_images": 8}
        return {**told, "capabilities": {"session": True, "turn": True}, "input_content_parts": limits}

    def method(self, method: str, params: Any) -> dict[str, Any]:
        if method == "session/list":
            return {"sessions": [
                {"id": name, "model": one["model"], "turns": one["turns"], "hostTools": len(one["tools"])}
                for name, one in self.sessions.items()
            ]}  # fmt: skip
        if method not in PARAMS:
            raise Failed(-32601, "Method not found")
        if method == "turn/start" and self.turn is not None:
            raise Failed(-32001, "another turn is active; retry after turn/completed", {"retryable": True})
        old = self.play.get("old") and set(params) & set(NEW)
        if not isinstance(params, dict) or set(params) - PARAMS[method] or None in params.values() or old:
            raise Failed(-32602, f"{method} requires supported options")
        session = params.get("sessionId", MISSING)
        if session is not MISSING and session not in self.sessions:
            raise Failed(-32602, "unknown sessionId")
        active = self.turn is not None and self.turn["session"] == session
        if active and method in BUSY:
            data = {"retryable": True, "kind": "turn_active"}
            raise Failed(-32001, "this session has an active turn; retry after turn/completed", data)
        if active and method in ("session/fork", "session/archive"):
            raise Failed(-32001, "session busy", {"retryable": True})
        handle = getattr(self, method.replace("/", "_"))
        return handle(self.sessions.get(session), params)

    def view(self, session: dict[str, Any]) -> dict[str, Any]:
        names = [f"host__{tool['name']}" for tool in session["tools"]]
        specs = [
            {"type": "function", "function": {
                "name": f"host__{tool['name']}", "description": tool.get("description", ""),
                "parameters": tool.get("parameters", {"type": "object", "properties": {}}),
            }}
            for tool in session["tools"]
        ]  # fmt: skip
        return {"tools": ["shell", *names] if session["builtins"] else names, "toolSpecs": specs}

    def session_start(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        if not os.path.isdir(params["cwd"]):
            raise Failed(-32602, "cwd is not a directory")
        session = {
            "model": params.get("model", "default-model"), "tools": self.declared(params.get("tools", [])), "turns": 0,
            "owner": params.get("permissions", "jan"), "builtins": params.get("builtins", True), "always": set(),
        }  # fmt: skip
        name = str(uuid.uuid4())
        self.sessions[name] = session
        if self.play.get("old"):
            return {"sessionId": name}
        return {**self.view(session), "sessionId": name, "model": session["model"]}

    def declared(self, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for index, tool in enumerate(tools):
            if tool["name"] in ("shell", "read", "write"):
                problem = f"host tool name '{tool['name']}' is reserved by a built-in tool"
                raise Failed(-32602, problem, {"kind": "invalid_tools"})
            if set(tool) - {"name", "description", "parameters", "capability"}:
                raise Failed(-32602, f"tools[{index}]: unknown field", {"kind": "invalid_tools"})
        return tools

    def session_tools_get(self, session: Any, _: Any) -> dict[str, Any]:
        return self.view(session)

    def session_tools_set(self, session: Any, params: dict[str, Any]) -> dict[str, Any]:
        session["tools"] = self.declared(params["tools"])
        return self.view(session)

    def session_model_set(self, session: Any, params: dict[str, Any]) -> dict[str, Any]:
        session["model"] = params["model"]
        return {"model": params["model"]}

    def session_reset(self, session: Any, _: Any) -> dict[str, Any]:
        return self.view(session)

    def session_resume(self, session: Any, params: dict[str, Any]) -> dict[str, Any]:
        return {"sessionId": params["sessionId"], "model": session["model"], "turns": session["turns"]}

    def session_fork(self, session: Any, _: Any) -> dict[str, Any]:
        name = str(uuid.uuid4())
        self.sessions[name] = {**session, "turns": 0}
        return {"sessionId": name}

    def session_archive(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        del self.sessions[params["sessionId"]]
        return {}

    # --- turns ---

    def turn_start(self, session: Any, params: dict[str, Any]) -> dict[str, Any]:
        given = params["input"]
        if not isinstance(given, str | list):
            raise Failed(-32602, "input must be text or content parts")
        if not (given.strip() if isinstance(given, str) else given):
            raise Failed(-32602, "'user' text is empty")
        session["turns"] += 1
        self.turn = {"id": str(uuid.uuid4()), "session": params["sessionId"], "steered": []}
        turns = self.play["turns"]
        self.running = self.play_turn(session, turns[(session["turns"] - 1) % len(turns)])
        return {"turnId": self.turn["id"]}

    def turn_steer(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        if self.turn is None or self.turn["session"] != params["sessionId"] or not params["input"].strip():
            raise Failed(-32602, "turn/steer requires an active session and nonempty input")
        self.turn["steered"].append(params["input"])
        return {}

    def turn_interrupt(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        if self.turn is None or self.turn["session"] != params["sessionId"]:
            raise Failed(-32602, "no active turn for sessionId")
        self.withdraw("interrupted")
        self.complete("interrupted")
        return {}

    def withdraw(self, reason: str) -> None:
        for request in [name for name in self.pending if name.startswith("host-")]:
            self.event("tool_request_cancelled", request_id=request, reason=reason)

    def complete(self, reason: str, error: str | None = None) -> None:
        turn = self.turn or {}
        place = {"sessionId": turn["session"], "turnId": turn["id"]}
        self.turn, self.running, self.paused = None, None, False
        self.pending.clear()
        told = {} if self.play.get("old") else {"stopReason": reason}
        self.write({"method": "turn/completed", "params": {**place, **told, "error": error}})

    def advance(self) -> None:
        """Go on with the turn until it has to wait for an answer or for a while."""
        while self.running is not None and not self.paused:
            waits = next(self.running, None)
            if waits is None:
                return
            if isinstance(waits, int | float):
                self.paused = True
                threading.Timer(waits, self.inbox.put, [(self.turn or {})["id"].encode()]).start()
                return
            if any(self.pending.get(request, 0) is MISSING for request in waits):
                return

    def play_turn(self, session: dict[str, Any], rounds: list[dict[str, Any]]) -> Iterator[Any]:
        for index, reply in enumerate(rounds):
            self.event("step", index=index + 1, max=0)
            self.event("request_provenance", model=session["model"], request_sha256="0" * 64, body_bytes=9)
            if "seconds" in reply:
                yield reply["seconds"]
            if "fail" in reply:
                self.event("error", code="error", message=reply["fail"])
                self.complete("error", reply["fail"])
                return
            for unknown in reply.get("unknown", ()):
                self.event(unknown, anything=[1])
            if "raw" in reply:
                os.write(1, reply["raw"].encode())
            self.event("token", text=reply.get("say", "") + "".join((self.turn or {}).get("steered", [])))
            used = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            self.event("turn_usage", usage={**used, "cached_tokens": None, "cache_write_tokens": None})
            yield from self.calls(session, reply.get("calls", []))
        self.event("messages_updated", messages=[])
        self.event("done", stop_reason="stop", usage=None)
        self.complete("completed")

    def calls(self, session: dict[str, Any], calls: list[dict[str, Any]]) -> Iterator[Any]:
        """Others in order, each asked about when it is reached; then the reads together; then all results."""
        for call in calls:
            self.event("tool_call", id=call["id"], name=call["name"], args=call.get("args", {}))
        declared = {f"host__{tool['name']}": tool for tool in session["tools"]}
        results: dict[str, tuple[str, bool, Any]] = {}
        reads: dict[str, str] = {}
        for call in calls:
            tool = declared.get(call["name"])
            if tool is not None and tool.get("capability") == "read":
                reads[call["id"]] = self.ask_host(tool, call)
                continue
            if session["owner"] == "jan" or tool is None:
                allowed = yield from self.permitted(session, call, tool)
                if not allowed:
                    results[call["id"]] = (f"ERROR: tool '{call['name']}' denied by user", True, None)
                    continue
            if tool is None:
                results[call["id"]] = (call.get("output", "done"), False, None)
            else:
                request = self.ask_host(tool, call)
                while self.pending[request] is MISSING:
                    yield [request]
                results[call["id"]] = self.pending.pop(request)
        while any(self.pending[request] is MISSING for request in reads.values()):
            yield list(reads.values())
        results |= {call_id: self.pending.pop(request) for call_id, request in reads.items()}
        for call in calls:
            content, is_error, details = results[call["id"]]
            self.event("tool_result", id=call["id"], content=content, is_error=is_error)
            if details is not None:
                self.event("tool_details", id=call["id"], details=details)

    def permitted(self, session: dict[str, Any], call: dict[str, Any], tool: Any) -> Iterator[Any]:
        if call["name"] in session["always"]:
            return True
        self.count += 1
        request = f"perm-{self.count}"
        self.pending[request] = MISSING
        kind = {"capability": "run", "prompt_kind": "mcp"} if tool else {"capability": "exec", "prompt_kind": "exec"}
        self.event(
            "permission_request", request_id=request, tool_name=call["name"], path=None, offers_always=True, **kind
        )
        while self.pending[request] is MISSING:
            yield [request]
        decision = self.pending.pop(request)
        if decision == "allow_always":
            session["always"].add(call["name"])
        return decision != "deny"

    def ask_host(self, tool: dict[str, Any], call: dict[str, Any]) -> str:
        self.count += 1
        request = f"host-{self.count}"
        self.pending[request] = MISSING
        self.event(
            "tool_request", request_id=request, tool_name=call.get("asks_for", tool["name"]), args=call.get("args", {})
        )
        return request

    def settle(self, kind: str, request: str, answer: Any) -> dict[str, Any]:
        if not request.startswith(kind) or self.pending.get(request) is not MISSING:
            what = "permission" if kind == "perm" else "host tool"
            raise Failed(-32602, f"no {what} request '{request}' is pending", {"kind": "not_pending"})
        self.pending[request] = answer
        return {}

    def permission_respond(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        if params["decision"] not in ("allow_once", "allow_always", "deny"):
            raise Failed(-32602, "invalid permission decision")
        return self.settle("perm", params["requestId"], params["decision"])

    def tool_respond(self, _: Any, params: dict[str, Any]) -> dict[str, Any]:
        content, details = params["content"], params.get("details", {})
        if not isinstance(content, str | list) or not isinstance(details, dict):
            raise Failed(-32602, "tool/respond requires requestId and content (a string or content parts)")
        text = content if isinstance(content, str) else "\n".join(self.part(part) for part in content)
        is_error = params.get("isError", False)
        answer = (f"ERROR: {text}" if is_error else text, is_error, params.get("details"))
        return self.settle("host", params["requestId"], answer)

    @staticmethod
    def part(part: dict[str, Any]) -> str:
        if part["type"] == "text":
            return str(part["text"])
        if not part["image_url"]["url"].startswith("data:image/png;base64,"):
            raise Failed(-32602, "unsupported image type (image/png)")
        base64.b64decode(part["image_url"]["url"].partition(",")[2])
        return "(image)"


if __name__ == "__main__":
    Jan().run()
