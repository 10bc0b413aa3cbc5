"""A codec and a provider from outside the package are served through their entry points: no private door."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODEC = '''
import json
from agentwire.codec import Codec, Fidelity, LineFault, Policy, Request
from agentwire.commands import Prompt
from agentwire.events import SessionOpened, TextDelta, TurnFinished


class Shout:
    """Plain lines in, upper-case lines out."""

    def receive(self, line, view):
        return None if isinstance(line, LineFault) or not line else Request(Prompt(line.decode()))

    def outcome(self, request, outcome, out):
        return None

    def render(self, session, records, out):
        for record in records:
            if isinstance(record.event, SessionOpened):
                out += b"HELLO\\n"
            elif isinstance(record.event, TurnFinished):
                out += record.event.text.upper().encode() + b"\\n"
        return None

    def feed(self, session, records):
        pass

    def fatal(self, refusal, out):
        out += b"SORRY " + refusal.message.upper().encode() + b"\\n"


codec = Codec(
    name="shout", summary="for tests", agent=Shout, host=None, policy=Policy(name="shout"),
    fidelity=lambda: None,
)
'''

PROVIDER = """
from agentwire.events import TextDelta
from agentwire.provider import Completion, ConfigError, ProviderPlugin


class Echo:
    name = "echo"
    model = "echo"
    thinking = False
    effort_levels = ()

    async def complete(self, request, emit):
        text = "you said " + request.messages[-1].parts[0].text
        print("a print of a plugin must not reach the host")
        emit(TextDelta(text))
        return Completion(text)

    async def aclose(self):
        pass


def create(settings):
    if settings.options.get("broken"):
        raise ConfigError("echo is broken")
    return Echo()


provider = ProviderPlugin("echo", create, "for tests")
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which a distribution with one codec and one provider is installed."""
    site = tmp_path / "site"
    metadata = site / "foreign-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "foreign_codec.py").write_text(CODEC)
    (site / "foreign_provider.py").write_text(PROVIDER)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[agentwire.codecs]\nshout = foreign_codec:codec\n[agentwire.providers]\necho = foreign_provider:provider\n"
    )
    return {**os.environ, "PYTHONPATH": str(site), "AGENTWIRE_CONFIG_DIR": str(tmp_path)}


def run(environ: dict[str, str], cwd: Path, *arguments: str, host: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentwire", *arguments], input=host, capture_output=True, text=True, env=environ,
        cwd=cwd, timeout=60, check=False,
    )  # fmt: skip


def test_they_are_listed(environ, tmp_path):
    assert "shout" in run(environ, tmp_path, "codecs").stdout
    assert "echo" in run(environ, tmp_path, "providers").stdout


def test_they_are_served(environ, tmp_path):
    done = run(environ, tmp_path, "serve", "--codec", "shout", "--provider", "echo", "--ephemeral", host="hi\n")
    assert done.stdout == "HELLO\nYOU SAID HI\n"
    assert "a print of a plugin" in done.stderr
    assert done.returncode == 0


def test_a_built_in_codec_takes_a_foreign_provider(environ, tmp_path):
    host = json.dumps({"type": "message", "msg_id": "m", "content": "hi"}) + "\n"
    done = run(environ, tmp_path, "serve", "--codec", "aionrs", "--provider", "echo", "--ephemeral", host=host)
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == [
        "ready", "stream_start", "text_delta", "stream_end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--provider", "echo", "--provider-option", "broken=true"], "SORRY ECHO IS BROKEN"),
        (["--provider", "nothing"], "SORRY UNKNOWN PROVIDER: 'NOTHING'"),
    ],
)
def test_what_goes_wrong_at_the_start_is_told_in_the_foreign_wires_own_form(environ, tmp_path, arguments, line):
    done = run(environ, tmp_path, "serve", "--codec", "shout", "--ephemeral", *arguments)
    assert done.stdout.startswith(line)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.strip().splitlines()) == 1
