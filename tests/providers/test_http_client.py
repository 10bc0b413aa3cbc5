"""The life of one HTTP request: timeouts, endings, cancellation, and what is left behind."""

from __future__ import annotations

import gc
import gzip
import socket
import ssl
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import trio
from chunk_server import HANG, Answer, chunk_server
from conversing import CASES, Heard, ask, chunks_of, converse, make

from agentwire.provider import ProviderError

TEXT = b'data: {"choices":[{"delta":{"content":"ok"}}]}\n\n'
FINISHED = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"

ANTHROPIC = chunks_of(CASES["S-a19"]["input"])


async def test_cancelling_closes_the_connection() -> None:
    async with chunk_server(Answer([TEXT], end=HANG)) as server:
        provider, heard, said = make("openai", server.url), Heard(), trio.Event()

        def emit(event: Any) -> None:
            heard.hear(event)
            if heard.text:
                said.set()

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(provider.complete, ask(), emit)
                await said.wait()
                nursery.cancel_scope.cancel()
            await server.requests[0].closed.wait()
        await provider.aclose()


async def test_cancelling_before_the_first_byte() -> None:
    async with chunk_server(Answer([], end=HANG, before_chunk=None)) as server:
        provider = make("openai", server.url)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(provider.complete, ask(), lambda event: None)
                await server.arrived.wait()
                nursery.cancel_scope.cancel()
            await server.requests[0].closed.wait()
        await provider.aclose()


async def test_comments_are_signs_of_life_and_silence_is_not() -> None:
    async def slowly(number: int) -> None:
        await trio.sleep(0.15)

    alive = Answer([b": still there\n"] * 4 + [TEXT, FINISHED, DONE], before_chunk=slowly)
    async with chunk_server(alive, Answer([TEXT], end=HANG)) as server:
        heard = await converse(make("openai", server.url, silence_timeout=0.5))
        assert (heard.error, heard.text) == (None, "ok")
        with trio.fail_after(10):
            heard = await converse(make("openai", server.url, silence_timeout=0.2))
            await server.requests[1].closed.wait()
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("timeout", True)
    assert heard.error.message == f"Nothing from 127.0.0.1:{server.port} for 0.2 s."


async def test_a_connection_is_used_again() -> None:
    async with chunk_server(*[Answer([TEXT, FINISHED, DONE])] * 3) as server:
        provider = make("openai", server.url)
        for _ in range(3):
            await provider.complete(ask(), lambda event: None)
        await provider.aclose()
    assert [request.connection for request in server.requests] == [1, 1, 1]


@pytest.mark.parametrize("ending", [HANG, "reset", "cut"])
async def test_a_whole_reply_is_a_reply_whatever_the_connection_does(ending: str) -> None:
    async with chunk_server(Answer([TEXT, FINISHED, DONE], end=ending), Answer(ANTHROPIC, end=ending)) as server:
        with trio.fail_after(5):
            heard = await converse(make("openai", server.url))
            assert (heard.error, heard.text) == (None, "ok")
            heard = await converse(make("anthropic", server.url))
            assert (heard.error, heard.text) == (None, "Hello!")


async def test_a_service_that_never_says_done_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentwire_openai.stream.CLOSING", 0.2)
    async with chunk_server(Answer([TEXT, FINISHED], end=HANG)) as server:
        with trio.fail_after(5):
            heard = await converse(make("openai", server.url))
    assert (heard.error, heard.text) == (None, "ok")


