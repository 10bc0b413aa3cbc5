"""Standard output that nobody reads any more, as after ``| head``: a quiet end, the same for every command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SEEN_ENOUGH = 0
"""Exit status: whoever read has seen enough, and nothing is wrong with that."""


def until_closed(run: Callable[[], T]) -> T | int:
    """Run a command; what it gives, or :data:`SEEN_ENOUGH` if standard output was closed before its end."""
    try:
        result = run()
        sys.stdout.flush()  # at the latest now it shows
    except (BrokenPipeError, SystemExit) as ended:
        if isinstance(ended, SystemExit) and not isinstance(ended.__context__, BrokenPipeError):
            raise  # else rich has met it, and would have it a failure
        # What is still buffered goes nowhere, or the interpreter would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SEEN_ENOUGH
    return result
