"""A headless Chromium, driven through its debugging pipe: no library, no port, no network."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

_START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(name), fcntl.F_DUPFD, 10) for name in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser reads its orders from descriptor 3 and answers on 4."""

_FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--window-size=1300,1000",
)  # fmt: skip


def find() -> str | None:
    """Where a Chromium is, if one is installed."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    cache = Path.home() / ".cache" / "ms-playwright"
    return next(
        (str(path) for path in sorted(cache.glob("chromium*/*/*")) if path.name in ("chrome", "chromium")), None
    )


class Page:
    """A page of the browser. ``problems`` is what it complained of; ``requests`` what it asked the network for."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._id = 0
        self._session = ""
        self.problems: list[str] = []
        self.requests: list[str] = []

    def open(self, address: str) -> None:
        target = self.order("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.order("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.order(f"{domain}.enable")
        self.order("Page.navigate", url=address)

    def order(self, method: str, **params: Any) -> Any:
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def evaluate(self, code: str) -> Any:
        found = self.order("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until an expression is true."""
        look = f"const look = () => ({condition}) ? done(true) : setTimeout(look, 20);"
        self.evaluate(f"new Promise((done) => {{ {look} look(); }})")

    def press(self, key: str, text: str = "") -> None:
        self.order("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.order("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.order("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method", ""), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._read, 1 << 16)
            assert more, "the browser is gone"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Page]:
    """Start it, and end it afterwards with everything that it started."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    argv = [sys.executable, "-c", _START, str(to_read), str(from_write), program, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        argv, pass_fds=(to_read, from_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_read)
    os.close(from_write)
    page = Page(to_write, from_read)
    try:
        yield page
    finally:
        os.close(to_write)  # it ends when nobody can give it orders any more
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_read)
