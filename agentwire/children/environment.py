"""What the programs that we start know of our environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentwire.children.secret_variables import hidden


def environment(environ: Mapping[str, str], keep: Iterable[str] = ()) -> dict[str, str]:
    """The environment for child processes: ``environ`` without what pays for model services.

    That is :func:`agentwire.children.secret_variables.hidden`, except the names in ``keep``.
    """
    secret = hidden().difference(keep)
    return {name: value for name, value in environ.items() if name.upper() not in secret}
