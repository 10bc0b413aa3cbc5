"""A server in which everything is there: for agent sides that read lines with no server behind them."""

from __future__ import annotations


class Everything:
    """A :class:`~agentwire.codec.contract.View` in which whatever is named is there, and no turn runs."""

    def has_session(self, session: str) -> bool:
        """Yes."""
        return True

    def turn_active(self, session: str = "") -> bool:
        """No."""
        return False

    def pending(self, request: str, session: str = "") -> bool:
        """Yes."""
        return True

    def active_session(self) -> str:
        """None."""
        return ""

    def is_directory(self, path: str) -> bool:
        """Yes."""
        return True
