"""By what name an agent can be imported, so that what was recorded of it can be done again with it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from agentwire.agent.running import as_run
from agentwire.provider.contract import ConfigError

MAIN = "__main__"


def name_of(agent: Any) -> str:
    """``MODULE:NAME`` of an agent, or ``MODULE:NAME()`` of its class if no module holds it.

    The module is ``__main__`` for what was made in a program that was started as a file.
    """
    named = agent if hasattr(agent, "__qualname__") else type(agent)
    module, name = getattr(named, "__module__", "") or "", named.__qualname__
    if named is agent and "<" not in name:
        return f"{_importable(module)}:{name}"
    for other in sorted(sys.modules, key=lambda other: (other == MAIN, other)):
        for held, value in list(getattr(sys.modules[other], "__dict__", {}).items()):
            if value is agent:
                return f"{_importable(other)}:{held}"
    return f"{_importable(module)}:{name}()"


def _importable(module: str) -> str:
    """The name by which another program imports a module that this one was started as (``python -m``)."""
    spec = getattr(sys.modules.get(module), "__spec__", None) if module == MAIN else None
    return spec.name.removesuffix(f".{MAIN}") if spec is not None else module


def can_be_named(name: str) -> bool:
    """Whether it says where an agent is that can be imported, there or not."""
    module, _, path = name.partition(":")
    return bool(module and path) and module != MAIN and not path.endswith("()")


def agent_named(name: str) -> Any:
    """Import the agent ``MODULE:NAME``. Raises :class:`ConfigError` with what is missing, in one line."""
    module, colon, path = name.partition(":")
    if not colon or not path or path.endswith("()"):
        raise ConfigError(f"'{name}' is not of the form MODULE:NAME")
    if module == MAIN:
        raise ConfigError(f"'{name}' was made in a program, not in a module that can be imported")
    try:
        found: Any = import_module(module)
    except ImportError as error:
        raise ConfigError(f"the module {module} cannot be imported: {error}") from None
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ConfigError(f"the module {module} has no {path}")
    try:
        as_run(found)
    except TypeError as error:
        raise ConfigError(str(error)) from None
    return found
