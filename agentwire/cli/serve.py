"""``agentwire serve``: be an agent for a host on standard input and output."""

from __future__ import annotations

import json
from typing import Any

import click
from msgspec import UNSET

from agentwire.cli import DEFAULT_CODEC


def parse_option(text: str, flag: str = "--provider-option") -> tuple[str, Any]:
    """``KEY=VALUE``; the value is read as JSON if it is JSON, else as text. Raises ``click.BadParameter``."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=flag)
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


@click.command(context_settings={"show_default": False})
@click.argument("task", default="")
@click.option("--codec", default=DEFAULT_CODEC, help=f"The wire to speak (see `agentwire codecs`). [{DEFAULT_CODEC}]")
@click.option("--provider", default="", help="The model service (see `agentwire providers`). [anthropic]")
@click.option("--model", default="", help="Model name, as the service knows it.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Longest reply of the model, in tokens.")
@click.option("--max-turns", type=click.IntRange(min=0), help="Model calls per message; 0 is no limit.")
@click.option("--base-url", default="", help="Where the model service is, instead of its usual address.")
@click.option("--api-key", default="", help="Key of the model service; better set its environment variable.")
@click.option("--system-prompt", default="", help="Replaces the default system prompt.")
@click.option("--auto-approve", is_flag=True, help="Start in mode yolo: nothing is asked.")
@click.option("--workspace", default="", help="Directory of the work. [the current one]")
@click.option("--session-id", help="Id of the new session; it must not exist.")
@click.option("--resume", help="Id of a stored session to go on with, or `latest` for this workspace's newest.")
@click.option("--fork-session", is_flag=True, help="With --resume: go on in a copy under a new id.")
@click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="What needs no approval (repeatable): a tool; a category (info, edit, exec, mcp); or a command by its "
    "beginning, as in 'ExecCommand(git status)'.",
)
@click.option(
    "--confine",
    is_flag=True,
    help="File tools: refuse paths outside the workspace instead of asking.",
)
@click.option("--ephemeral", is_flag=True, help="Keep no journal.")
@click.option("--trust-workspace", is_flag=True, help="Take everything this workspace's agentwire.toml says.")
@click.option("--thinking", type=click.Choice(["enabled", "disabled"]), help="Extended thinking.")
@click.option("--thinking-budget", type=click.IntRange(min=0), default=0, help="Tokens for thinking. [10000]")
@click.option("--effort", default="", help="Reasoning effort, as the provider knows it.")
@click.option("--compaction", default="", help="Compaction of tool output: off, safe or full. [safe]")
@click.option(
    "--image-input", type=click.Choice(["supported", "unsupported", "unknown"]), help="Whether the model sees images."
)
@click.option("--context-window", type=click.IntRange(min=0), default=0, help="Tokens that the model can read.")
@click.option(
    "--pagent-errors", is_flag=True, help="With --codec pagent: tell a failed run by an Error line, as v4 does."
)
@click.option("--codec-option", multiple=True, metavar="KEY=VALUE", help="An option of the codec (repeatable).")
@click.option("--provider-option", multiple=True, metavar="KEY=VALUE", help="A quirk of the provider (repeatable).")
@click.option("--record", default="", metavar="FILE", help="Record the wire, and what model and tools gave.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    help="What goes to standard error. [warning]",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="And in which form. [text]")
def serve(**given: Any) -> int:
    """Be an agent for a host on standard input and output.

    The host speaks the codec's wire on the two pipes; everything meant for people goes to standard error. The
    process ends with its host: at the end of input after the running turn, at SIGTERM at once.

    TASK is for wires that run one task and end (jan-stream).
    """
    from agentwire.options import ServeOptions
    from agentwire.serving import serve as serve_stdio

    options = dict(parse_option(text) for text in given.pop("provider_option"))
    codec_options = dict(parse_option(text, "--codec-option") for text in given.pop("codec_option"))
    task, errors = given.pop("task"), given.pop("pagent_errors")
    if task:
        codec_options["task"] = task
    if errors:
        codec_options["errors"] = True
    for name, value in given.items():
        if value is None and name in _NOT_SAID:
            given[name] = _NOT_SAID[name]
    return serve_stdio(None, ServeOptions(provider_options=options, codec_options=codec_options, **given))


_NOT_SAID: dict[str, Any] = {"thinking": "", "image_input": "", "max_tokens": UNSET, "max_turns": UNSET}
"""What stands for "not given", where click says None."""
