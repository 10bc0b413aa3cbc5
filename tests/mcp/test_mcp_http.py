"""HTTP servers that fail: a hand-written one that answers what a test tells it to."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from mcp_testing import Told

from agentwire.mcp.errors import McpCallError, McpConnectError
from agentwire.mcp.manager import McpManager
from agentwire.mcp.spec import McpServerSpec

Respond = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One HTTP request, and the stream to answer on."""

    def __init__(self, stream: trio.SocketStream, method: str, headers: dict[str, str], body: bytes) -> None:
        self.stream = stream
        self.method = method
        self.headers = headers
        self.message: dict[str, Any] = json.loads(body) if body else {}

    async def reply(self, status: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)

    async def result(self, result: object, **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()
        await self.reply("200 OK", body, Content_Type="application/json", **headers)

    async def begin_events(self) -> None:
        await self.stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")

    async def event(self, kind: str, data: str) -> None:
        await self.stream.send_all(f"event: {kind}\ndata: {data}\n\n".encode())


class Service:
    """Listens on a port of its own and hands each request to ``respond``."""

    def __init__(self) -> None:
        self.calls = 0
        self.sessions = 0
        self.alive_session = ""
        self.respond: Respond = self.behave
        self.on_call: Respond = self.answer
        self.port = 0
        self.events: Exchange | None = None

    def spec(self, transport: str, **more: Any) -> McpServerSpec:
        return McpServerSpec(
            name="web", transport=transport, url=f"http://127.0.0.1:{self.port}/path/k3y?key=s3cret", **more
        )

    async def handle(self, stream: trio.SocketStream) -> None:
        async with stream:
            heard = b""
            while b"\r\n\r\n" not in heard:
                chunk = await stream.receive_some()
                if not chunk:
                    return
                heard += chunk
            head, _, body = heard.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            while len(body) < int(headers.get("content-length", "0")):
                body += await stream.receive_some()
            await self.respond(Exchange(stream, first.split()[0], headers, body))

    async def behave(self, exchange: Exchange) -> None:
        """A proper streamable-http server with a session, except for what ``on_call`` does."""
        method = exchange.message.get("method")
        if exchange.method == "DELETE":
            await exchange.reply("200 OK")
        elif exchange.method == "GET":
            await exchange.reply("405 Method Not Allowed")
        elif method == "initialize":
            self.sessions += 1
            self.alive_session = f"session-{self.sessions}"
            await exchange.result(greeting(exchange), Mcp_Session_Id=self.alive_session)
        elif exchange.headers.get("mcp-session-id") != self.alive_session:
            await exchange.reply("404 Not Found")
        elif "id" not in exchange.message:
            await exchange.reply("202 Accepted")
        elif method == "tools/list":
            await exchange.result({"tools": [{"name": "transfer", "inputSchema": {"type": "object"}}]})
        else:
            self.calls += 1
            await self.on_call(exchange)

    async def answer(self, exchange: Exchange) -> None:
        await exchange.result({"content": [{"type": "text", "text": "done"}]})

    async def sse(self, exchange: Exchange) -> None:
        """A proper sse server, except for what ``on_call`` does."""
        method = exchange.message.get("method")
        if exchange.method == "GET":
            self.events = exchange
            await exchange.begin_events()
            await exchange.event("endpoint", "/messages?session=1")
            await trio.sleep_forever()
        elif method == "tools/call":
            self.calls += 1
            await self.on_call(exchange)
        else:
            await exchange.reply("202 Accepted")
            if "id" in exchange.message:
                tools = {"tools": [{"name": "transfer", "inputSchema": {"type": "object"}}]}
                await self.push(exchange, greeting(exchange) if method == "initialize" else tools)

    async def push(self, exchange: Exchange, result: object) -> None:
        assert self.events is not None
        await self.events.event(
            "message", json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "result": result})
        )


def greeting(exchange: Exchange) -> dict[str, Any]:
    version = exchange.message["params"]["protocolVersion"]
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}


@pytest.fixture
async def service(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> Service:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Service()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made.port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, made.handle, listeners)
    return made


async def cause(manager: McpManager, spec: McpServerSpec) -> str:
    with trio.fail_after(5), pytest.raises(McpConnectError) as caught:
        await manager.connect(spec)
    assert "s3cret" not in caught.value.cause
    assert "k3y" not in caught.value.cause
    return caught.value.cause


def always(status: str) -> Respond:
    async def respond(exchange: Exchange) -> None:
        await exchange.reply(status)

    return respond


@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_nobody_listens(transport: str, manager: McpManager, service: Service) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    service.port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    text = await cause(manager, service.spec(transport))
    assert text.startswith(f"Transport error: http://127.0.0.1:{service.port}: ")
    assert "connect" in text


