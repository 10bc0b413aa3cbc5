"""A model service's stream, read and understood by a provider: CPU time of the client for each delta.

The references are the services' own SDKs on asyncio, which is where they are at home, with everything that comes
before the first byte (imports, connection) paid before the clock starts, as for ours. OpenAI's gives its chunks and
nothing more. Anthropic's is used as ours is: a stream of events, and the whole message at its end; the notes tell what
its events alone cost (much of which is httpx, for them and for us).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import thread_time
from typing import Any

import anthropic
import openai
import trio

from agentwire.events import Text, TextDelta
from agentwire.messages import UserMessage
from agentwire.provider import ModelRequest, ProviderPlugin, ProviderSettings
from agentwire_anthropic import provider as our_anthropic
from agentwire_openai import provider as our_openai
from benchmarks.report import Figure
from benchmarks.services import model_service, prompt
from benchmarks.timing import Effort, interleave


def measure(effort: Effort) -> Iterator[Figure]:
    """Both services that have an SDK."""
    many, some = effort.size(20_000), effort.size(3_000)
    with model_service() as url:
        costs = interleave(
            {
                "openai": lambda: trio.run(_ours, our_openai, url, many),
                "openai SDK": lambda: asyncio.run(_openai_sdk(url, some)),
                "anthropic": lambda: trio.run(_ours, our_anthropic, url, many),
                "anthropic SDK": lambda: asyncio.run(_anthropic_sdk(url, some, whole=True)),
                "anthropic SDK, events alone": lambda: asyncio.run(_anthropic_sdk(url, some, whole=False)),
            },
            effort,
        )
    for name, goal in (("openai", 7.0), ("anthropic", 5.0)):
        yield Figure(
            what=f"provider stream alone, {name}, deltas/s of CPU",
            reference=f"{name} SDK",
            measured=costs.ratio(f"{name} SDK", name),
            goal=goal,
            sense="at least",
            notes=[
                f"{client}: {costs.median(client) * 1e6:.1f} us a delta, {costs.ratio(client, name).median:.2f} x"
                for client in costs.rounds
                if client.startswith(name)
            ],
        )


async def _ours(plugin: ProviderPlugin, url: str, count: int) -> float:
    """CPU seconds per delta."""
    provider = plugin.create(ProviderSettings(model="test-model", base_url=url, api_key="sk-none"))

    async def complete(count: int) -> int:
        heard: list[Any] = []
        request = ModelRequest("test-model", [UserMessage([Text(prompt(count))])])
        await provider.complete(request, heard.append)
        return sum(type(event) is TextDelta for event in heard)

    await complete(1)
    began = thread_time()
    found = await complete(count)
    spent = thread_time() - began
    await provider.aclose()
    return _checked(spent, found, count)


async def _openai_sdk(url: str, count: int) -> float:
    """CPU seconds per delta."""
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-none")

    async def complete(count: int) -> int:
        found = 0
        stream = await client.chat.completions.create(
            model="test-model", messages=[{"role": "user", "content": prompt(count)}], stream=True
        )
        async for chunk in stream:
            found += bool(chunk.choices and chunk.choices[0].delta.content)
        return found

    await complete(1)
    began = thread_time()
    found = await complete(count)
    spent = thread_time() - began
    await client.close()
    return _checked(spent, found, count)


async def _anthropic_sdk(url: str, count: int, *, whole: bool) -> float:
    """CPU seconds per delta."""
    client = anthropic.AsyncAnthropic(base_url=url, api_key="sk-none")

    async def complete(count: int) -> int:
        asked: Any = {
            "model": "test-model", "max_tokens": 9, "messages": [{"role": "user", "content": prompt(count)}],
        }  # fmt: skip
        if not whole:
            events = await client.messages.create(**asked, stream=True)
            return sum([event.type == "content_block_delta" async for event in events])
        async with client.messages.stream(**asked) as stream:
            found = sum([event.type == "content_block_delta" async for event in stream])
            await stream.get_final_message()
        return found

    await complete(1)
    began = thread_time()
    found = await complete(count)
    spent = thread_time() - began
    await client.close()
    return _checked(spent, found, count)


def _checked(spent: float, found: int, count: int) -> float:
    if found != count:
        raise AssertionError(f"{found} deltas of {count} were heard")
    return spent / count
