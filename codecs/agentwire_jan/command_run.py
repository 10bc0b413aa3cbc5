"""``agentwire-jan cli agent run``: one task, told as text, as one object or as a stream."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from agentwire.options import ServeOptions
    from agentwire_jan.configuration import Configuration
    from agentwire_jan.stream_wire import Result

FAILED: Final = 1

OutputFormat = Literal["text", "json", "stream-json"]

NEEDS_OUTPUT: Final = (
    "--input-format stream-json requires --output-format stream-json (what is read there answers what is written)"
)
NEEDS_TOOLS: Final = "--host-gate requires --host-tools"
NEEDS_INPUT: Final = "--host-tools requires --input-format stream-json (their results are read from standard input)"
NEEDS_SESSION: Final = "--fork-session requires --resume or --continue"


class RunFlags(Struct):
    """What the command line says."""

    task: str = ""
    project: str = ""
    model: str = ""
    provider: str = ""
    api_key: str = ""
    output_format: OutputFormat = "text"
    input_format: Literal["text", "stream-json"] = "text"
    host_tools: str = ""
    host_gate: bool = False
    safe: bool = False
    resume: str = ""
    go_on: bool = False
    fork_session: bool = False
    no_sandbox: bool = False
    no_worktree: bool = False
    max_turns: int = 0


def run_agent(flags: RunFlags) -> int:
    """Do the task. The exit status: 0, 1 (failed), or 53 (the limit of model calls)."""
    from agentwire.provider import ConfigError
    from agentwire.serving import serve
    from agentwire.store import StoreError
    from agentwire_jan.stream_wire import RunError

    ended: list[Result] = []
    try:
        options = _options(flags)
    except (ConfigError, StoreError) as error:
        return _refuse(str(error), flags.output_format)
    if flags.output_format == "text":
        options.codec_options["report"] = ended.append
    if flags.input_format == "text":
        _read_nothing()
    status = serve(None, options)
    for result in ended:
        if isinstance(result.error, RunError):
            print(f"Error: {result.error.message}", file=sys.stderr)
    return status


def _options(flags: RunFlags) -> ServeOptions:
    """Raises :class:`ConfigError` or :class:`StoreError`."""
    from agentwire.provider import ConfigError
    from agentwire_jan.configuration import load, user_file
    from agentwire_jan.options import LATEST, Wanted, serve_options, session_to_resume

    _check(flags)
    tools = _host_tools(flags.host_tools) if flags.host_tools else []
    project = Path(flags.project or os.getcwd())
    if not project.is_dir():
        raise ConfigError(f"--project '{flags.project}' is not a directory")
    configuration = load(user_file())
    check_confinement(configuration, no_sandbox=flags.no_sandbox, no_worktree=flags.no_worktree)
    resume = flags.resume or (LATEST if flags.go_on else "")
    options = serve_options(
        configuration,
        Wanted(flags.provider, flags.model, flags.api_key),
        codec="jan-stream",
        workspace=str(project),
        auto_approve=not flags.safe,
        max_turns=flags.max_turns,
    )
    if resume:
        resume = session_to_resume(resume, project.resolve(), fork=flags.fork_session)
    options.codec_options = {
        "task": flags.task,
        "input_format": flags.input_format,
        "output_format": flags.output_format,
        "host_tools": tools,
        "host_gate": flags.host_gate,
        "resume": resume,
    }
    return options


def _check(flags: RunFlags) -> None:
    """Flags that need others."""
    from agentwire.provider import ConfigError

    streams_in = flags.input_format == "stream-json"
    problems = (
        (streams_in and flags.output_format != "stream-json", NEEDS_OUTPUT),
        (flags.host_gate and not flags.host_tools, NEEDS_TOOLS),
        (flags.host_tools and not streams_in, NEEDS_INPUT),
        (flags.fork_session and not (flags.resume or flags.go_on), NEEDS_SESSION),
    )
    for wrong, message in problems:
        if wrong:
            raise ConfigError(message)


def check_confinement(configuration: Configuration, *, no_sandbox: bool = False, no_worktree: bool = False) -> None:
    """Refuse to pass over a wish to be confined. Raises :class:`ConfigError`."""
    from agentwire.provider import ConfigError
    from agentwire_jan.configuration import user_file

    for wanted, dismissed, name in (
        (configuration.sandbox, no_sandbox, "sandbox"),
        (configuration.worktree, no_worktree, "worktree"),
    ):
        if wanted and not dismissed:
            raise ConfigError(
                f"{user_file()} asks for a {name}, which is not supported by agentwire; "
                f"take `{name} = true` out of it, or pass --no-{name} to `run`"
            )


def _host_tools(path: str) -> list[Any]:
    """The declarations of a file, known to be right. Raises :class:`ConfigError`."""
    import msgspec

    from agentwire.provider import ConfigError
    from agentwire_jan.declarations import BadTools, read_tools

    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read --host-tools file '{path}': {error.strerror or error}") from None
    try:
        tools = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"--host-tools file '{path}' is not a list of tool declarations: {error}") from None
    try:
        read_tools(tools)
    except BadTools as error:
        raise ConfigError(f"--host-tools file '{path}': {error}") from None
    return tools


def _read_nothing() -> None:
    """Standard input is not read as lines: nobody is there to answer, which the agent is to know at once."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def _refuse(message: str, output_format: OutputFormat) -> int:
    """Say why nothing is run: to a program in the wire's own form, to a person on standard error."""
    from agentwire.commands import Refusal
    from agentwire_jan.stream_agent import JanStreamAgent

    out = bytearray()
    JanStreamAgent(output_format=output_format).fatal(Refusal("config", message), out)
    print(f"Error: {message}", file=sys.stderr)
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    return FAILED
