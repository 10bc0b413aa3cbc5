"""What can go wrong with an MCP server, in words for people."""

from __future__ import annotations


class McpConnectError(Exception):
    """A server could not be connected; ``cause`` is the sentence a host is shown (aionrs protocol, section 2.8)."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class McpCallError(Exception):
    """A tool call failed at the server or on the way to it. The text is for the model."""


class ConnectionLostError(Exception):
    """The connection ended under a request. ``taken``: the server may have acted on it, so it is not sent again."""

    def __init__(self, reason: str, *, taken: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.taken = taken
