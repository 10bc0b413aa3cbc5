"""What this wire asks of agents: how hosts converse, and what becomes of a message. Each play is a scripted host."""

from __future__ import annotations

from typing import Any, Final

from agentwire.codec.kit import (
    COUNT,
    DIRECTORY,
    HELLO,
    AgentBasics,
    Await,
    AwaitEnd,
    EndInput,
    Line,
    Say,
    Terminate,
    Transcript,
)
from agentwire.codec.patterns import (
    ANY,
    Bind,
    Has,
    Joined,
    OneOf,
)
from agentwire_aionrs.requirement_parts import (
    GREET,
    PING,
    READY,
    STOP,
    agent,
    began,
    ended,
    error,
    message,
    of,
    pong,
    turn,
)


def _question(token: str) -> tuple[Any, tuple[Any, ...]]:
    """An id comes back with whatever is said of its message."""
    line = {"type": "message", "msg_id": token, "content": HELLO}
    return line, ({"type": "stream_start", "msg_id": token}, {"type": "stream_end", "msg_id": token})


def _flood(token: str) -> tuple[Any, tuple[Any, ...]]:
    return {"type": "ping"}, ({"type": "pong"},)


BASICS: Final = AgentBasics(
    greet=GREET,
    question=_question,
    flood=_flood,
    prompt=turn,
    framing="1",
    ending="3.5",
    bad=(
        Line(
            "json", "a line that is not JSON is answered with an error, and the agent goes on", "4.1", b"{nope", error()
        ),
        Line(
            "value",
            "a line that is not an object is answered with an error, and the agent goes on",
            "4.1",
            [1],
            error(),
        ),
        Line(
            "bytes",
            "a line that is not UTF-8 is answered with an error, and the agent goes on",
            "4.1",
            b'{"type":"ping","a":"\xff"}',
            error(),
        ),
        Line(
            "type",
            "an unknown command is answered with an error that names it",
            "4.1",
            {"type": "agentwire_unknown"},
            error(message=Has("agentwire_unknown"), retryable=False),
        ),
        Line(
            "key",
            "a command without a required key is answered with an error",
            "4.1",
            {"type": "message", "content": "x"},
            error(),
        ),
        Line(
            "mode",
            "a mode that does not exist is answered with an error",
            "2.6",
            {"type": "set_mode", "mode": "autoEdit"},
            error(),
        ),
        Line(
            "more", "unknown keys of a command are ignored", "6", {"type": "ping", "later": {"a": 1}}, {"type": "pong"}
        ),
        Line(
            "huge",
            "a line of 9 MB is answered with an error or read, and the agent goes on",
            "4.1",
            {"type": "ping"},
            OneOf((error(), {"type": "pong"})),
            "should",
            9_000_000,
        ),
        Line("blank", "a blank line is ignored", "2", b"", level="should"),
    ),
)


def _first_is_ready(transcript: Transcript) -> str:
    first = transcript.of("agent")[0]
    return "" if first.get("type") == "ready" else f"the first line is {first.get('type')!r}"


REQUIREMENTS: Final = (
    agent(
        "ready",
        "1.1",
        "ready tells the version and all eight capabilities",
        greet=(Await(READY, "ready with all of its keys"),),
        check=_first_is_ready,
    ),
    agent(
        "turn",
        "3.2",
        "a message is one stream_start and one stream_end with the usage, and nothing after it",
        message(HELLO),
        began(),
        Await(
            {
                "type": "stream_end",
                "msg_id": "m",
                "usage": {"input_tokens": Bind(kind="number"), "output_tokens": Bind(kind="number")},
            },
            "stream_end with usage",
            ({"type": "stream_start"}, {"type": "stream_end"}),
        ),
        PING,
        pong(of()),
    ),
    agent(
        "text",
        "1.3",
        "the answer comes as text_delta with the id of its message",
        message(HELLO),
        began(),
        Await(
            {"type": "text_delta", "text": Bind(kind="string"), "msg_id": "m"}, "text_delta", ({"type": "stream_end"},)
        ),
    ),
    agent("second-turn", "3.2", "messages are answered one after the other", *turn(HELLO, "m1"), *turn(HELLO, "m2")),
    agent(
        "ping",
        "2.9",
        "ping is answered at once, also while a turn runs",
        message(COUNT),
        began(),
        PING,
        pong({"type": "stream_end"}),
    ),
    agent(
        "stop",
        "2.2",
        "stop ends the turn with its stream_end, and the process lives on",
        message(COUNT),
        began(),
        STOP,
        ended(),
        PING,
        pong(of()),
        *turn(HELLO, "m2"),
    ),
    agent(
        "idle-stop",
        "2.2",
        "stop without a turn says nothing, and the process lives on",
        STOP,
        PING,
        pong({"type": ANY}),
        *turn(HELLO),
    ),
    agent(
        "busy",
        "2.1",
        "a message while a turn runs is refused under its id and starts nothing",
        message(COUNT),
        began(),
        message(HELLO, "m2"),
        Await(error("m2"), "error", ({"type": "stream_start"}, {"type": "stream_end"})),
        PING,
        pong(of("m2")),
        level="should",
    ),
    agent(
        "files",
        "2.1",
        "a message that names files is answered like any",
        Say({"type": "message", "msg_id": "m", "content": HELLO, "files": [Joined((DIRECTORY, "/agentwire.txt"))]}),
        began(),
        ended(),
    ),
    agent(
        "end-in-turn",
        "3.5",
        "a turn that runs at the end of input comes to its end",
        message(HELLO),
        EndInput(),
        began(),
        ended(),
        AwaitEnd(0),
        level="should",
    ),
    agent("terminate", "3.5", "SIGTERM ends the process, status 0", Terminate(), AwaitEnd(0), level="should"),
)