@pytest.mark.parametrize("ending", ["clean", "reset", "cut"])
@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_reply_that_ends_too_early(name: str, ending: str) -> None:
    async with chunk_server(Answer([TEXT] if name == "openai" else ANTHROPIC[:-1], end=ending)) as server:
        heard = await converse(make(name, server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("stream", True)
    assert heard.text in ("ok", "Hello!")


async def test_the_last_event_may_lack_its_blank_line() -> None:
    async with chunk_server(Answer([TEXT, FINISHED.rstrip()]), Answer([TEXT, FINISHED[:-20]])) as server:
        heard = await converse(make("openai", server.url))
        assert (heard.error, heard.text) == (None, "ok")
        heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert heard.error.kind == "stream"  # and not "this is no JSON"


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    heard = await converse(make("openai", f"http://127.0.0.1:{port}"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("connect", True)
    assert heard.error.message.startswith(f"Cannot connect to 127.0.0.1:{port}: ")


async def test_the_server_hangs_up_without_an_answer() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)
        await stream.aclose()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, hang_up, [listener])
        heard = await converse(make("openai", f"http://127.0.0.1:{listener.socket.getsockname()[1]}"))
        nursery.cancel_scope.cancel()
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("connect", True)


async def test_connecting_takes_too_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word of TLS
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with trio.fail_after(10):
            heard = await converse(make("openai", url, connect_timeout=0.2))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("connect", True)
    assert heard.error.message.endswith("within 0.2 s.")


async def test_a_certificate_nobody_vouches_for() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "self_signed.pem")

    async def serve(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            await trio.SSLStream(stream, context, server_side=True).do_handshake()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        heard = await converse(make("openai", f"https://localhost:{listener.socket.getsockname()[1]}"))
        nursery.cancel_scope.cancel()
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("connect", False)
    assert "certificate" in heard.error.message.lower()


async def test_no_proxy_stands_before_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with chunk_server(Answer([TEXT, FINISHED, DONE])) as server:
        heard = await converse(make("openai", server.url))
    assert (heard.error, heard.text) == (None, "ok")


async def test_a_proxy_of_an_unknown_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://user:pa55word@127.0.0.1:9")
    heard = await converse(make("openai", "http://example.test"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("config", False)
    assert "proxy" in heard.error.message


async def test_compressed_all_the_same() -> None:
    body = gzip.compress(TEXT + FINISHED + DONE)
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    async with chunk_server(Answer([body[:20], body[20:]], headers=headers)) as server:
        heard = await converse(make("openai", server.url))
        assert server.requests[0].headers["accept-encoding"] == "identity"
    assert (heard.error, heard.text) == (None, "ok")


async def test_garbage_that_claims_to_be_compressed() -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    async with chunk_server(Answer([TEXT], headers=headers)) as server:
        heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("bad_reply", False)


async def test_a_web_page_is_no_reply() -> None:
    page = b"<html><style>b{}</style><title>Sign in</title><body>to <b>Cafe</b> wifi</body></html>"
    async with chunk_server(Answer([page], headers={"content-type": "text/html; charset=utf-8"})) as server:
        heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("bad_reply", False)
    assert heard.error.message == f"127.0.0.1:{server.port} sent a web page: Sign in to Cafe wifi"


async def test_a_stream_under_a_wrong_name() -> None:
    async with chunk_server(Answer([TEXT, FINISHED, DONE], headers={"content-type": "application/json"})) as server:
        heard = await converse(make("openai", server.url))
    assert (heard.error, heard.text) == (None, "ok")


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_service_that_does_not_stream(name: str) -> None:
    bodies = {
        "openai": b'{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}',
        "anthropic": b'{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}',
    }
    async with chunk_server(Answer([bodies[name]], headers={"content-type": "application/json"})) as server:
        heard = await converse(make(name, server.url))
    assert (heard.error, heard.text) == (None, "ok")


async def test_nothing_after_the_last_word_counts() -> None:
    more = b'data: {"error":{"message":"too late"}}\n\n'
    async with chunk_server(Answer([TEXT, FINISHED, DONE, more]), Answer([TEXT + FINISHED + DONE + more])) as server:
        for _ in range(2):
            heard = await converse(make("openai", server.url))
            assert (heard.error, heard.text) == (None, "ok")


async def test_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def create_ssl_context() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(tmp_path / "gone.pem"))

    monkeypatch.setattr("agentwire.provider.http._tls_context", create_ssl_context)
    heard = await converse(make("openai", "https://example.test"))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("config", False)


async def test_an_event_without_end() -> None:
    chunks = [b"data: ", *[b"x" * 1024 * 1024] * 17]
    async with chunk_server(Answer(chunks)) as server:
        heard = await converse(make("openai", server.url))
    assert heard.error is not None
    assert (heard.error.kind, heard.error.retryable) == ("bad_reply", False)


@pytest.mark.parametrize("bad", [b"data: {nonsense\n\n", b'data: {"error":"x"}\n\n'])
async def test_nothing_is_left_behind_when_a_reply_is_given_up(bad: bytes) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with chunk_server(Answer([TEXT, bad, TEXT, TEXT], end=HANG)) as server:
            heard = Heard()
            provider = make("openai", server.url)
            with trio.fail_after(10):
                with pytest.raises(ProviderError):
                    await provider.complete(ask(), heard.hear)
                await server.requests[0].closed.wait()
            assert heard.text == "ok"
            gc.collect()
            await trio.testing.wait_all_tasks_blocked()
            await provider.aclose()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []


def test_httpx_is_imported_on_a_thread_at_the_first_request() -> None:
    program = """
import sys, threading, trio
from importlib.abc import MetaPathFinder
from agentwire.events import Text
from agentwire.messages import UserMessage
from agentwire.provider import ModelRequest, ProviderError, ProviderSettings
from agentwire_openai import provider

class Watch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("httpx", "httpcore", "h11"):
            print(name, threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Watch())

async def main():
    service = provider.create(ProviderSettings(base_url="http://127.0.0.1:9"))
    try:
        await service.complete(ModelRequest("m", [UserMessage([Text("x")])]), lambda event: None)
    except ProviderError as error:
        print(error.kind)
    await service.aclose()

trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["httpx", "False", "httpcore", "False", "h11", "False", "connect"]
