"""Serving a codec over standard input and output: from options to exit status.

The order matters. The pipes are taken over first, so that nothing imported later can write to them. The session is
opened and its first line written with plain code; only then is the event loop, and what runs turns, imported: a host
sees the agent ready in a third of the time.
"""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, Any, Literal

from agentwire import logs, registry
from agentwire.commands import Refusal
from agentwire.options import ServeOptions
from agentwire.provider.contract import ConfigError
from agentwire.server.outbox import Outbox
from agentwire.setup import Boot, Setup
from agentwire.store import StoreError
from agentwire.transport.stdio import StdioPipes, claim

if TYPE_CHECKING:
    from agentwire.codec.contract import AgentSide, Codec
    from agentwire.recording import Recorder

logger = logging.getLogger("agentwire.serve")

STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end the process in good order."""

FAILED = 1
USAGE = 2


def serve(agent: Any = None, options: ServeOptions | None = None, **fields: Any) -> int:
    """Serve ``agent`` (None: the built-in one) on this process's standard input and output until the host is gone.

    Options are a :class:`ServeOptions` or its fields as keywords: ``serve(agent, codec="aionrs")``. The exit status:
    0 after an orderly end, 1 if the process could not start (the host is told in its wire's own form, a person in
    one line on standard error).
    """
    options = options or ServeOptions(**fields)
    stopping = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _leave) for number in stopping}
    try:
        pipes = claim()
        logs.configure(options.log_level, options.log_format)
        return _serve(agent, options, pipes, stopping)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _serve(agent: Any, options: ServeOptions, pipes: StdioPipes, stopping: list[signal.Signals]) -> int:
    try:
        codec = registry.load_codec(options.codec)
        _check_options(codec, options.codec_options)
        side = _agent_side(codec, options.codec_options)
    except (registry.UnknownName, ConfigError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return USAGE
    except Exception as error:  # a foreign codec that cannot be loaded: no wire to tell the host on
        logger.exception("the codec %s could not be loaded", options.codec)
        print(f"Error: the codec '{options.codec}' cannot be loaded: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    try:
        _check_sessions(codec, options)
        recorder = _record(options, codec, pipes)
    except ConfigError as error:
        return _fatal(pipes, side, str(error))
    try:
        return _open_and_run(agent, options, codec, side, pipes, stopping, recorder)
    finally:
        if recorder is not None:
            recorder.close()


def _record(options: ServeOptions, codec: Codec, pipes: StdioPipes) -> Recorder | None:
    if not options.record:
        return None
    from agentwire.recording import Recorder, RecordingError

    try:
        recorder = Recorder(options.record, codec.name, role="serve")
    except RecordingError as error:
        raise ConfigError(str(error)) from None
    pipes.heard, pipes.written = recorder.host, recorder.agent
    return recorder


def _open_and_run(
    agent: Any,
    options: ServeOptions,
    codec: Codec,
    side: AgentSide,
    pipes: StdioPipes,
    stopping: list[signal.Signals],
    recorder: Recorder | None,
) -> int:
    try:
        setup = Setup(options, codec.policy, agent)
        if recorder is not None:
            _witness(setup, recorder)
        boot = setup.at_start() if codec.sessions == "one" else None
        if boot is None and codec.begin is None and options.provider and (problem := setup.problem()):
            logger.warning("no session can be opened: %s", problem)
    except (ConfigError, StoreError) as error:
        return _fatal(pipes, side, str(error))
    except Exception as error:  # a foreign plugin, or a bug: the host is told all the same
        logger.exception("the session could not be opened")
        return _fatal(pipes, side, f"The session could not be opened: {type(error).__name__}: {error}", "internal")
    outbox = Outbox(side, feeds=codec.feeds)
    if boot is not None and not _greet(boot, outbox, pipes):
        return 0
    return _run(setup, boot, codec, outbox, pipes, stopping)


def _witness(setup: Setup, recorder: Recorder) -> None:
    """Record what models and tools give, beside the wire."""
    from agentwire.agent.witness import Witness

    setup.witness = Witness(recorder)
    setup.witness.begins(setup.described())


def _agent_side(codec: Codec, given: dict[str, Any]) -> AgentSide:
    """Raises :class:`ConfigError` for options whose values the codec does not take."""
    try:
        return codec.agent(**given)
    except (ValueError, TypeError) as error:
        if not given:
            raise
        logger.debug("the codec %s refused its options", codec.name, exc_info=True)
        raise ConfigError(f"The codec '{codec.name}' refuses its options: {error}") from error


def check_options(codec: Codec, options: ServeOptions) -> None:
    """Raise :class:`ConfigError` for options that the codec does not have or take, and for a word about the process's
    one session where there is none."""
    _check_options(codec, options.codec_options)
    _agent_side(codec, options.codec_options)
    _check_sessions(codec, options)


def _check_options(codec: Codec, given: dict[str, Any]) -> None:
    """Raise :class:`ConfigError` for an option that the codec does not have."""
    if given:
        from inspect import Parameter, signature

        known = signature(codec.agent).parameters
        unknown = [name for name in given if name not in known]
        if unknown and not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values()):
            if unknown[0] in _WORDS:
                raise ConfigError(f"The codec '{codec.name}' takes no {_WORDS[unknown[0]]}")
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"The codec '{codec.name}' has no option '{unknown[0]}'; {has}")


_WORDS = {"task": "TASK", "errors": "--pagent-errors"}
"""Options of a codec that the command line has words of its own for."""


def _check_sessions(codec: Codec, options: ServeOptions) -> None:
    """Raise :class:`ConfigError` for a word about the process's one session where there is none."""
    if codec.sessions == "one":
        return
    said = {
        "--session-id": options.session_id is not None,
        "--resume": options.resume is not None,
        "--fork-session": options.fork_session,
    }
    for flag in (flag for flag, given in said.items() if given):
        raise ConfigError(f"{flag} is for wires with one session a process; a host of '{codec.name}' opens its own")


def _greet(boot: Boot, outbox: Outbox, pipes: StdioPipes) -> bool:
    """Write the session's first line. False: there is nobody who reads it."""
    first = boot.session.opened
    outbox.follow(boot.session, after=first.seq - 1 if first else None)
    outbox.fill()
    try:
        sent = pipes.write_now(outbox.out)
    except OSError as error:
        logger.info("the host closed its end before the first line: %s", error)
        return False
    del outbox.out[:sent]
    return True


def _run(
    setup: Setup, boot: Boot | None, codec: Codec, outbox: Outbox, pipes: StdioPipes, stopping: list[signal.Signals]
) -> int:
    from agentwire.server.runtime import run_stdio
    from agentwire.server.signals import Signals

    signals = Signals(stopping)
    with signals.noted():
        return run_stdio(setup, boot, codec, outbox, pipes, signals)


def _fatal(pipes: StdioPipes, side: AgentSide, message: str, code: Literal["config", "internal"] = "config") -> int:
    """Tell host and person why the process cannot start."""
    out = bytearray()
    side.fatal(Refusal(code, message), out)
    print(f"Error: {message}", file=sys.stderr)
    try:
        pipes.write_now(out)
    except OSError as error:
        logger.info("the host closed its end: %s", error)
    return FAILED


def _leave(signum: int, frame: object) -> None:
    """A signal before the event loop runs: there is nothing to stop yet."""
    raise SystemExit(0)
