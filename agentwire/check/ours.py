"""Our own agent, for whoever wants to see the kit at work: the server on a scripted model, with a home of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from string import Template
from typing import NamedTuple

from agentwire.codec.contract import Codec
from agentwire.store import DATA_DIR

SCRIPT = Path(__file__).with_name("script.jsonl")

TOOLS = ("ExecCommand", "Read", "Edit")
"""Those that the script calls, by our own names."""


class Started(NamedTuple):
    """How an agent is started."""

    argv: tuple[str, ...]
    env: dict[str, str] | None = None
    said: Callable[[list[str]], list[str]] = list
    """How it takes the words that plays add."""


def ours(codec: Codec, home: Path, directory: Path) -> Started:
    """Prepare it. Sessions and the script are kept in ``home``; the model works with files in ``directory``."""
    names = {name: codec.policy.tool_names.get(name, name) for name in TOOLS}
    script = home / SCRIPT.name
    filled = Template(SCRIPT.read_text(encoding="utf-8")).substitute(names, directory=directory)
    script.write_text(filled, encoding="utf-8")
    kit = None if codec.requirements is None else codec.requirements()
    argv = (
        sys.executable, "-m", "agentwire", "serve", "--codec", codec.name, "--provider", "script",
        "--provider-option", f"script={script}", *(() if kit is None else kit.serve),
    )  # fmt: skip
    known = {} if kit is None else kit.our_words

    def said(words: list[str]) -> list[str]:
        return [part for word in words for part in _ours(word, known)]

    return Started(argv, {**os.environ, DATA_DIR: str(home / "data")}, said)


def _ours(word: str, known: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    for beginning, parts in known.items():
        if word.startswith(beginning):
            return (*parts[:-1], parts[-1] + word.removeprefix(beginning))
    return (word,)
