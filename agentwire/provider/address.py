"""Where a model service is and what opens it: base addresses and keys, checked when a provider is made."""

from __future__ import annotations

import base64
import re
from ipaddress import ip_address
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from msgspec import Struct

from agentwire.provider.contract import ConfigError, ProviderSettings

_USER = re.compile(r"//[^/]*@")
_TELL_TALE = re.compile(r"(?i)auth|code|cookie|cred|key|pass|secret|sig|token")
_VERSION = re.compile(r"v\d+(?:(?:alpha|beta|preview)\d*)?")


class Address(Struct, frozen=True):
    """Where a service that opens with a key is."""

    url: str
    key: str
    """Empty if there is none."""
    official: bool
    """It is the service that the provider is named after, and no other that speaks like it."""


def find_service(
    settings: ProviderSettings, path: str, *, base_url: str, base_url_variable: str, key_variable: str, api_path: str
) -> Address:
    """The address and the key of a service, from the settings or else from the environment.

    ``base_url`` is where the official service is, which must have a key; ``path`` what is put behind a base, unless
    ``api_path`` was set by hand. Raises :class:`ConfigError`.
    """
    base = settings.base_url or settings.environ.get(base_url_variable, "") or base_url
    url = endpoint(base, api_path or path, verbatim=bool(api_path))
    key = find_key(settings, key_variable)
    official = host(url) == host(base_url)
    if official and not key:
        raise ConfigError(f"{key_variable} not set")
    return Address(url, key, official)


def endpoint(base_url: str, path: str, *, version: str = "v1", verbatim: bool = False) -> str:
    """The address to post to: ``base_url`` and ``path``, with ``version`` between them if the base names none.

    A base that ends with ``path`` already is complete. ``verbatim``: the path was set by hand, nothing is put
    between. A query in the base is kept. Raises :class:`ConfigError` for what is no HTTP address.
    """
    parts = urlsplit(_checked(base_url))
    base = parts.path.rstrip("/")
    path = f"/{path.lstrip('/')}"
    if not base.endswith(path):
        versioned = any(_VERSION.fullmatch(segment) for segment in base.split("/"))
        base = f"{base}{path}" if verbatim or versioned else f"{base}/{version}{path}"
    return urlunsplit((parts.scheme, parts.netloc, base, parts.query, ""))


def host(url: str) -> str:
    """The host (and port) of an address, for messages: never its user or password."""
    return urlsplit(url).netloc.rpartition("@")[2]


def secrets_in(url: str) -> tuple[str, ...]:
    """What no message may show of an address, as written and as meant: its password, or a user without one, and what
    stands in its query under a name that tells of a secret."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    name, _, password = user.partition(":")
    found = [user, password or name, base64.b64encode(unquote(user).encode()).decode()] if user else []
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if _TELL_TALE.search(unquote(name)):
            found.append(value)
    return tuple(dict.fromkeys(filter(None, [*found, *map(unquote, found), *map(unquote_plus, found)])))


def is_local(url: str) -> bool:
    """Whether the address is on this machine, which no proxy can reach for us."""
    name = urlsplit(url).hostname or ""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def find_key(settings: ProviderSettings, variable: str) -> str:
    """The key from the settings or the environment, without surrounding white space; empty if there is none.

    Raises :class:`ConfigError` for a key that no header can carry, without showing it.
    """
    key = (settings.api_key or settings.environ.get(variable, "")).strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{variable} holds characters that no key has (line breaks, spaces or letters with accents)")
    return key


def _checked(url: str) -> str:
    url = url.strip()
    shown = _USER.sub("//***@", url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"base URL {shown!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError(f"base URL {shown!r} is not of the form https://host[:port][/path]")
    if not url.isprintable() or " " in url:
        raise ConfigError(f"base URL {shown!r} holds characters that no address has")
    return url
