"""What is kept of an HTTP reply, and what it costs who keeps nothing."""

from __future__ import annotations

import gzip
import time

import pytest

from agentwire.agent.replies import KEPT_HEADERS, Replies
from agentwire.provider import HttpQuirks
from agentwire.provider.hearing import LISTENER, Reading
from agentwire.recording import Chunk, HttpReply


@pytest.mark.parametrize(
    "name",
    [
        "content-type", "retry-after", "retry-after-ms", "x-request-id", "request-id", "apim-request-id",
        "x-ratelimit-remaining-tokens", "anthropic-ratelimit-input-tokens-reset", "ratelimit-policy",
        "x-amzn-errortype", "x-amzn-bedrock-input-token-count", "openai-processing-ms",
    ],
)  # fmt: skip
def test_harmless_headers(name):
    assert KEPT_HEADERS.fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        "set-cookie", "authorization", "www-authenticate", "openai-organization", "anthropic-organization-id",
        "x-ratelimit-key", "x-ratelimit-user-token", "location", "x-api-key", "x-goog-api-client",
    ],
)  # fmt: skip
def test_headers_that_say_who_asked(name):
    assert not KEPT_HEADERS.fullmatch(name)


def kept(replies: Replies) -> HttpReply:
    import msgspec

    (told,) = replies.told()
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(told)), HttpReply)


def test_a_reply_as_it_came():
    replies = Replies(time.monotonic_ns())
    replies.reads(Reading("p", {"api": "x"}))
    exchange = replies.asks("host", "POST", "/path/of-secret-1", ["of-secret-1"])
    exchange.answered(200, [("Content-Type", "a/b"), ("Set-Cookie", "x=y"), ("X-Request-Id", "r-of-secret-1")])
    exchange.heard(b"one\xc3")
    exchange.heard(b"\xa9 of-sec")
    exchange.heard(b"ret-1 two")
    exchange.ended()
    reply = kept(replies)
    assert (reply.service, reply.path, reply.status, reply.whole) == ("host", "/path/***", 200, True)
    assert reply.headers == [("content-type", "a/b"), ("x-request-id", "r-***")]
    assert [chunk.data for chunk in reply.body] == [b"one\xc3", b"\xa9 ***", b" two"]
    assert reply.reader == {
        "provider": "p", "options": {"api": "x"}, "connect_timeout": 10.0, "silence_timeout": 300.0,
    }  # fmt: skip
    assert reply.asked <= reply.answered <= reply.body[0].at <= reply.ended


def test_compressed_bodies_are_kept_without_compression_and_unknown_ones_not_at_all():
    for coding, body, found in (
        ("gzip", gzip.compress(b"the secret-1"), b"the ***"), ("br", b"?", b""), ("gzip", b"no gzip", b""),
    ):  # fmt: skip
        replies = Replies(time.monotonic_ns())
        replies.reads(Reading("p"))
        exchange = replies.asks("h", "POST", "/", ["secret-1"])
        exchange.answered(200, [("content-encoding", coding)])
        exchange.heard(body)
        reply = kept(replies)
        assert b"".join(chunk.data for chunk in reply.body) == found
        assert (reply.reader is None) == (coding == "br")
        assert reply.headers == []


def test_no_connection():
    replies = Replies(time.monotonic_ns())
    replies.asks("h", "POST", "/", ["secret-1"]).broke("ConnectError", "no secret-1 here", "OSError")
    reply = kept(replies)
    assert reply.status == 0
    assert reply.broke is not None
    assert (reply.broke.kind, reply.broke.message, reply.broke.cause) == ("ConnectError", "no *** here", "OSError")


class Quirks(HttpQuirks, frozen=True, kw_only=True):
    number: int | None = None
    words: str = ""


def test_only_switches_numbers_and_choices_are_kept_of_options():
    quirks = Quirks(api_path="/secret", headers={"k": "secret"}, extra_body={"k": "secret"}, words="secret", number=3)
    assert quirks.choices() == {"number": 3}
    assert Quirks(schema_cleanup=False, max_tokens=7).choices() == {"schema_cleanup": False, "max_tokens": 7}


def test_nobody_listens_unless_somebody_records():
    assert LISTENER.get() is None


def test_a_piece_is_text_or_base64():
    assert Chunk(1, "\u2014").data == "\u2014".encode()
    assert Chunk(1, "", "/w==").data == b"\xff"
