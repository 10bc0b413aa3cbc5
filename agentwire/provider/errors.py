"""What went wrong at a model service, as :class:`~agentwire.provider.contract.ProviderError`.

Services report failures as an HTTP status with some JSON, as an ``error`` object inside a stream that began with
status 200, or as plain text. All come out the same: a kind, whether trying again can help, and a sentence for
people with the service's own words in it, bounded and without keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from agentwire.provider import lenient
from agentwire.provider.contract import ProviderError

MAX_TEXT = 500
"""Characters of a service's text that a message quotes."""

MIN_SECRET = 4
"""A shorter key is a placeholder for a local server, and removing it would only mangle messages."""

Kind = Literal["connect", "status", "rate_limit", "stream", "timeout", "auth", "context", "bad_reply", "config"]

_KINDS: dict[int, Kind] = {401: "auth", 403: "auth", 413: "context", 429: "rate_limit"}

_STATUS_OF: dict[str, int] = {
    "api_error": 500,
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 413,
    "exceed_context_size_error": 413,
    "insufficient_quota": 402,
    "internal_server_error": 500,
    "invalid_api_key": 401,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "service_unavailable": 503,
    "timeout_error": 504,
}
"""The words services use for an error's type or code, as the status they would have answered with."""

_TOO_LONG = re.compile(
    r"maximum context length|context (?:length|window|size)|context limit|prompt is too long"
    r"|input is too long|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
KEYS = re.compile(r"\b(sk|pk|gsk|xai|key)-[A-Za-z0-9_-]{8,}|\b(Bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_TRY_AGAIN = re.compile(r"(?:try|retry)(?: again)? (?:in|after) ([0-9.]+) ?(ms|s)", re.IGNORECASE)
_MARKUP = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


class Fault(Struct):
    """What a service said of an error: its text, its words for the type and code, and a status if it names one."""

    text: str = ""
    words: tuple[str, ...] = ()
    status: int = 0

    @property
    def code(self) -> int:
        """The status, as named or as its words mean it; 0 is unknown."""
        return self.status or next((_STATUS_OF[word] for word in self.words if word in _STATUS_OF), 0)


def fault(value: Any) -> Fault:
    """Read an error body, decoded JSON of any of the shapes in use."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, dict)), "")
    if not isinstance(value, dict):
        return Fault(value if isinstance(value, str) else "")
    inner = value.get("error")
    error: dict[str, Any] = inner if isinstance(inner, dict) else value
    text = inner if isinstance(inner, str) else ""
    text = text or next((found for key in ("message", "msg", "detail") if (found := _sentence(error.get(key)))), "")
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        text = f"{text}: {metadata['raw']}"  # a router quotes the service behind it here
    words = tuple(word for key in ("code", "type", "status") if isinstance(word := error.get(key), str))
    numbers = [number for key in ("code", "status", "status_code") if (number := _status(error.get(key)))]
    return Fault(text, words, numbers[0] if numbers else 0)


def refused(
    status: int, headers: Mapping[str, str], body: bytes, *, service: str, secrets: Sequence[str] = ()
) -> ProviderError:
    """The error for an answer with an error status. ``headers`` are looked up in lower case."""
    found = _fault_of(body)
    text = _quote(found.text, secrets)
    wait = retry_after_ms(headers, found.text)
    empty_purse = "insufficient_quota" in found.words  # answered with 429, but waiting does not fill it
    if status == 429 and not empty_purse:
        message = f"Rate limit exceeded: {text}" if text else "Rate limit exceeded."
        if wait is not None:
            message = f"Rate limit exceeded. Retry after {math.ceil(wait / 1000)}s."
        return ProviderError(message, kind="rate_limit", retryable=True, status=status, retry_after_ms=wait)
    kind = _kind(found, status, "status")
    return ProviderError(
        f"API error {status} from {service}" + (f": {text}" if text else "."),
        kind=kind,
        retryable=_retryable(status) and kind != "context" and not empty_purse,
        status=status,
        retry_after_ms=wait,
    )


def reported(value: Any, *, service: str, secrets: Sequence[str] = ()) -> ProviderError:
    """The error for an ``error`` object inside a stream that had begun well."""
    found = fault(value)
    text = _quote(found.text or lenient.encode(value).decode(), secrets)
    kind = _kind(found, found.code, "stream")
    return ProviderError(
        f"API error from {service}: {text}",
        kind=kind,
        retryable=_retryable(found.code) and kind != "context",
        status=found.code,
        retry_after_ms=_wait_in(found.text),
    )


def not_understood(what: str, data: bytes, *, service: str, secrets: Sequence[str] = ()) -> ProviderError:
    """The error for a reply that is no reply: ``what`` it is instead, with a piece of it."""
    text = _quote(_MARKUP.sub(" ", data[: 8 * MAX_TEXT].decode("utf-8", "replace")), secrets)
    return ProviderError(f"{service} sent {what}: {text}", kind="bad_reply")


def broke_off(service: str) -> ProviderError:
    """The error for a stream that ended before the reply was whole."""
    return ProviderError(f"The reply from {service} broke off before its end.", kind="stream", retryable=True)


def retry_after_ms(headers: Mapping[str, str], text: str = "") -> int | None:
    """How long the service wants us to wait, in milliseconds; None if it does not say, or names a past time."""
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (wait := _number(headers.get(name, ""))) is not None:
            return round(wait)
    for name in ("retry-after", "x-ratelimit-reset-after"):
        value = headers.get(name, "")
        if (wait := _number(value)) is not None:
            return round(wait * 1000)
        if (wait := _until(value)) is not None:
            return round(wait * 1000)
    return _wait_in(text)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """``text`` without ``secrets`` and without anything that looks like a key."""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be the beginning of another
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, "***")
    return KEYS.sub(lambda match: f"{match[1] or match[2]} ***", text)


def _kind(found: Fault, status: int, otherwise: Kind) -> Kind:
    if found.code == 413 or (status in (0, 400, 413, 422, 500) and _TOO_LONG.search(found.text)):
        return "context"
    return _KINDS.get(status, otherwise)


def _retryable(status: int) -> bool:
    return status in (408, 429) or status >= 500


def _fault_of(body: bytes) -> Fault:
    try:
        found = fault(lenient.decode(body))
    except ValueError:
        return Fault(_MARKUP.sub(" ", body.decode("utf-8", "replace")))
    if not found.text:
        found.text = body.decode("utf-8", "replace")
    return found


def _quote(text: str, secrets: Sequence[str]) -> str:
    text = redact(" ".join(text.split()), secrets)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _sentence(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return fault(value).text
    if isinstance(value, list):  # validation errors: a list of {"loc", "msg"}
        return "; ".join(found for item in value if (found := _sentence(item)))
    return ""


def _status(value: Any) -> int:
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else 0


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str) -> float | None:
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(date)
    except (ValueError, IndexError, OverflowError):
        return None
    wait = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return wait if wait > 0 else None


def _wait_in(text: str) -> int | None:
    if (match := _TRY_AGAIN.search(text)) and (wait := _number(match[1])) is not None:
        return round(wait if match[2].lower() == "ms" else wait * 1000)
    return None
