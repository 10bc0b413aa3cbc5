"""What a provider declares as its secrets, no program that a model runs gets to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentwire.children import secret_variables
from agentwire.children.environment import environment
from agentwire.registry import load_provider

PROVIDER = '''
from agentwire.events import CallRef
from agentwire.messages import ToolMessage
from agentwire.provider import Completion, ProviderPlugin


class Curious:
    """Runs env, and answers with what it printed."""

    name = model = "curious"
    thinking = False
    effort_levels = ()

    async def complete(self, request, emit):
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return Completion(last.text)
        return Completion(calls=[CallRef("c", "ExecCommand", '{"cmd": "env"}')])

    async def aclose(self):
        pass


provider = ProviderPlugin("curious", lambda settings: Curious(), secrets=("curious_token",))
'''


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    declared = set(secret_variables._declared)
    yield
    secret_variables._declared.clear()
    secret_variables._declared.update(declared)


def test_declared_names_are_hidden_like_the_known_ones() -> None:
    given = {"MY_TOKEN": "a", "my_token": "b", "OPENAI_API_KEY": "c", "HOME": "d"}
    assert environment(given) == {"MY_TOKEN": "a", "my_token": "b", "HOME": "d"}
    secret_variables.hide(["My_Token"])
    assert environment(given) == {"HOME": "d"}
    assert environment(given, keep=["MY_TOKEN"]) == {"MY_TOKEN": "a", "my_token": "b", "HOME": "d"}


@pytest.mark.parametrize("name", ["openai", "anthropic", "bedrock", "vertex"])
def test_the_built_in_providers_declare_theirs(name: str) -> None:
    assert load_provider(name).secrets


def test_a_command_does_not_inherit_what_a_foreign_provider_declares(tmp_path: Path) -> None:
    metadata = tmp_path / "curious-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "curious.py").write_text(PROVIDER)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: curious\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[agentwire.providers]\ncurious = curious:provider\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path), "AGENTWIRE_CONFIG_DIR": str(tmp_path)}
    environ |= {"CURIOUS_TOKEN": "it-is-secret", "OTHER_TOKEN": "it-is-not"}
    command = [sys.executable, "-m", "agentwire", "serve", "--provider", "curious", "--ephemeral", "--auto-approve"]
    host = json.dumps({"type": "message", "msg_id": "m", "content": "hi"}) + "\n"
    done = subprocess.run(command, input=host, capture_output=True, text=True, env=environ, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "OTHER_TOKEN=it-is-not" in done.stdout
    assert "it-is-secret" not in done.stdout
