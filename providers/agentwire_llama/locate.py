"""Where the program and the model are. What is missing is a :class:`Fault`."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from agentwire.provider import ConfigError

MAGIC = b"GGUF"

BINARY, MODEL = "binary_missing", "model_missing"
"""Kinds of :class:`ConfigError`."""

_INSTALL = (
    "install llama.cpp (`brew install llama.cpp`, or a release of github.com/ggml-org/llama.cpp), "
    "or set binary under [providers.llama]"
)
_SET_MODEL = "pass --model PATH.gguf, or set model_file under [providers.llama]"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)


class Fault(ConfigError):
    """What is missing in the set-up, and what to do about it."""

    def __init__(self, detail: str, fix: str, kind: str) -> None:
        super().__init__(f"{detail}: {fix}", kind)
        self.detail = detail
        self.fix = fix


def find_binary(binary: str, environ: Mapping[str, str]) -> Path:
    """The program: at a path, or by its name on ``PATH``. Raises :class:`Fault`."""
    given = os.path.expanduser(binary)
    if os.path.dirname(given):
        path = Path(given).absolute()
        if not path.is_file():
            raise Fault(f"{path} is not there", _INSTALL, BINARY)
        if not os.access(path, os.X_OK):
            raise Fault(f"{path} is not a program that can be run", "mend its mode, or set another binary", BINARY)
        return path
    found = shutil.which(given, path=environ.get("PATH", os.defpath))
    if found is None:
        raise Fault(f"{binary} was not found on PATH", _INSTALL, BINARY)
    return Path(found).absolute()


def is_path(model: str) -> bool:
    """Whether a model's name is the path of its file."""
    return model.lower().endswith(".gguf")


def find_model(model_file: str, model: str) -> Path:
    """The model's file: ``model_file``, or ``model`` if that is a path. It begins as a GGUF file does.

    Raises :class:`Fault`.
    """
    given = model_file or (model if is_path(model) else "")
    if not given:
        raise Fault("no model file is named", _SET_MODEL, MODEL)
    path = Path(os.path.expanduser(given)).absolute()
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Fault(f"the model {path} is not a file", _SET_MODEL, MODEL)
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
    except OSError as error:
        raise Fault(f"the model {path} cannot be read ({error.strerror})", _SET_MODEL, MODEL) from None
    except ValueError as error:  # a NUL in the path
        raise Fault(f"the model {given!r} cannot be read ({error})", _SET_MODEL, MODEL) from None
    if magic != MAGIC:
        raise Fault(f"the model {path} is not a GGUF file", "convert it, or take one that is", MODEL)
    return path


def model_name(model: str, model_file: str) -> str:
    """What the model is called: its name if it has one, else its file's without what says that it is a file."""
    if model and not is_path(model):
        return model
    name = os.path.basename(model_file or model)
    if match := _SHARD.fullmatch(name):
        return match["stem"]
    return name[: -len(".gguf")] if is_path(name) else name


def shards(path: Path) -> list[Path]:
    """All the files of a model, of which ``path`` is the first or the only one."""
    match = _SHARD.fullmatch(path.name)
    if match is None:
        return [path]
    count = match["count"]
    names = (f"{match['stem']}-{number:05}-of-{count}{match['suffix']}" for number in range(1, int(count) + 1))
    return [path.with_name(name) for name in names]
