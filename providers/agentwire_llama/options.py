"""The options of the ``llama`` provider: ``[providers.llama]`` in ``agentwire.toml`` and ``--provider-option``."""

from __future__ import annotations

import shlex
from ipaddress import ip_address
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentwire.provider import ConfigError, ProviderSettings, read_quirks
from agentwire_llama import NAME

OURS = {
    "--alias": "the model's name is set by model",
    "--api-key": "a key is made for every start",
    "--api-key-file": "a key is made for every start",
    "--host": "set host",
    "--log-file": "set log_file",
    "--model": "set model_file",
    "--port": "set port",
    "-a": "the model's name is set by model",
    "-m": "set model_file",
}
"""Arguments that are never given by hand, with what to do instead."""


class LlamaOptions(Struct, frozen=True, kw_only=True):
    """What is run, and how it is looked after."""

    binary: str = "llama-server"
    """A path, or a name to look for on PATH."""
    model_file: str = ""
    """The GGUF file; empty: the model's name is its path. Of a model in several files, the first."""
    host: str = "127.0.0.1"
    """A loopback address: other machines have no business with our server."""
    port: int = 0
    """0: a free one."""
    context_size: int = 0
    """Tokens; 0: as many as the model was trained for and this machine has memory for, up to a limit."""
    gpu_layers: int = -1
    """Layers to keep on the GPU; -1: as the server decides."""
    threads: int = 0
    """0: as the server decides."""
    extra_args: tuple[str, ...] | str = ()
    """More arguments for the server; one text is split as a shell does."""
    startup_timeout: float = 300.0
    """Seconds that it may take to load the model."""
    restart_limit: int = 3
    """How often a server that ends before it has finished a reply is started again."""
    restart_delay: float = 0.5
    """Seconds before it is started again; doubled every time, up to half a minute."""
    idle_seconds: int = 0
    """Without requests for so long, the model leaves memory until the next (newer servers only); 0: never."""
    log_file: str = ""
    """Where the server's output goes; empty: a file for this process among the platform's logs."""
    log_limit: int = 4 * 1024 * 1024
    """Bytes; of a log that has grown beyond it the older half is dropped."""
    memory_check: bool = True
    """Refuse to start a model that this machine has no memory for."""

    def __post_init__(self) -> None:
        try:
            loopback = self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            raise ValueError(f"host must be a loopback address, not {self.host!r}")
        if not 0 <= self.port <= 65535:
            raise ValueError("port must be between 0 and 65535")
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}")
        for argument in self.arguments:
            name = argument.partition("=")[0]
            if name in OURS:
                raise ValueError(f"extra_args must not hold {name}: {OURS[name]}")
            if "\0" in argument:
                raise ValueError("extra_args must not hold a NUL")

    @property
    def arguments(self) -> tuple[str, ...]:
        """``extra_args`` one by one."""
        return tuple(shlex.split(self.extra_args)) if isinstance(self.extra_args, str) else self.extra_args


_LEAST = {
    "context_size": 0,
    "gpu_layers": -1,
    "threads": 0,
    "startup_timeout": 0.1,
    "restart_limit": 0,
    "restart_delay": 0.0,
    "idle_seconds": 0,
    "log_limit": 4096,
}


def read_options(settings: ProviderSettings) -> tuple[LlamaOptions, dict[str, Any]]:
    """The options that are ours, and the rest, which is for whoever reads the replies.

    Raises :class:`ConfigError` naming what is wrong.
    """
    if settings.base_url:
        raise ConfigError(
            "provider llama starts a server of its own and takes no base URL; "
            "for a server that runs already use provider 'openai' with it"
        )
    names = LlamaOptions.__struct_fields__
    ours = {name: value for name, value in settings.options.items() if name in names}
    rest = {name: value for name, value in settings.options.items() if name not in names}
    return read_quirks(LlamaOptions, replace(settings, options=ours), NAME), rest
