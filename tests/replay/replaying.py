"""Recordings of every wire, made by real agents and hosts, and the ways to play them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio

from agentwire import connect, load_codec
from agentwire.recording import Recorder, RecordingError, open_recording
from agentwire.replay.verifying import verify as verify_recording

RECORDINGS = Path(__file__).parent.parent / "pagent" / "recordings"

EVERY = ["aionrs", "pagent", "pagent-v4", "jan", "levpro"]
ASKING = ["aionrs", "pagent-v4", "jan"]

PLAY = [
    {"text": "Let me look. ", "tool_calls": [{"id": "c1", "name": "ExecCommand", "arguments": {"cmd": "echo made"}}]},
    {"text": "It is done.", "usage": {"input_tokens": 9, "output_tokens": 3}},
    {"reasoning": "Once more.", "text": "And \u2014 \u2028 again."},
]
ANSWERS = ["It is done.", "And \u2014 \u2028 again."]


def serve(folder: Path, codec: str, play: Sequence[Mapping[str, Any]] = PLAY, *options: str) -> list[str]:
    """The command of an agent with a script for a model."""
    name = load_codec(codec).policy.tool_names.get("ExecCommand", "ExecCommand")
    text = "".join(json.dumps(reply) + "\n" for reply in play).replace("ExecCommand", name)
    (folder / "play.jsonl").write_text(text)
    return [
        sys.executable, "-m", "agentwire", "serve", "--codec", codec, "--provider", "script", "--ephemeral",
        "--provider-option", f"script={folder / 'play.jsonl'}", "--workspace", str(folder), *options,
    ]  # fmt: skip


async def talk(argv: Sequence[str], codec: str, record: Path, *, allow: bool = True) -> list[str]:
    """Ask twice, answer questions, and record it; the answers. The agent has to end well."""
    with trio.fail_after(60):
        async with connect(
            argv, codec=codec, record=record, on_approval=lambda question: allow, cwd=record.parent
        ) as peer:
            answers = [await peer.ask("hi"), await peer.ask("more")]
        assert peer.process.process.returncode == 0, peer.stderr
    return answers


def replay(*arguments: str | Path, given: bytes = b"", env: Mapping[str, str] | None = None) -> Any:
    """Run ``agentwire replay``."""
    command = [sys.executable, "-m", "agentwire", "replay", *map(str, arguments)]
    environ = {**os.environ, **(env or {})}
    return subprocess.run(command, input=given, capture_output=True, timeout=100, check=False, env=environ)


def said(path: Path, who: str) -> bytes:
    """Everything that one side wrote."""
    return b"".join(entry.data for entry in open_recording(path) if entry.who == who)


def recorded(path: Path, codec: str, lines: Sequence[tuple[str, bytes]]) -> Path:
    """A recording of these lines."""
    with Recorder(path, codec) as recorder:
        for who, line in lines:
            getattr(recorder, who)(line)
    return path


def asides(path: Path, who: str) -> list[dict[str, Any]]:
    """What a recording holds beside the wire."""
    return [entry.about for entry in open_recording(path) if entry.who == who]


def kept(about: Mapping[str, Any]) -> dict[str, Any]:
    """The one HTTP reply of a model's entry."""
    (reply,) = about["http"]
    return reply


async def verified(path: Path, what: str = "same", agent: str = "") -> str:
    """Have a recording done again in a thread; it has to come out as ``same``, ``different`` or ``cannot``.

    The difference, or why it cannot be done.
    """

    def verify() -> tuple[str, str]:
        try:
            found = verify_recording(open_recording(path), agent)
        except RecordingError as error:
            return "cannot", str(error)
        return ("same", "") if found is None else ("different", str(found))

    came_out, text = await trio.to_thread.run_sync(verify)
    assert came_out == what, text
    return text
