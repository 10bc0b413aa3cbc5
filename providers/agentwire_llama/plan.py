"""What would be run: pure data, made from the options, the model's header and the machine's memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentwire_llama.gguf import Header
from agentwire_llama.machine import Machine
from agentwire_llama.options import LlamaOptions

CONTEXT_SIZES = (32768, 16384, 8192, 4096)
"""Tokens that are tried, the largest first, if the options name no number."""

USUAL_CONTEXT = 16384
"""Tokens where the memory is not known: that of a GPU is not looked at."""

WORKING_MEMORY = 384 * 1024 * 1024
"""Bytes that a server takes beside the weights and the cache, about."""

KEY_VARIABLE = "LLAMA_API_KEY"
"""Hands the server the key that is made for every start: other users see arguments, but not this."""

_CACHE_ELEMENT = 2
"""Bytes of a number in the cache (16-bit floats)."""

_TELL_TALE = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY", re.IGNORECASE)
_SETTING = "LLAMA_ARG_"


class Need(Struct, frozen=True):
    """Bytes of memory that a model takes, estimated."""

    weights: int
    cache: int
    working: int = WORKING_MEMORY

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.working


class LaunchPlan(Struct, frozen=True):
    """What would be run, except for the port if that is free to choose, and the key."""

    binary: str
    model_file: str
    model: str
    arguments: tuple[str, ...]
    """All but the port."""
    host: str
    port: int
    """0: a free one, when it starts."""
    environ: dict[str, str]
    context_size: int
    gpu_layers: int
    """-1: as the server decides."""
    need: Need
    machine: Machine
    warnings: tuple[str, ...] = ()
    problem: str = ""
    """Not empty: the model does not fit this machine, and this is how."""

    def argv(self, port: int) -> list[str]:
        """The command line for a port."""
        return [self.binary, *self.arguments, "--port", str(port)]

    def url(self, port: int) -> str:
        """The server's base address."""
        return f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"

    def facts(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "model": self.model,
            "model_file": self.model_file,
            "binary": self.binary,
            "args": [*self.arguments, "--port", str(self.port)],
            "host": self.host,
            "port": self.port,
            "context_size": self.context_size,
            "gpu_layers": self.gpu_layers,
            "memory": {
                "weights": self.need.weights,
                "cache": self.need.cache,
                "working": self.need.working,
                "total": self.machine.total,
                "available": self.machine.available,
            },
            "warnings": list(self.warnings),
        }


def make_plan(
    options: LlamaOptions,
    *,
    binary: Path,
    model_file: Path,
    model: str,
    header: Header,
    weights: int,
    machine: Machine,
    environ: Mapping[str, str],
) -> LaunchPlan:
    """Decide on a command line. ``weights``: bytes of all files of the model."""
    context = options.context_size or _context(header, weights, machine)
    need = Need(weights, context * cache_per_token(header))
    problem, warnings = _judge(options, header, context, need, machine)
    return LaunchPlan(
        binary=str(binary),
        model_file=str(model_file),
        model=model,
        arguments=tuple(_arguments(options, model_file, model, context)),
        host=_host(options),
        port=options.port,
        environ=child_environ(environ),
        context_size=context,
        gpu_layers=options.gpu_layers,
        need=need,
        machine=machine,
        warnings=tuple(warnings),
        problem=problem if options.memory_check else "",
    )


def cache_per_token(header: Header) -> int:
    """Bytes that a token of context takes, from above (layers that look back a little only are counted in full);
    0 if the header does not say."""
    heads = header.numbers("attention.head_count_kv") or header.numbers("attention.head_count")
    attention = header.number("attention.head_count")
    size = header.number("embedding_length") // attention if attention else 0
    keys = header.number("attention.key_length") or size
    values = header.number("attention.value_length") or size
    return sum(heads) * (keys + values) * _CACHE_ELEMENT


def child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """What a server gets of our environment: no secrets, and no settings that a plan would not show."""
    return {
        name: value
        for name, value in environ.items()
        if not _TELL_TALE.search(name) and not name.upper().startswith(_SETTING)
    }


def gib(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 2**30:.1f} GiB"


def _context(header: Header, weights: int, machine: Machine) -> int:
    trained = header.context_length or CONTEXT_SIZES[-2]
    if machine.accelerator or not machine.available:
        return min(trained, USUAL_CONTEXT)
    sizes = sorted({min(size, trained) for size in CONTEXT_SIZES}, reverse=True)
    per_token = cache_per_token(header)
    return next((size for size in sizes if Need(weights, size * per_token).total <= machine.available), sizes[-1])


def _arguments(options: LlamaOptions, model_file: Path, model: str, context: int) -> list[str]:
    given = ["--model", str(model_file), "--alias", model.replace(",", "_"), "--host", _host(options)]
    given += ["--ctx-size", str(context), "--jinja"]  # the model's own template: without it older ones call no tools
    if options.gpu_layers >= 0:
        given += ["--n-gpu-layers", str(options.gpu_layers)]
    if options.threads:
        given += ["--threads", str(options.threads)]
    if options.idle_seconds:
        given += ["--sleep-idle-seconds", str(options.idle_seconds)]
    return [*given, *options.arguments]


def _host(options: LlamaOptions) -> str:
    return "127.0.0.1" if options.host == "localhost" else options.host


def _judge(options: LlamaOptions, header: Header, context: int, need: Need, machine: Machine) -> tuple[str, list[str]]:
    """How the model does not fit at all, and what a person should know."""
    problem, warnings = "", []
    told = f"{gib(need.total)} are needed (weights {gib(need.weights)}, {context} tokens {gib(need.cache)})"
    if machine.total and need.total > machine.total:
        if machine.accelerator:
            warnings.append(f"{told}, and the machine has {gib(machine.total)}: the rest must fit on the GPU")
        else:
            problem = f"{told}, and the machine has {gib(machine.total)}"
            warnings.append(problem)
    elif machine.available and need.total > machine.available:
        warnings.append(f"{told}, and {gib(machine.available)} of {gib(machine.total)} are free now")
    if header.context_length and context > header.context_length:
        warnings.append(f"the model was trained for {header.context_length} tokens, not {context}")
    if not need.cache:
        warnings.append("the model does not say what its context takes; that memory is not counted")
    return problem, warnings
