"""What a provider needs beyond agentwire's own dependencies: an extra that may not be installed."""

from __future__ import annotations

from importlib.util import find_spec

from agentwire.provider.contract import ConfigError


def need_extra(module: str, extra: str) -> None:
    """Raise :class:`ConfigError`, with what to install, unless ``module`` can be imported. It is not imported."""
    try:
        found = find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        found = False
    if not found:
        raise ConfigError(
            f"The provider '{extra}' needs {module}, which is not installed: pip install 'agentwire[{extra}]'"
        )
