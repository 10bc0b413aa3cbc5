"""Looks at a set-up as a whole: the checks of a doctor, and the plan that comes of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from agentwire.provider import Check, ConfigError, child_environment
from agentwire_llama import gguf, machine
from agentwire_llama.locate import BINARY, MODEL, Fault, find_binary, find_model, model_name, shards
from agentwire_llama.options import LlamaOptions
from agentwire_llama.plan import LaunchPlan, gib, make_plan

KINDS = {"binary": BINARY, "model": MODEL, "memory": "model_plan_error"}
"""By a check's name: the kind of :class:`ConfigError` that it comes to."""

_SMALLER = "take a smaller model or a stronger quantization, set context_size lower, or set memory_check = false"


class Survey:
    """One look at program, model and machine. Reads files (up to a second for a large vocabulary), starts nothing."""

    def __init__(self, options: LlamaOptions, model: str, environ: Mapping[str, str]) -> None:
        self._options = options
        self._model = model
        self._environ = environ
        self._binary: Path | None = None
        self._model_file: Path | None = None
        self._header: gguf.Header | None = None
        self._weights = 0
        self._plan: LaunchPlan | None = None

    def checks(self) -> list[Check]:
        """``binary``, ``model``, ``memory`` and, if one is set, ``port``: in the order in which a start needs them."""
        found = [self._check_binary(), self._check_model()]
        if all(check.ok for check in found):
            found.append(self._check_memory())
        if self._options.port:
            found.append(self._check_port())
        return found

    def plan(self) -> LaunchPlan:
        """The plan. Raises :class:`ConfigError` for what stands in its way, a model that does not fit included."""
        for check in (self._check_binary, self._check_model, self._check_memory):
            result = check()
            if not result.ok:
                raise ConfigError(f"{result.detail}: {result.fix}", KINDS[result.name])
        assert self._plan is not None  # noqa: S101 - the memory was looked at for it
        return self._plan

    def _check_binary(self) -> Check:
        try:
            self._binary = find_binary(self._options.binary, self._environ)
        except Fault as fault:
            return Check("binary", False, fault.detail, fault.fix)
        return Check("binary", True, str(self._binary))

    def _check_model(self) -> Check:
        try:
            path = find_model(self._options.model_file, self._model)
        except Fault as fault:
            return Check("model", False, fault.detail, fault.fix)
        try:
            headers = [gguf.read(file) for file in shards(path)]
        except gguf.GgufError as error:
            return Check("model", False, f"the model {path} cannot be used: {error}", "fetch it once more")
        except OSError as error:
            return Check("model", False, f"{error.filename} cannot be read: {error.strerror}", "fetch all its parts")
        if missing := sum(header.missing for header in headers):
            return Check("model", False, f"the model {path} is cut off: {missing} bytes are missing", "fetch it again")
        self._model_file, self._header = path, headers[0]
        self._weights = sum(header.size for header in headers)
        weights = sum(header.parameters for header in headers)
        return Check("model", True, f"{path}: {_described(headers[0], weights, self._weights)}")

    def _check_memory(self) -> Check:
        assert self._binary is not None  # noqa: S101 - both were found before
        assert self._model_file is not None  # noqa: S101
        assert self._header is not None  # noqa: S101
        self._plan = plan = make_plan(
            self._options,
            binary=self._binary,
            model_file=self._model_file,
            model=model_name(self._model, self._options.model_file),
            header=self._header,
            weights=self._weights,
            machine=machine.look(),
            environ=child_environment(self._environ),
        )
        if plan.problem:
            return Check("memory", False, plan.problem, _SMALLER)
        detail = f"about {gib(plan.need.total)} for {plan.context_size} tokens of context"
        if plan.machine.total:
            detail += f"; the machine has {gib(plan.machine.total)}, {gib(plan.machine.available)} of it free"
        return Check("memory", True, detail, "; ".join(plan.warnings))

    def _check_port(self) -> Check:
        port = self._options.port
        try:
            take_port(self._options.host, port)
        except OSError as error:
            return Check("port", False, f"port {port} cannot be used: {error.strerror}", "set port = 0 for a free one")
        return Check("port", True, f"{port} is free")


def take_port(host: str, port: int) -> int:
    """A port that nobody listens on: ``port``, or any if that is 0. Raises :class:`OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was just closed is free
        listener.bind((host, port))
        taken: int = listener.getsockname()[1]
    return taken


def _described(header: gguf.Header, weights: int, size: int) -> str:
    parts = [header.name, header.architecture, header.file_type]
    if weights:
        parts.append(f"{weights / 1e9:.1f} B weights" if weights >= 1e9 else f"{weights / 1e6:.0f} M weights")
    if header.blocks:
        parts.append(f"{header.blocks} layers")
    if header.context_length:
        parts.append(f"{header.context_length} tokens of context")
    return ", ".join(part for part in [*parts, gib(size)] if part)
