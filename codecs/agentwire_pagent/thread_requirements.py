"""What v4 asks of agents about threads and the set-up. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    HELLO,
    Again,
    Await,
    Play,
    Requirement,
    Say,
    Step,
    Transcript,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Given,
    Holds,
    Joined,
)
from agentwire_pagent.requirement_parts import FENCE, GREET_V4, hears, maker, told, turn

_SAID: Final = Holds(({"role": "user", "text": HELLO},))


def _replay(*never: str, thread: Any = ANY, messages: Any = _SAID) -> Await:
    return hears("HistoryReplay", *never, thread_id=thread, messages=messages)


_ONE_RUN: Final[tuple[Step, ...]] = (
    *turn(HELLO),
    Say({"cmd": "history"}),
    _replay(thread=Bind("thread", "string")),
)
"""A thread with one run; its id is remembered."""

_RESUME: Final = Say({"cmd": "resume", "thread_id": Given("thread")})
_LIST: Final = Say({"cmd": "list_threads"})
_LISTED: Final = Await(
    told("ThreadList", threads=Holds(({"id": Given("thread")},))),
    "ThreadList with the thread",
    unless=told("ThreadList"),
    absent="threads are not kept",
)
_make: Final = maker(GREET_V4)


def _gone(transcript: Transcript) -> str:
    lists = [value["params"]["threads"] for value in transcript.of("agent") if value.get("method") == "ThreadList"]
    listed = [thread.get("id") for thread in lists[-1]]
    return "the thread is still listed" if transcript.given["thread"] in listed else ""


THREADS: Final = (
    _make("history", "8", "history is replayed in one notification, with what the user said", *_ONE_RUN),
    _make(
        "threads",
        "8",
        "list_threads is answered with ThreadList",
        _LIST,
        hears("ThreadList", threads=Bind(kind="array")),
    ),
    _make("listed", "8", "a thread with a run is among those that are listed", *_ONE_RUN, _LIST, _LISTED),
    _make(
        "meta",
        "8",
        "thread_meta tells what is known of a thread",
        *_ONE_RUN,
        _LIST,
        _LISTED,
        Say({"cmd": "thread_meta", "thread_id": Given("thread")}),
        hears("ThreadMeta", thread_id=Given("thread"), meta=Bind(kind="object")),
    ),
    _make(
        "reset",
        "8",
        "reset begins a thread that is empty",
        *_ONE_RUN,
        Say({"cmd": "reset"}),
        _replay(messages=[]),
        *turn(HELLO),
    ),
    _make(
        "resume",
        "8",
        "resume takes a thread up again, and replays it",
        *_ONE_RUN,
        _LIST,
        _LISTED,
        Say({"cmd": "reset"}),
        _replay(messages=[]),
        _RESUME,
        _replay("RunBegin", thread=Given("thread")),
        *turn(HELLO),
    ),
    _make(
        "resume-again",
        "8",
        "resume takes up the thread of an earlier process",
        *_ONE_RUN,
        _LIST,
        _LISTED,
        Again(),
        hears("SlashCommands"),
        _RESUME,
        _replay("RunBegin", thread=Given("thread")),
        *turn(HELLO),
    ),
    _make(
        "resume-unknown",
        "8",
        "resume of a thread that does not exist is an Error, and the next run begins",
        Say({"cmd": "resume", "thread_id": "agentwire-none"}),
        hears("Error", "RunBegin", message=Bind(kind="string"), where=Bind(kind="string")),
        *turn(HELLO),
        level="should",
    ),
    _make(
        "delete",
        "8",
        "a thread that is deleted is listed no more",
        *_ONE_RUN,
        _LIST,
        _LISTED,
        Say({"cmd": "delete_thread", "thread_id": Given("thread")}),
        hears("ThreadList", threads=Bind(kind="array")),
        check=_gone,
    ),
    # --- the set-up ---
    _make(
        "commands-again",
        "8",
        "commands is answered with SlashCommands",
        Say({"cmd": "commands"}),
        hears("SlashCommands", commands=Bind(kind="array")),
    ),
    Requirement(
        "slash",
        "agent",
        "8",
        "an input that is a slash command which is told is carried out, and begins no run",
        Play(
            "slash",
            (
                Await(
                    told("SlashCommands", commands=Holds(({"name": Bind("command", "string")},))),
                    "SlashCommands",
                    unless=told("SlashCommands"),
                    absent="no slash commands are told",
                ),
                Say({"cmd": "user", "text": Joined(("/", Given("command")))}),
                hears("SlashResult", "RunBegin", name=Given("command")),
            ),
        ),
    ),
    _make(
        "capabilities",
        "8",
        "capabilities is answered with the tools and the skills",
        FENCE,
        hears("Capabilities", tools=Bind(kind="array"), skills=Bind(kind="array")),
    ),
    _make(
        "config",
        "8",
        "get_config is answered with ConfigSnapshot",
        Say({"cmd": "get_config"}),
        hears("ConfigSnapshot", provider=Bind(kind="object")),
        level="should",
    ),
)
