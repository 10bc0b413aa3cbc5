"""What this wire asks of agents about sessions: modes, settings, the command line. Each play is a scripted host."""

from __future__ import annotations

from typing import Final

from agentwire.codec.kit import (
    COUNT,
    HELLO,
    RUN,
    UNIQUE,
    Again,
    Await,
    AwaitEnd,
    Say,
    Step,
    Transcript,
)
from agentwire.codec.patterns import (
    Absent,
    Bind,
    Given,
    Has,
    Joined,
)
from agentwire_aionrs.requirement_parts import (
    CAPABILITIES,
    MODES,
    PING,
    STOP,
    agent,
    began,
    error,
    message,
    pong,
    set_mode,
    turn,
)

_CHANGED: Final = Await({"type": "config_changed", "capabilities": CAPABILITIES}, "config_changed")


def _images(support: str) -> Await:
    capabilities = {**CAPABILITIES, "image_input": support}
    return Await({"type": "config_changed", "capabilities": capabilities}, f"config_changed, image_input {support}")


def _session(*arguments: str | Given | Joined) -> tuple[Step, ...]:
    """A session with one turn, then the program started anew."""
    return (
        Await(
            {"type": "ready", "session_id": Bind("session", "string")},
            "ready",
            unless={"type": "ready"},
            absent="no session_id is told: sessions are off",
        ),
        *turn(HELLO),
        Again(arguments),
    )


_FATAL: Final[tuple[Step, ...]] = (
    Await(
        {"type": "error", "msg_id": None, "error": {"code": "config_error", "message": Bind(kind="string"),
                                                    "retryable": False}},
        "error config_error",
        ({"type": "ready"},),
    ),
    AwaitEnd(fails=True),
)  # fmt: skip


_SAME: Final = Await(
    {"type": "ready", "session_id": Given("session")}, "ready with the same session_id", ({"type": "ready"},)
)


def _another(transcript: Transcript) -> str:
    given = transcript.given
    return "" if given["session"] != given["copy"] else "the copy has the session_id of the original"


