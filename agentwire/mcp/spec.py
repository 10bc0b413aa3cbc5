"""What is to be connected: a description of one MCP server, from a host's command or from configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from agentwire.commands import AddMcpServer

DEFAULT_STARTUP_TIMEOUT_MS = 30_000

TRANSPORTS: dict[str, Literal["stdio", "sse", "streamable-http"]] = {
    "stdio": "stdio",
    "sse": "sse",
    "streamable-http": "streamable-http",
    "streamable_http": "streamable-http",
}
"""Every accepted name of a transport, and the one it stands for."""

_REQUIRED = {
    "stdio": ("command", "Initialization failed: stdio transport requires 'command'"),
    "sse": ("url", "Initialization failed: SSE transport requires 'url'"),
    "streamable-http": ("url", "Initialization failed: streamable-http transport requires 'url'"),
}

_IGNORED_KEYS = frozenset({"deferred"})
"""Keys of an aionrs configuration that have no meaning here: every tool is offered at once."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


class McpSpecError(ValueError):
    """The description of a server cannot be used; nothing was tried.

    ``kind``: ``transport`` (no such transport), ``incomplete`` (what the transport needs is missing) or ``config``
    (a wrong type or key in a configuration table).
    """

    def __init__(self, message: str, kind: Literal["transport", "incomplete", "config"]) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


class McpServerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One MCP server and how to reach it."""

    name: str
    transport: str = ""
    """A key of :data:`TRANSPORTS`; empty: ``stdio`` if there is a command, else ``streamable-http``."""
    command: str = ""
    """The program of a stdio server, looked up on the child's ``PATH``."""
    args: list[str] = []
    env: dict[str, str] = {}
    """Added to the small environment that children get."""
    url: str = ""
    headers: dict[str, str] = {}
    """Sent with every HTTP request of this server."""
    startup_timeout_ms: int = DEFAULT_STARTUP_TIMEOUT_MS
    call_timeout_ms: int = 0
    """How long a call may take; 0: as long as it likes."""
    dynamic: bool = False
    """Asked for by the host while the session runs, not by configuration."""

    @property
    def wire(self) -> Literal["stdio", "sse", "streamable-http"]:
        """The transport under its one true name; raises :class:`McpSpecError` if there is none of that name."""
        if not self.transport:
            return "streamable-http" if self.url and not self.command else "stdio"
        try:
            return TRANSPORTS[self.transport]
        except KeyError:
            raise McpSpecError(f"unknown transport: {self.transport}", "transport") from None

    def check(self) -> McpServerSpec:
        """The spec itself if it can be tried; raises :class:`McpSpecError` if not."""
        field, complaint = _REQUIRED[self.wire]
        if not getattr(self, field):
            raise McpSpecError(complaint, "incomplete")
        if field == "url":
            _check_url(self.url)
            for name, value in self.headers.items():
                # Checked here because the HTTP library's own complaint would quote the value, often a secret.
                if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                    raise McpSpecError(f"Initialization failed: header {name!r} is not valid in HTTP", "incomplete")
        return self


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise McpSpecError("Initialization failed: 'url' must be an http or https URL", "incomplete")


def from_command(command: AddMcpServer) -> McpServerSpec:
    """The server that a host asks for; raises :class:`McpSpecError`. It has the default startup timeout."""
    if not command.transport:
        raise McpSpecError("unknown transport: ", "transport")
    return McpServerSpec(
        name=command.name,
        transport=command.transport,
        command=command.command,
        args=command.args,
        env=command.env,
        url=command.url,
        headers=command.headers,
        dynamic=True,
    ).check()


def from_config(name: str, table: Mapping[str, Any]) -> McpServerSpec:
    """The server of a configuration table ``[mcp_servers.NAME]``; raises :class:`McpSpecError`."""
    fields = {key: value for key, value in table.items() if key not in _IGNORED_KEYS}
    for key in ("name", "dynamic"):
        if key in fields:
            raise McpSpecError(f"mcp_servers.{name}: unknown key '{key}'", "config")
    try:
        spec = msgspec.convert({**fields, "name": name}, McpServerSpec)
    except msgspec.ValidationError as error:
        raise McpSpecError(f"mcp_servers.{name}: {error}", "config") from None
    if spec.startup_timeout_ms < 1 or spec.call_timeout_ms < 0:
        raise McpSpecError(
            f"mcp_servers.{name}: a timeout cannot be less than 1 ms (call_timeout_ms 0: none)", "config"
        )
    return spec.check()