async def test_a_key_that_is_not_accepted(manager: McpManager, service: Service) -> None:
    service.respond = always("401 Unauthorized")
    where = f"http://127.0.0.1:{service.port}: HTTP 401 Unauthorized"
    assert await cause(manager, service.spec("sse")) == f"Transport error: {where}"
    text = await cause(manager, service.spec("streamable-http"))
    assert text == f"JSON-RPC error -32603: Server returned an error response ({where})"


async def test_an_event_stream_that_names_no_endpoint(manager: McpManager, service: Service) -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin_events()

    service.respond = respond
    where = f"http://127.0.0.1:{service.port}"
    expected = f"Transport error: {where}: the server named no endpoint for messages"
    assert await cause(manager, service.spec("sse")) == expected


async def test_messages_that_are_refused_while_the_event_stream_is_open(manager: McpManager, service: Service) -> None:
    """Nothing would ever be heard on the event stream; the timeout need not pass."""

    async def respond(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await service.sse(exchange)
        else:
            await exchange.reply("503 Service Unavailable")

    service.respond = respond
    where = f"http://127.0.0.1:{service.port}"
    expected = f"Transport error: {where}: HTTP 503 Service Unavailable"
    assert await cause(manager, service.spec("sse")) == expected


async def test_a_server_that_never_answers(manager: McpManager, service: Service) -> None:
    async def respond(exchange: Exchange) -> None:
        await trio.sleep_forever()

    service.respond = respond
    assert await cause(manager, service.spec("streamable-http", startup_timeout_ms=200)) == (
        "Transport error: MCP server 'web' startup timed out after 200ms; set startup_timeout_ms to increase it"
    )


async def hang_up(exchange: Exchange) -> None:
    await exchange.stream.aclose()


async def test_s_f03_streamable_http_a_socket_closed_without_a_response(
    manager: McpManager, told: Told, service: Service
) -> None:
    server = await manager.connect(service.spec("streamable-http"))
    service.on_call = hang_up
    with trio.fail_after(5), pytest.raises(McpCallError, match=r"transfer: connection closed \(MCP server 'web'"):
        await server.call("transfer", {})
    assert service.calls == 1
    service.on_call = service.answer
    answer = await server.call("transfer", {})
    assert answer["content"][0]["text"] == "done"
    assert (service.calls, service.sessions, told.failures) == (2, 2, [])


async def test_s_f03_streamable_http_an_event_stream_that_ends_too_soon(manager: McpManager, service: Service) -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin_events()

    server = await manager.connect(service.spec("streamable-http"))
    service.on_call = respond
    with trio.fail_after(5), pytest.raises(McpCallError, match="transfer: connection closed"):
        await server.call("transfer", {})
    assert service.calls == 1
    assert server.connected


async def test_s_f03_sse_the_event_stream_closes(manager: McpManager, told: Told, service: Service) -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.reply("202 Accepted")
        assert service.events is not None
        await service.events.stream.aclose()

    service.respond = service.sse
    server = await manager.connect(service.spec("sse"))
    service.on_call = respond
    with trio.fail_after(5), pytest.raises(McpCallError, match=r"transfer: connection closed \(MCP server 'web'"):
        await server.call("transfer", {})
    assert service.calls == 1
    assert told.failures == []


async def test_s_f03_sse_a_call_that_is_refused(manager: McpManager, service: Service) -> None:
    service.respond = service.sse
    server = await manager.connect(service.spec("sse"))
    service.on_call = always("500 Internal Server Error")
    with trio.fail_after(5), pytest.raises(McpCallError, match="HTTP 500 Internal Server Error"):
        await server.call("transfer", {})
    assert service.calls == 1


async def test_a_session_the_server_has_forgotten_is_opened_again(
    manager: McpManager, told: Told, service: Service
) -> None:
    """The call was not taken, so it may be sent again (streamable HTTP, session management)."""
    server = await manager.connect(service.spec("streamable-http"))
    service.alive_session = "restarted"
    answer = await server.call("transfer", {})
    assert answer["content"][0]["text"] == "done"
    assert (service.calls, service.sessions, told.failures) == (1, 2, [])


async def test_an_error_answer_is_an_error_answer(manager: McpManager, service: Service) -> None:
    async def respond(exchange: Exchange) -> None:
        error = {"code": -32000, "message": "out of coffee"}
        body = json.dumps({"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}).encode()
        await exchange.reply("200 OK", body, Content_Type="application/json")

    server = await manager.connect(service.spec("streamable-http"))
    service.on_call = respond
    with pytest.raises(McpCallError) as caught:
        await server.call("transfer", {})
    assert str(caught.value) == "JSON-RPC error -32000: out of coffee"
    assert server.connected