SESSIONS: Final = (
    agent(
        "modes",
        "2.6",
        "every declared mode can be set, and config_changed tells it",
        *(
            step
            for mode in MODES
            for step in (
                Say({"type": "set_mode", "mode": mode}),
                Await({"type": "info"}, "info"),
                Await(
                    {"type": "config_changed", "capabilities": {**CAPABILITIES, "current_mode": mode}},
                    "config_changed",
                ),
            )
        ),
    ),
    agent(
        "yolo",
        "2.6",
        "in mode yolo nothing is asked",
        *set_mode("yolo"),
        message(RUN),
        Await(
            {"type": "tool_result", "msg_id": "m"},
            "tool_result",
            ({"type": "tool_request"},),
            unless={"type": "stream_end"},
            absent="the model called no tool",
        ),
    ),
    agent(
        "auto-edit",
        "2.6",
        "in mode auto_edit commands are still asked about",
        *set_mode("auto_edit"),
        message(RUN),
        Await(
            {"type": "tool_request", "msg_id": "m", "tool": {"category": "exec"}},
            "tool_request",
            ({"type": "tool_running"}, {"type": "tool_result"}),
            unless={"type": "stream_end"},
            absent="the model called no tool",
        ),
    ),
    agent(
        "back-to-default",
        "2.6",
        "in mode default everything is asked about again",
        *set_mode("yolo"),
        *set_mode("default"),
        message(RUN),
        Await(
            {"type": "tool_request", "msg_id": "m"},
            "tool_request",
            ({"type": "tool_running"}, {"type": "tool_result"}),
            unless={"type": "stream_end"},
            absent="the model called no tool",
        ),
    ),
    agent(
        "mode-in-turn",
        "2.6",
        "the mode can be set while a turn runs",
        message(COUNT),
        began(),
        Say({"type": "set_mode", "mode": "auto_edit"}),
        STOP,
        Await(
            {"type": "config_changed", "capabilities": {**CAPABILITIES, "current_mode": "auto_edit"}},
            "config_changed that tells the mode",
        ),
    ),
    agent(
        "effort",
        "2.7",
        "an effort level that is declared can be set",
        Say({"type": "set_config", "effort": "low"}),
        Await(
            {"type": "info", "message": Has("low")},
            "info that tells the level",
            ({"type": "info", "message": Has("not supported")}, {"type": "config_changed"}),
        ),
        greet=(
            Await(
                {"type": "ready", "capabilities": {"effort": True}},
                "ready",
                unless={"type": "ready"},
                absent="no effort is declared",
            ),
        ),
    ),
    agent(
        "thinking",
        "2.7",
        "thinking that is declared can be switched on",
        Say({"type": "set_config", "thinking": "enabled"}),
        Await({"type": "info", "message": Has("thinking")}, "info that tells of it", ({"type": "config_changed"},)),
        _CHANGED,
        greet=(
            Await(
                {"type": "ready", "capabilities": {"thinking": True}},
                "ready",
                unless={"type": "ready"},
                absent="no thinking is declared",
            ),
        ),
    ),
    agent(
        "config",
        "2.7",
        "set_config is acknowledged and followed by config_changed",
        Say({"type": "set_config", "model": "other"}),
        Await({"type": "info"}, "info", ({"type": "config_changed"},)),
        _CHANGED,
    ),
    agent(
        "config-empty",
        "2.7",
        "set_config that changes nothing is followed by config_changed, too",
        Say({"type": "set_config"}),
        _CHANGED,
    ),
    agent(
        "config-invalid",
        "2.7",
        "set_config with an effort level that does not exist is followed by config_changed, and the agent goes on",
        Say({"type": "set_config", "effort": "agentwire-none"}),
        _CHANGED,
        PING,
        pong(),
    ),
    agent(
        "config-in-turn",
        "2.7",
        "set_config while a turn runs is followed by config_changed, after the turn at the latest",
        message(COUNT),
        began(),
        Say({"type": "set_config", "compaction": "full"}),
        STOP,
        _CHANGED,
    ),
    agent(
        "images-unknown",
        "2.7",
        "set_config with a model and no image_input makes image_input unknown",
        Say({"type": "set_config", "model": "one", "image_input": "supported"}),
        _images("supported"),
        Say({"type": "set_config", "model": "two"}),
        _images("unknown"),
    ),
    agent(
        "history",
        "2.5",
        "init_history is taken before the first message, without an answer",
        Say({"type": "init_history", "text": "The user likes short answers."}),
        PING,
        pong({"type": Bind()}),
        *turn(HELLO),
    ),
    agent(
        "late-history",
        "2.5",
        "init_history after the first message is an error",
        *turn(HELLO),
        Say({"type": "init_history", "text": "x"}),
        Await(error(), "error"),
    ),
    # --- the command line ---
    agent(
        "session-id",
        "3.1",
        "--session-id names the session",
        greet=(
            Await(
                {"type": "ready", "session_id": UNIQUE},
                "ready with that session_id",
                ({"type": "ready", "session_id": Bind(kind="string")},),
                unless={"type": "ready", "session_id": Absent()},
                absent="no session_id is told: sessions are off",
            ),
        ),
        arguments=("--session-id", UNIQUE),
    ),
    agent(
        "session-taken",
        "3.1",
        "--session-id with an id that exists is fatal: an error, no ready, and a status that is not 0",
        *_session("--session-id", Given("session")),
        *_FATAL,
        greet=(),
    ),
    agent(
        "resume",
        "3.1",
        "--resume goes on with a session under the same session_id",
        *_session("--resume", Given("session")),
        Await(
            {"type": "ready", "session_id": Given("session")}, "ready with the same session_id", ({"type": "ready"},)
        ),
        *turn(HELLO, "m2"),
        greet=(),
    ),
    agent(
        "resume-latest",
        "3.1",
        "--resume latest goes on with the newest session",
        *_session("--resume", "latest"),
        Await(
            {"type": "ready", "session_id": Given("session")}, "ready with the same session_id", ({"type": "ready"},)
        ),
        greet=(),
    ),
    agent(
        "resume-unknown",
        "4.3",
        "--resume with an id that does not exist is fatal: an error, no ready, and a status that is not 0",
        *_FATAL,
        greet=(),
        arguments=("--resume", "agentwire-none"),
    ),
    agent(
        "fork",
        "3.1",
        "--fork-session goes on with a copy under a session_id of its own",
        *_session("--resume", Given("session"), "--fork-session"),
        Await({"type": "ready", "session_id": Bind("copy", "string")}, "ready with a session_id"),
        *turn(HELLO, "m2"),
        greet=(),
        check=_another,
    ),
    agent(
        "auto-approve",
        "5",
        "--auto-approve starts in mode yolo",
        greet=(
            Await(
                {"type": "ready", "capabilities": {"current_mode": "yolo"}}, "ready in mode yolo", ({"type": "ready"},)
            ),
        ),
        arguments=("--auto-approve",),
    ),
)
