"""What the provider tests share: providers by name, a request, and what was heard of its reply."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentwire.events import CallArgumentsDelta, CallStarted, ReasoningDelta, RequestSent, Text, TextDelta, Usage
from agentwire.messages import Message, UserMessage
from agentwire.provider import Completion, ModelRequest, Provider, ProviderError, ProviderSettings, StreamEvent
from agentwire_anthropic import provider as anthropic
from agentwire_openai import provider as openai

PLUGINS = {"openai": openai, "anthropic": anthropic}
KEY = "test-key-0123456789"

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in map(json.loads, (Path(__file__).parents[1] / "cases.jsonl").read_text().splitlines())
}


def make(name: str, url: str, **settings: Any) -> Provider:
    """A provider of that name for a server at ``url``."""
    return PLUGINS[name].create(ProviderSettings(**{"base_url": url, "api_key": KEY, **settings}))


def ask(*messages: Message, **fields: Any) -> ModelRequest:
    """A request; by default the user says hello."""
    return ModelRequest(
        **{"model": "test-model", "messages": list(messages) or [UserMessage([Text("Hello")])], **fields}
    )


def chunks_of(part: dict[str, Any]) -> list[bytes]:
    """The chunks of a case's reply as bytes."""
    decode = base64.b64decode if part.get("encoding") == "base64" else str.encode
    return [decode(chunk) for chunk in part["chunks"]]


@dataclass
class Heard:
    """Everything one request gave."""

    events: list[StreamEvent] = field(default_factory=list)
    """What was heard of the reply."""
    sent: list[RequestSent] = field(default_factory=list)
    """What was told of the request, before anything else."""
    completion: Completion | None = None
    error: ProviderError | None = None

    def hear(self, event: StreamEvent) -> None:
        """What a provider emits."""
        if isinstance(event, RequestSent):
            assert not self.events
            self.sent.append(event)
        else:
            self.events.append(event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def usages(self) -> list[Usage]:
        return [event for event in self.events if isinstance(event, Usage)]

    @property
    def shown_calls(self) -> list[tuple[str, str, str]]:
        """Id, name and joined arguments of the calls that were streamed."""
        return [
            (
                event.call_id,
                event.name,
                "".join(
                    e.delta for e in self.events if isinstance(e, CallArgumentsDelta) and e.call_id == event.call_id
                ),
            )
            for event in self.events
            if isinstance(event, CallStarted)
        ]


async def converse(provider: Provider, request: ModelRequest | None = None) -> Heard:
    """Send a request and listen to the end."""
    heard = Heard()
    try:
        heard.completion = await provider.complete(request or ask(), heard.hear)
    except ProviderError as error:
        heard.error = error
    finally:
        await provider.aclose()
    return heard
