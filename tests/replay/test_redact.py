"""Secrets out of recordings: nothing of them is left, and everything else is as long as it was and reads as before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replaying import RECORDINGS, recorded, said, serve, talk

from agentwire import load_codec
from agentwire.codec import Heard
from agentwire.recording import open_recording
from agentwire.replay.redaction import Redaction
from agentwire.replay.redaction import redact as redacted
from agentwire.transcode import wire_of


def redact(path: Path, *options: str, env: dict[str, str] | None = None) -> tuple[Path, subprocess.CompletedProcess]:
    out = path.with_suffix(".out")
    command = [sys.executable, "-m", "agentwire", "redact", str(path), "-o", str(out), *options]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, env={**os.environ, **(env or {})})
    return out, done


SECRETS = [
    "sk-proj-abcdefghijklmnop0123", "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "AKIAABCDEFGHIJKLMNOP",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "xoxb-1234567890-abcdefghij", "hunter2hunter2",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "template",
    [
        '{"api_key":"%s"}', '{"headers":{"Authorization":"Bearer %s","Accept":"x"}}', '{"x":"password=%s&y=1"}',
        '{"arguments":"{\\"api_key\\": \\"%s\\", \\"n\\": 1}"}', "curl -H 'Authorization: Bearer %s' http://x/",
        "export OPENAI_API_KEY=%s\n", '["--api-key","%s","token: a","--prompt"]', "https://user:%s@host/",
        "agent --auth-token %s --x",
    ],
)  # fmt: skip
def test_a_secret_is_gone_and_the_rest_stays(secret, template):
    text = template % secret
    found = Redaction().text(text)
    assert secret not in found
    assert len(found) == len(text)
    assert len(found.encode()) == len(text.encode())
    assert [(old, new) for old, new in zip(text, found, strict=True) if old != new and new != "x"] == []
    changed = sum(old != new for old, new in zip(text, found, strict=True))
    assert changed <= len(secret) + len("Bearer ")


@pytest.mark.parametrize(
    "text",
    [
        "the secret ingredient is a token of love", '{"usage":{"input_tokens":12,"max_tokens":400},"type":"token"}',
        '{"key":"value","monkey":"banana-banana"}', "sk-", "Basic instinct", '["--key-frame","abcdefgh"]',
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text):
    redaction = Redaction()
    assert (redaction.text(text), redaction.taken) == (text, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.just("gone"), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["gone", "id", "type", "text", "api_key", "x"]), JSON, min_size=1), st.booleans()
)
def test_what_is_left_has_the_same_shape(value, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_)
    found = Redaction(["gone"]).text(text)
    assert len(found) == len(text)
    assert len(found.encode(errors="surrogatepass")) == len(text.encode(errors="surrogatepass"))
    assert shape(json.loads(found)) == shape(value)


def shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, str):
        return len(value)
    return len(str(value))


def test_a_field_is_emptied_and_ids_stay():
    start = '{"type":"x","args":{"call_id":"c1","path":"a\\u00e9 b\\n","n":[1,-2.5],'
    text = start + '"deep":{"type":"t","q":"\U0001f600\xe9"}}}'
    found = Redaction(["args"]).text(text)
    assert found.startswith('{"type":"x","args":{"call_id":"c1","path":"x\\u0078 x\\n","n":[1,-1.1],')
    assert found.endswith(',"deep":{"type":"t","q":"\U0001d5d1\u02e3"}}}')


def test_values_of_the_environment(tmp_path):
    path = recorded(
        tmp_path / "r", "aionrs", [("agent", b'{"type":"info","msg_id":"","message":"it is PLAIN-word!"}\n')]
    )
    out, done = redact(path, "--env", "MY_WORD", env={"MY_WORD": "PLAIN-word"})
    assert done.returncode == 0, done.stderr
    assert b"PLAIN" not in out.read_bytes()
    assert said(out, "agent") == b'{"type":"info","msg_id":"","message":"it is xxxxxxxxxx!"}\n'
    assert b"1 string" in done.stderr
    _, missing = redact(path, "--env", "NOT_SET_AT_ALL")
    assert missing.returncode == 2
    assert b"NOT_SET_AT_ALL is not set" in missing.stderr


def test_a_file_is_not_written_over_itself(tmp_path):
    path = recorded(tmp_path / "r", "aionrs", [("agent", b"{}\n")])
    command = [sys.executable, "-m", "agentwire", "redact", str(path), "-o", str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert said(path, "agent") == b"{}\n"


def test_bytes_that_are_no_text_are_looked_through(tmp_path):
    line = b"\xff api_key=abcdefgh123 \xfe\n"
    path = recorded(tmp_path / "r", "aionrs", [("log", line)])
    out, done = redact(path)
    assert done.returncode == 0
    assert said(out, "log") == b"\xff api_key=xxxxxxxxxxx \xfe\n"


def heard(path: Path) -> list[type]:
    recording = open_recording(path)
    host = load_codec(wire_of(recording)).host()
    found = [
        item for entry in recording if entry.who == "agent" for item in host.receive(entry.data.rstrip(b"\r\n"))
    ] + host.close()
    return [type(item.event) for item in found if isinstance(item, Heard)]


FIELDS = ["text", "content", "user_input", "arguments", "args", "input", "delta", "output", "params"]


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recording_still_reads(path, tmp_path):
    """With nothing chosen only secrets would go, and there are none; with fields, lines decode to the same events."""
    recording = open_recording(path)
    assert b"".join(redacted(recording, Redaction())) == path.read_bytes()
    out = tmp_path / path.name
    out.write_bytes(b"".join(redacted(recording, Redaction(FIELDS[:-1]))))
    assert out.stat().st_size == path.stat().st_size
    if path.stem not in ("decode_probes", "http_demo"):
        assert heard(out) == heard(path)


@pytest.mark.parametrize("codec", ["aionrs", "jan", "levpro", "pagent-v4"])
async def test_a_redacted_recording_replays(codec, tmp_path):
    path = tmp_path / "r"
    await talk(serve(tmp_path, codec, SECRET_PLAY, "--record", str(path)), codec, tmp_path / "host")
    assert SECRETS[0] in path.read_text()
    out, done = redact(path, "--field", "text", "--field", "delta", "--field", "content")
    assert done.returncode == 0
    assert SECRETS[0] not in out.read_text()
    assert heard(out) == heard(path)
    assert [msgspec.json.decode(line).keys() for line in out.read_bytes().splitlines()] == [
        msgspec.json.decode(line).keys() for line in path.read_bytes().splitlines()
    ]


SECRET_PLAY = [
    {"tool_calls": [{"id": "c", "name": "ExecCommand", "arguments": {"cmd": f"echo OPENAI_API_KEY={SECRETS[0]}"}}]},
    {"text": "It is done."},
    {"text": "And again."},
]
