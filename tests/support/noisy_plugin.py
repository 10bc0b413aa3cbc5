"""A provider of somebody else's, installed as any, whose body and calls write to standard output in every way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SAYS = "through the noise"

_PLUGIN = """
import logging, os, subprocess, sys, warnings
from agentwire.provider.contract import Completion, ProviderPlugin
from agentwire.events import TextDelta

def noise():
{noise}

noise()

class Noisy:
    name, model, thinking, effort_levels = "noisy", "noisy", False, ()

    async def complete(self, request, emit):
        noise()
        emit(TextDelta("through the noise"))
        noise()
        return Completion(text="through the noise")

    async def aclose(self):
        pass

provider = ProviderPlugin("noisy", lambda settings: Noisy())
"""


def install(home: Path, statements: Sequence[str]) -> dict[str, str]:
    """Install it below ``home``; the environment in which it is found, as provider ``noisy``."""
    plugins = home / "plugins"
    information = plugins / "noisy-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[agentwire.providers]\nnoisy = noisy_plugin:provider\n")
    noise = "\n".join(f"    {statement}" for statement in statements)
    (plugins / "noisy_plugin.py").write_text(_PLUGIN.format(noise=noise))
    return {"PYTHONPATH": str(plugins)}
