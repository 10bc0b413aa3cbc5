"""What goes to standard error: one line for each thing worth knowing, with a level and the session it is about.

As text for people, or (``json``) one JSON object a line for whoever collects them.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import Any, Literal

Format = Literal["text", "json"]

SESSION: ContextVar[str] = ContextVar("agentwire_session", default="")
"""The session whose turn runs in this task, and in those that it starts."""


class _Sessions(logging.Filter):
    """Puts the session into every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.session = SESSION.get()
        return True


class TextLines(logging.Formatter):
    """``2026-11-30 10:00:00,000 WARNING agentwire.turn [session]: text``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(place)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write one record, a traceback on lines of its own."""
        session = getattr(record, "session", "")
        record.place = f" [{session}]" if session else ""
        return super().format(record)


class JsonLines(logging.Formatter):
    """``{"time":...,"level":"warning","logger":"agentwire.turn","session":...,"message":...}``, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; a traceback is the field ``exception``."""
        import json

        told: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if session := getattr(record, "session", ""):
            told["session"] = session
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def configure(level: str, form: Format = "text") -> None:
    """Send this process's log to standard error, from ``level`` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Sessions())
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=level.upper())
