"""AWS event streams, made from events; and what a request's signature must be, by the book."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from typing import Any
from urllib.parse import quote
from zlib import crc32

from chunk_server import Seen

Json = dict[str, Any]
MEDIA = {"content-type": "application/vnd.amazon.eventstream"}


def frame(payload: bytes, **headers: str) -> bytes:
    """One frame of the event stream encoding; headers are named without their colon and with ``_`` for ``-``."""
    head = b""
    for name, value in headers.items():
        key = f":{name.replace('_', '-')}".encode()
        head += bytes([len(key)]) + key + b"\x07" + struct.pack("!H", len(value.encode())) + value.encode()
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    prelude += struct.pack("!I", crc32(prelude))
    whole = prelude + head + payload
    return whole + struct.pack("!I", crc32(whole))


def event_frame(name: str, payload: Json) -> bytes:
    """A frame that holds an event."""
    body = json.dumps(payload).encode()
    return frame(body, event_type=name, content_type="application/json", message_type="event")


def frame_chunk(event: Json) -> bytes:
    """A frame that holds an event of the model's own."""
    inner = base64.b64encode(json.dumps(event).encode()).decode()
    return event_frame("chunk", {"bytes": inner, "p": "abcdefgh"})


def exception_frame(name: str, payload: Json) -> bytes:
    """A frame that says that the service failed."""
    body = json.dumps(payload, separators=(",", ":")).encode()
    return frame(body, exception_type=name, content_type="application/json", message_type="exception")


def signature_faults(seen: Seen, *, key_id: str, secret: str, region: str) -> list[str]:
    """Whether a request that arrived is signed as Signature Version 4 says: computed anew from what was received."""
    scheme, _, rest = seen.headers["authorization"].partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    names = fields["SignedHeaders"].split(";")
    date = seen.headers["x-amz-date"]
    scope = f"{date[:8]}/{region}/bedrock/aws4_request"
    path, _, query = seen.path.partition("?")
    canonical = "\n".join(
        [
            "POST",
            quote(path, safe="/~-_."),
            query,
            *(f"{name}:{' '.join(seen.headers[name].split())}" for name in names),
            "",
            ";".join(names),
            hashlib.sha256(seen.raw).hexdigest(),
        ]
    )
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    faults = []
    if (scheme, fields["Credential"]) != ("AWS4-HMAC-SHA256", f"{key_id}/{scope}"):
        faults.append(f"wrong credential: {scheme} {fields['Credential']}")
    if not {"host", "x-amz-date"} <= set(names):
        faults.append(f"not enough is signed: {names}")
    if fields["Signature"] != expected:
        faults.append("wrong signature")
    return faults
