"""How services of one kind differ, as options: ``[providers.NAME]`` and ``--provider-option``.

A provider declares its own options by subclassing :class:`HttpQuirks` (or any struct) and reads them with
:func:`read_quirks`, which refuses what it does not know.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from agentwire.provider.contract import ConfigError, ProviderSettings


class HttpQuirks(Struct, frozen=True, kw_only=True):
    """Options that every provider over HTTP has."""

    api_path: str = ""
    """Path put after the base URL as it is, instead of the usual one with its version."""
    auth_header: str = ""
    """Header that carries the key; ``authorization`` gets it as a bearer token."""
    headers: dict[str, str] = {}
    """More headers for every request."""
    extra_body: dict[str, Any] = {}
    """More fields for every request's body (``temperature`` and the like); they win over ours."""
    max_tokens: int | None = None
    """Limit for a reply where the session sets none."""
    schema_cleanup: bool = True
    """Make tool schemas acceptable: an object at the root, no alternatives there."""

    def __post_init__(self) -> None:
        for name, value in self.headers.items():
            if not (name and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()):
                raise ValueError(f"header {name!r} cannot be sent: only printable ASCII can")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")

    def choices(self) -> dict[str, Any]:
        """The options that are switches, numbers or words of a list, as far as they are not what they usually are:
        whatever a user wrote freely is not among them, and so no secret."""
        return {
            field.name: value
            for field in msgspec.structs.fields(self)
            if _is_choice(field.type) and (value := getattr(self, field.name)) != field.default
        }

    def secrets(self) -> tuple[str, ...]:
        """Values of headers that no message may show."""
        tell_tale = ("auth", "cookie", "key", "secret", "token")
        return tuple(value for name, value in self.headers.items() if any(part in name.lower() for part in tell_tale))


def _is_choice(kind: Any) -> bool:
    """Whether values of a type are switches, numbers, words of a list, or nothing."""
    if get_origin(kind) is Literal or kind in (bool, int, float, type(None)):
        return True
    return get_origin(kind) in (Union, UnionType) and all(map(_is_choice, get_args(kind)))


Q = TypeVar("Q", bound=Struct)


def read_quirks(kind: type[Q], settings: ProviderSettings, provider: str) -> Q:
    """The options as a struct of type ``kind``; raises :class:`ConfigError` naming what is unknown or wrong.

    Values may be strings, as a command line gives them: ``"true"`` is a boolean where one is wanted.
    """
    known = kind.__struct_fields__
    unknown = [name for name in settings.options if name not in known]
    if unknown:
        raise ConfigError(
            f"provider {provider} has no option {', '.join(map(repr, unknown))}; it has {', '.join(known)}"
        )
    try:
        return msgspec.convert(settings.options, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"option of provider {provider}: {error}") from None


def auth(header: str, key: str) -> dict[str, str]:
    """The header that carries ``key``; none without a key."""
    if not key:
        return {}
    name = header.lower()
    return {name: f"Bearer {key}" if name == "authorization" else key}
