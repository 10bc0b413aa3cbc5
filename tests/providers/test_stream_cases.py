"""The known failures of provider streams, each over a real connection, chunk by chunk."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio
from chunk_server import Answer, ChunkServer, chunk_server
from conversing import CASES, Heard, ask, chunks_of, converse, make
from msgspec import UNSET

from agentwire.provider import ProviderError

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}

STREAMS = [case for case in CASES.values() if case["input"]["kind"] == "sse_chunks"]


def test_every_stream_case_has_a_provider() -> None:
    assert len(STREAMS) == 18
    assert {case["input"]["provider"] for case in STREAMS} == {"openai", "anthropic"}


def check(heard: Heard, expected: dict[str, Any]) -> None:
    if "text" in expected:
        assert heard.text == expected["text"]
    if "thinking" in expected:
        assert heard.thinking == expected["thinking"]
    if expected["stop_reason"] == "error":
        assert heard.completion is None
        check_error(heard.error, expected["error"])
        return
    assert heard.error is None
    completion = heard.completion
    assert completion is not None
    assert (completion.text, completion.reasoning) == (heard.text, heard.thinking)
    assert STOP_REASONS[completion.finish_reason] == expected["stop_reason"]
    if "tool_calls" in expected:
        calls = [
            {"id": call.call_id, "name": call.name, "arguments": msgspec.json.decode(call.arguments_text)}
            for call in completion.calls
        ]
        assert calls == expected["tool_calls"]
        assert [(call.call_id, call.name) for call in completion.calls] == [call[:2] for call in heard.shown_calls]
        assert [call.arguments_text for call in completion.calls] == [call[2] or "{}" for call in heard.shown_calls]
    if "usage" in expected:
        assert completion.usage is not UNSET
        assert {name: getattr(completion.usage, name) for name in expected["usage"]} == expected["usage"]
        assert heard.usages[-1] == completion.usage


def check_error(error: ProviderError | None, expected: dict[str, Any]) -> None:
    assert error is not None
    assert error.retryable is expected["retryable"]
    for part in expected.get("message_contains", []):
        assert part in error.message


async def play(server: ChunkServer, case: dict[str, Any], chunks: list[bytes]) -> Heard:
    given = case["input"]
    server.answers.append(Answer(chunks, given["http"]["status"], given["http"]["headers"], given["end"]))
    return await converse(make(given["provider"], server.url))


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case["id"])
async def test_case(case: dict[str, Any]) -> None:
    chunks = chunks_of(case["input"])
    async with chunk_server() as server:
        check(await play(server, case, chunks), case["expect"]["result"])
        # However the network cuts it, it is the same reply.
        whole = b"".join(chunks)
        check(await play(server, case, [whole]), case["expect"]["result"])
        check(await play(server, case, [whole[i : i + 7] for i in range(0, len(whole), 7)]), case["expect"]["result"])


async def test_s_a03_one_byte_per_chunk() -> None:
    case = CASES["S-a03"]
    whole = b"".join(chunks_of(case["input"]))
    async with chunk_server() as server:
        check(await play(server, case, [bytes([byte]) for byte in whole]), case["expect"]["result"])


async def test_s_a05_first_text_before_the_second_chunk() -> None:
    case = CASES["S-a05"]
    heard, first = Heard(), trio.Event()

    def before(number: int) -> Any:
        return first.wait() if number == 1 else None

    def emit(event: Any) -> None:
        heard.hear(event)
        if heard.text:
            first.set()

    async with chunk_server(Answer(chunks_of(case["input"]), before_chunk=before)) as server:
        provider = make("openai", server.url)
        with trio.fail_after(10):
            await provider.complete(ask(), emit)
        await provider.aclose()
    assert heard.text == "crlf"


@pytest.mark.parametrize("variant", CASES["S-a06"]["expect"]["variants"])
async def test_s_a06_error_envelopes(variant: str) -> None:
    async with chunk_server(Answer([variant.encode() + b"\n\n", b"data: [DONE]\n\n"])) as server:
        heard = await converse(make("openai", server.url))
    check_error(heard.error, {"retryable": False, "message_contains": ["plain" if "plain" in variant else "no code"]})
    assert heard.error is not None
    assert heard.error.kind == "stream"


@pytest.mark.parametrize("field", ["reasoning_content", "both"])
async def test_s_a16_other_names(field: str) -> None:
    case = CASES["S-a16"]
    chunks = chunks_of(case["input"])
    if field == "both":
        pieces = [chunk.replace(b'"reasoning":"', b'"reasoning_content":@,"reasoning":"') for chunk in chunks]
        said = [chunk.partition(b'"reasoning":')[2].partition(b",")[0] for chunk in chunks]
        chunks = [piece.replace(b"@", text) for piece, text in zip(pieces, said, strict=True)]
    else:
        chunks = [chunk.replace(b'"reasoning":', b'"reasoning_content":') for chunk in chunks]
    async with chunk_server() as server:
        check(await play(server, case, chunks), case["expect"]["result"])


async def test_s_a23_unknown_finish_reason() -> None:
    case = CASES["S-a23"]
    chunks = [chunk.replace(b'"stop"', b'"eos"') for chunk in chunks_of(case["input"])]
    async with chunk_server() as server:
        heard = await play(server, case, chunks)
    assert heard.completion is not None
    assert (heard.text, heard.completion.finish_reason) == ("Done", "eos")


async def test_s_b05_half_a_surrogate_pair_from_the_model() -> None:
    data = CASES["S-b05"]["input"]["provider_script"][0]["sse_data"]
    chunks = [f"data: {item}\n\n".encode() for item in data]
    async with chunk_server(Answer(chunks)) as server:
        heard = await converse(make("openai", server.url))
    assert heard.text == "half \ufffd pair"
    assert heard.error is None
