"""The server's life: started by the first request, shared, restarted, ended. With the stand-in, over real HTTP."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing
from gguf_files import TINY
from llama_world import World, ask, request, said
from support.agent_process import alive, gone, lines_of

from agentwire.events import CallRef, RequestSent
from agentwire.messages import AssistantMessage, ToolMessage, UserMessage
from agentwire.provider import Child, ConfigError, ProviderError, ProviderSettings, StreamEvent
from agentwire_llama import supervisor
from agentwire_llama.service import Llama

pytestmark = pytest.mark.slow


@pytest.fixture(name="world")
async def world_that_closes(world: World) -> AsyncIterator[World]:
    yield world
    for provider in world.providers:
        await provider.aclose()


async def test_nothing_runs_before_the_first_request(world: World) -> None:
    provider = world.provider()
    assert world.starts == []
    completion, text = await ask(provider)
    assert (completion.text, text) == ("Hello there", "Hello there")
    assert completion.usage.input_tokens == 7
    (start,) = world.starts
    assert start.argv == [
        "--model", str(world.model), "--alias", "tiny-f16", "--host", "127.0.0.1", "--ctx-size", "8192", "--jinja",
        "--port", str(start.port),
    ]  # fmt: skip
    assert world.requests[0]["path"] == "/v1/chat/completions"
    assert world.requests[0]["body"]["model"] == "tiny-f16"


async def test_what_is_recorded_of_a_request_names_us(world: World) -> None:
    heard: list[StreamEvent] = []
    provider = world.provider()
    await provider.complete(request(provider.model), heard.append)
    (sent,) = [event for event in heard if isinstance(event, RequestSent)]
    assert (sent.provider, sent.model) == ("llama", "tiny-f16")


async def test_one_server_for_all_requests(world: World) -> None:
    world.behave({"load": 0.3})
    provider = world.provider()
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask, provider)
    await ask(provider)
    assert len(world.starts) == 1
    assert len(world.requests) == 5


async def test_an_explicit_start_is_the_same_start(world: World) -> None:
    world.behave({"load": 0.2})
    provider = world.provider()
    await provider.start()
    await ask(provider)
    await provider.start()
    assert len(world.starts) == 1


async def test_a_stopped_turn_leaves_the_server_loading_for_the_next(world: World) -> None:
    world.behave({"gate": "gate"})
    provider = world.provider()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, provider)
        start = await world.started()
        nursery.cancel_scope.cancel()
    assert alive(start.pid)
    world.open()
    assert (await ask(provider))[1] == "Hello there"
    assert len(world.starts) == 1


async def test_of_two_waiting_turns_one_is_stopped(world: World) -> None:
    world.behave({"gate": "gate"})
    provider = world.provider()
    answers: list[str] = []

    async def turn(scope: trio.CancelScope) -> None:
        with scope:
            answers.append((await ask(provider))[1])

    first, second = trio.CancelScope(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn, first)
        await world.started()
        nursery.start_soon(turn, second)
        await trio.testing.wait_all_tasks_blocked(0.01)
        first.cancel()
        world.open()
    assert first.cancelled_caught
    assert answers == ["Hello there"]
    assert len(world.starts) == 1


async def test_waiting_is_told(world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentwire_llama.supervisor.PROGRESS_SECONDS", 0.1)
    world.behave({"load": 0.5})
    with caplog.at_level(logging.INFO, "agentwire.llama"):
        await ask(world.provider())
    texts = [record.message for record in caplog.records]
    assert f"loads tiny-f16 on port {world.starts[0].port}" in texts[0]
    assert "tiny-f16 is still loading (0 of at most 20 s)" in texts
    assert "tiny-f16 is ready after" in texts[-1]


async def test_never_healthy_is_given_up_with_the_last_words_of_the_log(world: World) -> None:
    world.behave({"load": 1000, "say": "load_tensors: failed to map the weights\nplease wait"}, {})
    provider = world.provider(startup_timeout=1.0)
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    assert caught.value.kind == "timeout"
    assert not caught.value.retryable
    assert "not ready within 1 s: load_tensors: failed to map the weights (log: " in caught.value.message
    assert not alive(world.starts[0].pid)
    assert (await ask(provider))[1] == "Hello there"  # the next turn tries anew


async def test_a_server_that_ends_between_turns_is_started_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    provider = world.provider()
    await ask(provider)
    await _killed(world.starts[0].pid, signal.SIGSEGV)
    assert (await ask(provider))[1] == "Hello there"
    assert len(world.starts) == 2
    assert "llama-server was ended by signal 11" in caplog.text
    assert "starting it again in 0.0 s (1 of 3)" in caplog.text


async def test_a_crash_in_the_stream_says_why_and_may_be_tried_again(world: World) -> None:
    world.behave({"die_after": 1}, {})
    provider = world.provider()
    heard: list[StreamEvent] = []
    with pytest.raises(ProviderError) as caught:
        await provider.complete(request(provider.model), heard.append)
    assert said(heard) == "Hello"
    assert (caught.value.kind, caught.value.retryable) == ("stream", True)
    assert caught.value.message == ("llama-server was ended by signal 9: ggml_abort: CUDA error: out of memory")
    assert (await ask(provider))[1] == "Hello there"
    assert len(world.starts) == 2


async def test_a_crash_under_many_requests(world: World) -> None:
    """Each of them either says why it failed, or was answered by the next server."""
    world.behave({"die_after": 1}, {})
    provider = world.provider()
    await provider.start()
    results: list[str] = []

    async def turn() -> None:
        try:
            results.append((await ask(provider))[1])
        except ProviderError as error:
            results.append(f"{error.message}, retryable: {error.retryable}")

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(turn)
    death = "llama-server was ended by signal 9: ggml_abort: CUDA error: out of memory, retryable: True"
    assert set(results) <= {"Hello there", death}
    assert death in results
    assert (await ask(provider))[1] == "Hello there"
    assert len(world.starts) == 2


async def test_crashes_in_every_stream_come_to_an_end(world: World) -> None:
    world.behave({"die_after": 1})
    provider = world.provider(restart_limit=1)
    for _ in range(2):
        with pytest.raises(ProviderError, match="ended by signal 9") as caught:
            await ask(provider)
        assert caught.value.retryable
    with pytest.raises(ProviderError, match="signal 9 2 times in a row without a reply: ggml_abort") as caught:
        await ask(provider)
    assert not caught.value.retryable
    assert len(world.starts) == 2


async def test_a_reply_forgives_what_was_before(world: World) -> None:
    world.behave({"die_after": 1}, {}, {"die_after": 1}, {})
    provider = world.provider(restart_limit=1)
    with pytest.raises(ProviderError):
        await ask(provider)
    assert (await ask(provider))[1] == "Hello there"
    await _killed(world.starts[1].pid)
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    assert caught.value.retryable


async def test_a_server_that_does_not_start_is_tried_so_often_and_no_more(world: World) -> None:
    world.behave({"say": "error: invalid magic characters: 'nope'\nmain: exiting", "exit": 3})
    provider = world.provider(restart_limit=2)
    began = time.monotonic()
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    assert time.monotonic() - began >= 0.02 + 0.04  # the delay doubles
    assert len(world.starts) == 3
    assert caught.value.message == (
        "llama-server ended with exit status 3 3 times in a row without a reply: "
        f"error: invalid magic characters: 'nope' (log: {world.log})"
    )
    assert not caught.value.retryable
    world.behave({})
    assert (await ask(provider))[1] == "Hello there"


async def test_an_argument_that_the_server_does_not_know(world: World) -> None:
    provider = world.provider(extra_args="--no-such 'thing'", restart_limit=0)
    with pytest.raises(ProviderError, match="exit status 1: error: invalid argument: --no-such"):
        await ask(provider)


async def test_the_program_is_no_program(world: World) -> None:
    world.binary.write_text("#!/nowhere/interpreter\n")
    with pytest.raises(ProviderError, match=r"llama-server ended with exit status 12[67]"):
        await ask(world.provider(restart_limit=0))


async def test_a_set_up_that_is_at_fault_by_now(world: World) -> None:
    provider = world.provider()
    world.model.write_bytes(TINY[:-1000])
    with pytest.raises(ProviderError, match="is cut off: 1000 bytes are missing: fetch it again") as caught:
        await ask(provider)
    assert caught.value.kind == "config"
    assert isinstance(caught.value.__cause__, ConfigError)
    world.model.write_bytes(TINY)
    assert (await ask(provider))[1] == "Hello there"


async def test_a_log_that_cannot_be_written(world: World) -> None:
    provider = world.provider(log_file=str(world.model / "server.log"))
    with pytest.raises(ProviderError, match=r"server\.log cannot be written: .*; set log_file") as caught:
        await ask(provider)
    assert caught.value.kind == "config"


async def test_a_log_that_cannot_be_written_any_more_costs_no_reply(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    provider = world.provider()
    await provider.start()
    world.log.unlink()
    (world.root / "elsewhere").symlink_to(world.root / "elsewhere")
    world.log.symlink_to(world.root / "elsewhere")
    assert (await ask(provider))[1] == "Hello there"
    assert "cannot be kept short" in caplog.text


async def test_a_request_that_is_refused_is_no_crash(world: World) -> None:
    world.behave({"refuse": 400}, {})
    provider = world.provider()
    for _ in range(2):
        with pytest.raises(ProviderError, match=r"API error 400 from .*: Failed to parse grammar"):
            await ask(provider)
    assert len(world.starts) == 1


async def test_every_start_has_a_free_port_and_a_key_of_its_own(world: World) -> None:
    provider = world.provider()
    await ask(provider)
    first = (world.root / "environ").read_text()
    await _killed(world.starts[0].pid)
    await ask(provider)
    assert (world.root / "environ").read_text() != first
    assert all(start.port > 1023 for start in world.starts)


async def test_a_port_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        provider = world.provider(port=port)
        with pytest.raises(ProviderError, match="cannot have port") as caught:
            await ask(provider)
        assert caught.value.kind == "config"
        assert [check.name for check in provider.checks() if not check.ok] == ["port"]
    assert (await ask(provider))[1] == "Hello there"  # it was given back
    assert world.starts[0].port == port


async def test_closing_while_it_loads(world: World) -> None:
    world.behave({"gate": "never"})
    provider = world.provider()
    async with trio.open_nursery() as nursery:

        async def turn() -> None:
            with pytest.raises(ProviderError, match="llama-server was stopped"):
                await ask(provider)

        nursery.start_soon(turn)
        nursery.start_soon(turn)
        start = await world.started()
        await provider.aclose()
    assert not alive(start.pid)
    assert len(world.starts) == 1


async def test_closing_while_it_is_about_to_be_started_again(world: World) -> None:
    world.behave({"exit": 1})
    provider = world.provider(restart_delay=100)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fails, provider)
            start = await world.started()
            await gone(start.pid, within=5)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await provider.aclose()
    assert len(world.starts) == 1


async def test_closing_in_the_moment_in_which_it_starts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = world.provider()
    real = supervisor.start_child

    async def start(*given: Any, **more: Any) -> Child:
        child = await real(*given, **more)
        await world.started()
        await provider.aclose()
        return child

    monkeypatch.setattr(supervisor, "start_child", start)
    with pytest.raises(ProviderError, match="was stopped"):
        await ask(provider)
    assert not alive(world.starts[0].pid)


async def test_closing_ends_the_whole_group_whatever_it_thinks_of_it(world: World) -> None:
    world.behave({"stubborn": True, "child": True})
    provider = world.provider()
    await ask(provider)
    (child,) = await lines_of(world.root / "children", 1)
    began = time.monotonic()
    await provider.aclose()
    assert time.monotonic() - began < 1.5
    assert not alive(world.starts[0].pid)
    assert not alive(int(child))


async def test_what_a_crashed_server_left_running_goes_too(world: World) -> None:
    world.behave({"child": True}, {})
    provider = world.provider()
    await ask(provider)
    (child,) = await lines_of(world.root / "children", 1)
    await _killed(world.starts[0].pid)
    await ask(provider)
    await gone(int(child), within=2)


async def test_closing_twice_and_without_a_server(world: World) -> None:
    provider = world.provider()
    await provider.aclose()
    await ask(provider)
    await provider.aclose()
    await provider.aclose()
    assert not alive(world.starts[0].pid)


async def test_no_secret_and_no_pipe_of_ours_reaches_it(world: World) -> None:
    hidden = {"OPENAI_API_KEY": "a", "HF_TOKEN": "b", "MY_PASSWORD": "c", "LLAMA_ARG_HOST": "0.0.0.0"}
    environ = {**world.environ, **hidden, "CUDA_VISIBLE_DEVICES": "0"}
    provider = Llama(ProviderSettings(environ=environ, options=world.options))
    world.providers.append(provider)
    await ask(provider)
    given = json.loads((world.root / "environ").read_text())
    assert not hidden.keys() & given.keys()
    assert given["CUDA_VISIBLE_DEVICES"] == "0"
    (start,) = world.starts
    assert os.getpgid(start.pid) == start.pid
    if os.path.isdir("/proc/self/fd"):
        targets = [os.readlink(f"/proc/{start.pid}/fd/{fd}") for fd in (0, 1, 2)]
        assert targets == ["/dev/null", str(world.log), str(world.log)]


async def test_the_log_is_kept_and_bounded(world: World) -> None:
    world.behave({"say": "\n".join(f"load_tensors: tensor {number}" for number in range(1000))})
    provider = world.provider(log_limit=4096)
    await ask(provider)
    await ask(provider)
    kept = world.log.read_text()
    assert 1024 < len(kept) <= 4096
    assert kept.startswith("load_tensors: tensor ")
    assert "load_tensors: tensor 999\n" in kept
    assert world.log.stat().st_mode & 0o077 == 0
    await provider.aclose()
    assert kept in world.log.read_text()
    assert "POST /v1/chat/completions" in world.log.read_text()


async def test_earlier_replies_go_back_as_the_reader_of_replies_made_them(world: World) -> None:
    """Their provider is `llama` in the log; what is sent back verbatim must not be lost for that."""
    provider = world.provider()
    items = [b'{"model":"tiny-f16","reasoning_content":true}']
    call = CallRef("c1", "Read", "{}")
    history = [
        UserMessage([]),
        AssistantMessage("", "because", [call], "llama", items),  # type: ignore[list-item]
        ToolMessage("c1", "Read", "text"),
    ]
    await ask(provider, "go on", *history)
    sent = world.requests[0]["body"]["messages"]
    assert next(message for message in sent if message["role"] == "assistant")["reasoning_content"] == "because"


async def test_another_model_file_is_refused(world: World) -> None:
    provider = world.provider()
    with pytest.raises(ProviderError, match=r"other\.gguf is not loaded"):
        await ask(provider, model="/models/other.gguf")
    assert world.starts == []
    await ask(provider, model=str(world.model.with_name("tiny-f16")).rpartition("/")[2])
    assert world.requests[0]["body"]["model"] == "tiny-f16"


async def _killed(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)
    await gone(pid, within=5)


async def _fails(provider: Llama) -> None:
    with pytest.raises(ProviderError, match="was stopped"):
        await ask(provider)
