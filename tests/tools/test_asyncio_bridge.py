"""asyncio code called from trio."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable

import pytest
import trio

from agentwire import asyncio_bridge
from agentwire.asyncio_bridge import on_asyncio


async def test_values_and_errors_come_back() -> None:
    @on_asyncio
    async def divide(a: float, *, by: float) -> float:
        """Divide."""
        await asyncio.sleep(0)
        return a / by

    assert await divide(6, by=3) == 2
    with pytest.raises(ZeroDivisionError):
        await divide(6, by=0)
    assert divide.__doc__ == "Divide."


async def test_a_function_that_returns_an_awaitable() -> None:
    def later(value: int) -> Awaitable[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.get_loop().call_later(0.01, future.set_result, value)
        return future

    assert await on_asyncio(later)(7) == 7


async def test_all_calls_share_one_loop_in_one_thread() -> None:
    @on_asyncio
    async def where() -> tuple[int, int]:
        return id(asyncio.get_running_loop()), threading.get_ident()

    first = await where()
    assert await where() == first
    assert first[1] != threading.get_ident()


async def test_calls_run_at_the_same_time() -> None:
    barrier: list[asyncio.Barrier] = []

    @on_asyncio
    async def meet() -> None:
        if not barrier:
            barrier.append(asyncio.Barrier(3))
        await barrier[0].wait()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(meet)


async def test_context_variables_go_in_and_stay_there() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")

    @on_asyncio
    async def change() -> str:
        seen = variable.get()
        variable.set("theirs")
        return seen

    variable.set("mine")
    assert await change() == "mine"
    assert variable.get() == "mine"


async def test_cancelling_cancels_and_waits() -> None:
    started, story = trio.Event(), []
    token = trio.lowlevel.current_trio_token()

    @on_asyncio
    async def work() -> None:
        token.run_sync_soon(started.set)
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
            story.append("tidied")
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await started.wait()
        nursery.cancel_scope.cancel()
    assert story == ["tidied"]


async def test_a_call_that_is_cancelled_before_it_begins() -> None:
    begun: list[str] = []

    @on_asyncio
    async def work() -> None:
        begun.append("work")
        await asyncio.sleep(300)

    with trio.fail_after(5), trio.CancelScope() as scope:
        scope.cancel()
        await work()
    assert scope.cancelled_caught


async def test_a_task_that_does_not_want_to_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asyncio_bridge, "CANCEL_WAIT", 0.05)
    token, started = trio.lowlevel.current_trio_token(), trio.Event()
    release: list[asyncio.Event] = []

    @on_asyncio
    async def stubborn() -> None:
        release.append(asyncio.Event())
        token.run_sync_soon(started.set)
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            await release[0].wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stubborn)
        await started.wait()
        nursery.cancel_scope.cancel()
    assert "did not end within 0.05 s" in caplog.text
    asyncio_bridge._loop().submit(release[0].set)


async def test_an_error_while_tidying_up_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    token, started = trio.lowlevel.current_trio_token(), trio.Event()

    @on_asyncio
    async def clumsy() -> None:
        token.run_sync_soon(started.set)
        try:
            await asyncio.sleep(300)
        finally:
            raise ValueError("dropped it")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clumsy)
        await started.wait()
        nursery.cancel_scope.cancel()
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.exc_info
    assert isinstance(record.exc_info[1], ValueError)


async def test_asyncio_code_that_cancels_itself() -> None:
    @on_asyncio
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled its own task"):
        await give_up()


async def test_generators_run_in_step() -> None:
    story: list[str] = []

    @on_asyncio
    async def count(end: int) -> AsyncIterator[int]:
        for n in range(end):
            story.append(f"make {n}")
            await asyncio.sleep(0)
            yield n
        story.append("end")

    async for n in count(3):
        await trio.sleep(0.01)
        story.append(f"use {n}")
    assert story == ["make 0", "use 0", "make 1", "use 1", "make 2", "use 2", "end"]
    assert [n async for n in count(0)] == []


async def test_a_generator_that_fails() -> None:
    @on_asyncio
    async def fail() -> AsyncIterator[int]:
        yield 1
        raise ValueError("no more")

    got: list[int] = []
    with pytest.raises(ValueError, match="no more"):  # noqa: PT012 - the loop is what raises
        async for n in fail():
            got.append(n)
    assert got == [1]


@pytest.mark.parametrize("way", ["break", "cancel", "raise"])
async def test_a_generator_that_is_left_early_is_closed(way: str) -> None:
    closed = threading.Event()
    tasks: set[object] = set()

    @on_asyncio
    async def endless() -> AsyncIterator[int]:
        tasks.add(asyncio.current_task())
        try:
            for n in range(1_000_000):
                if n == 2 and way == "cancel":
                    await asyncio.sleep(300)
                yield n
        finally:
            tasks.add(asyncio.current_task())
            closed.set()

    with contextlib.suppress(ZeroDivisionError), trio.move_on_after(0.2 if way == "cancel" else 60):
        async with contextlib.aclosing(endless()) as numbers:
            async for n in numbers:
                if way == "break" and n == 3:
                    break
                if way == "raise":
                    raise ZeroDivisionError
    assert closed.is_set()
    assert len(tasks) == 1, "all of it runs in one task, as asyncio's timeouts demand"


async def test_nothing_is_left_of_many_calls() -> None:
    @on_asyncio
    async def nothing() -> None:
        await asyncio.sleep(0)

    for _ in range(20):
        await nothing()
    gc.collect()
    # The loop's thread may still have the last one at hand.
    assert sum(type(one) is asyncio_bridge._Task for one in gc.get_objects()) <= 1


def test_several_trio_programs_may_use_it_one_after_the_other() -> None:
    @on_asyncio
    async def double(n: int) -> int:
        return 2 * n

    results: list[int] = []

    def program() -> None:
        results.extend(trio.run(double, n) for n in range(3))

    thread = threading.Thread(target=program)
    thread.start()
    thread.join(10)
    assert results == [0, 2, 4]


PROGRAM = """
import sys, trio
from agentwire.asyncio_bridge import on_asyncio
assert "asyncio" not in sys.modules

async def work():
    import asyncio
    asyncio.get_running_loop().background = asyncio.ensure_future(asyncio.sleep(300))
    return "asyncio" in sys.modules

print(trio.run(on_asyncio(work)))
"""


def test_asyncio_is_imported_with_the_first_call_and_the_process_ends_quietly() -> None:
    done = subprocess.run([sys.executable, "-X", "dev", "-c", PROGRAM], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"True\n", b"")
