"""One error instead of a group of one: what a program that knows nothing of nurseries expects to catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_error() -> Iterator[None]:
    """Raise the only exception of a group by itself; a group of several stays a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__
