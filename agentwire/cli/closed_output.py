"""Standard output that nobody reads any more, as after ``| head``: a quiet end, the same for every command."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SEEN_ENOUGH = 0
"""Exit status: whoever read has seen enough, and nothing is wrong with that."""


def until_closed(run: Callable[[], T]) -> T | int:
    """Run a command; what it gives, or :data:`SEEN_ENOUGH` if standard output was closed before its end.

    Any other pipe that breaks is an error like any.
    """
    try:
        result = run()
    except BrokenPipeError as error:
        if _is_read():  # click takes this error for that of standard output, and would say nothing
            raise RuntimeError(f"a pipe broke that is not standard output: {error}") from error
        _discard()
        return SEEN_ENOUGH
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _discard()  # rich has met it, and would have it a failure
        return SEEN_ENOUGH
    try:
        if sys.stdout is not None:  # it is None if we were started without one
            sys.stdout.flush()  # at the latest now it shows; what the command gives it gives all the same
    except BrokenPipeError:
        _discard()
    return result


def _is_read() -> bool:
    """Whether somebody still holds the other end of standard output."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):
        return True  # there is none, or it is no pipe
    if not hasattr(select, "poll"):
        return False  # this system cannot say
    poll = select.poll()
    poll.register(descriptor, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _discard() -> None:
    """What is still buffered goes nowhere, or the interpreter would complain of it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
