"""Bedrock and Vertex AI behind a real server process, as a host sees them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from bedrock_service import MEDIA, frame_chunk
from chunk_server import Answer, ChunkServer, chunk_server
from conversing import CASES, chunks_of
from test_bedrock import EXCEPTION

BEDROCK = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1"}
VERTEX = {"VERTEX_PROJECT_ID": "p", "VERTEX_ACCESS_TOKEN": "ya29.x"}
SAID = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Par"}},
]
END = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


async def serve(provider: str, server: ChunkServer, folder: Path, environ: dict[str, str]) -> list[dict[str, Any]]:
    """What a host hears of one message."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    kept |= {"HOME": str(folder), "AGENTWIRE_CONFIG_DIR": str(folder), "AWS_EC2_METADATA_DISABLED": "true"}
    command = [sys.executable, "-m", "agentwire", "serve", "--codec", "aionrs", "--ephemeral", "--provider", provider]
    message = json.dumps({"type": "message", "msg_id": "m", "content": "hi"}) + "\n"
    with trio.fail_after(60):
        done = await trio.run_process(
            [*command, "--base-url", server.url],
            stdin=message.encode(),
            capture_stdout=True,
            capture_stderr=True,
            cwd=folder,
            env=kept | environ,
        )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
async def test_a_turn(provider: str, tmp_path: Path) -> None:
    frames = [*map(frame_chunk, SAID + END)]
    answer = Answer(frames, headers=MEDIA) if provider == "bedrock" else Answer(chunks_of(CASES["S-a19"]["input"]))
    async with chunk_server(answer) as server:
        heard = await serve(provider, server, tmp_path, BEDROCK if provider == "bedrock" else VERTEX)
        (seen,) = server.requests
    assert [event["type"] for event in heard][:2] == ["ready", "stream_start"]
    assert heard[0]["capabilities"]["thinking"] is True
    assert heard[-1]["type"] == "stream_end"
    assert "".join(event["text"] for event in heard if event["type"] == "text_delta")
    assert [tool["name"] for tool in seen.body["tools"]]


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
async def test_no_key_is_needed_to_be_ready(provider: str, tmp_path: Path) -> None:
    async with chunk_server() as server:
        heard = await serve(provider, server, tmp_path, {"NO_GCE_CHECK": "true"})
    assert heard[0]["type"] == "ready"
    (error,) = [event["error"] for event in heard if event["type"] == "error"]
    assert (error["code"], error["retryable"]) == ("config_error", False)
    assert "credentials" in error["message"]


async def test_s_a22_is_an_error_at_the_host(tmp_path: Path) -> None:
    broken = [frame_chunk(SAID[0]), frame_chunk(SAID[1])[:20], frame_chunk(SAID[1])[20:] + EXCEPTION]
    async with chunk_server(Answer(broken, headers=MEDIA)) as server:
        heard = await serve("bedrock", server, tmp_path, BEDROCK)
    expected = CASES["S-a22"]["expect"]["result"]
    assert "".join(event["text"] for event in heard if event["type"] == "text_delta") == expected["text"]
    (error,) = [event["error"] for event in heard if event["type"] == "error"]
    assert (error["code"], error["retryable"]) == (expected["error"]["kind"], expected["error"]["retryable"])
    assert all(part in error["message"] for part in expected["error"]["message_contains"])
