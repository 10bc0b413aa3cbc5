"""``agentwire-jan``: its command line, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jancommand import PUBLISHED, RUN, STREAM, TWO_WAY, configure, installed, run
from jsonschema import Draft202012Validator
from support.launcher import Launcher
from support.model_service import ModelService
from support.serving import launch, model

pytestmark = pytest.mark.slow

__all__ = ["launch", "model"]


def test_the_program_is_installed() -> None:
    assert installed().stdout.startswith("jan ")


async def test_the_update_check_is_taken_note_of(launch: Launcher) -> None:
    ended = await run(launch, "--version", environ={"JAN_CLI_NO_UPDATE_CHECK": "1"})
    assert (ended.status, ended.errors) == (0, "")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*RUN,), "Missing argument 'TASK'"),
        ((*RUN, " "), "Missing argument 'TASK'"),
        ((*RUN, "--no-such-flag", "go"), "No such option"),
        ((*RUN, "--max-turns", "many", "go"), "--max-turns"),
        ((*RUN, "--max-turns", "-1", "go"), "--max-turns"),
        ((*RUN, "--output-format", "xml", "go"), "--output-format"),
        ((*RUN, "--sandbox", "go"), "--sandbox is not supported by agentwire: programs are not confined"),
        ((*RUN, "--worktree", "go"), "--worktree is not supported by agentwire: the work is done in the project"),
        ((*RUN, "--max-budget-usd", "2.50", "go"), "--max-budget-usd is not supported by agentwire: nothing here"),
        ((*RUN, "--max-budget-usd", "0", "go"), "--max-budget-usd is not supported by agentwire"),
        ((*RUN, "fix", "it"), "unexpected extra argument"),
        (("cli", "agent", "fly"), "No such command 'fly'"),
        (("chat",), "No such command 'chat'"),
        (("cli", "agent", "rpc", "--verbose"), "No such option"),
    ],
)
async def test_a_wrong_command_line(flags: tuple[str, ...], message: str, launch: Launcher) -> None:
    """Exit status 2, a sentence for the person, nothing for a program."""
    ended = await run(launch, *flags)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.errors


SETUP = [
    (
        ("--input-format", "stream-json", "go"),
        "--input-format stream-json requires --output-format stream-json (what is read there answers what is written)",
    ),
    (("--host-gate", "go"), "--host-gate requires --host-tools"),
    (
        ("--host-tools", "t.json", "go"),
        "--host-tools requires --input-format stream-json (their results are read from standard input)",
    ),
    (("--fork-session", "go"), "--fork-session requires --resume or --continue"),
    (("--project", "/no/such/place", "go"), "--project '/no/such/place' is not a directory"),
    (("--provider", "nobody", "go"), "unknown provider 'nobody' (known: anthropic, openai, stub)"),
    (("--model", "unknown", "go"), "no configured provider serves the model 'unknown'"),
    (("--resume=nope", "go"), "cannot resume session 'nope': there is none of that id"),
    (("--resume", "go"), "No sessions found"),
    (("-c", "go"), "No sessions found"),
]


@pytest.mark.parametrize(("flags", "message"), SETUP)
@pytest.mark.parametrize("output", ["text", "json"])
async def test_what_cannot_be_set_up(
    output: str, flags: tuple[str, ...], message: str, launch: Launcher, model: ModelService
) -> None:
    """A person reads it on standard error, a program in the result, which is then all there is."""
    configure(launch)
    ended = await run(launch, *RUN, "--output-format", output, *flags)
    assert ended.status == 1
    assert message in ended.errors
    if output == "text" and "--output-format" not in flags:
        assert ended.out == ""
        return
    [result] = ended.lines
    PUBLISHED.validate(result)
    assert result["error"]["code"] == "setup_error"
    assert message in result["error"]["message"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read --host-tools file '{path}': No such file or directory"),
        ("{", "--host-tools file '{path}' is not a list of tool declarations: "),
        ('{"name":"x"}', "--host-tools file '{path}' is not a list of tool declarations: "),
        (b"\xff", "--host-tools file '{path}' is not a list of tool declarations: "),
        ('[{"name":"shell"}]', "--host-tools file '{path}': host tool name 'shell' is reserved by a built-in tool"),
        ('[{"name":""}]', "--host-tools file '{path}': a host tool has an empty name"),
        ('[{"name":"x","capability":"write"}]', "--host-tools file '{path}': tools[0]: unknown variant `write`"),
    ],
)
async def test_a_file_of_tools(
    content: str | bytes | None, message: str, launch: Launcher, model: ModelService
) -> None:
    configure(launch)
    path = launch.path("tools.json") if content is None else launch.write("tools.json", content)
    ended = await run(launch, *RUN, *TWO_WAY, "--host-tools", path, "go")
    assert ended.status == 1
    [result] = ended.lines
    assert result["error"]["message"].startswith(message.format(path=path))


@pytest.mark.parametrize("wish", ["sandbox", "worktree"])
async def test_a_wish_to_be_confined_is_not_passed_over(wish: str, launch: Launcher, model: ModelService) -> None:
    """Unless the caller says that it may be."""
    configure(launch)
    path = launch.home / ".jan" / "config.toml"
    path.write_text(f"{wish} = true\n{path.read_text()}")
    for flags in ((*RUN, "go"), ("cli", "agent", "rpc")):
        ended = await run(launch, *flags)
        assert ended.status == 1
        assert f"asks for a {wish}, which is not supported by agentwire" in ended.errors
    model.script("ok")
    ended = await run(launch, *RUN, f"--no-{wish}", "go")
    assert (ended.status, ended.out) == (0, "ok\n")


async def test_without_any_configuration(launch: Launcher) -> None:
    ended = await run(launch, *RUN, *STREAM, "go")
    assert ended.status == 1
    assert ended.result["error"]["message"].startswith("no model is configured: run `config set")


async def test_a_workspace_names_no_server_and_no_key(launch: Launcher, model: ModelService) -> None:
    """Whatever files it has: they are not read, or say nothing of that kind."""
    configure(launch)
    evil = '[providers.stub]\nbase_url = "http://127.0.0.1:1/v1"\napi_key = "sk-evil"\nmodels = ["stub-model"]\n'
    launch.write(".jan/config.toml", 'default_model = "evil"\n' + evil)
    launch.write("agent.toml", '[provider]\nname = "stub"\nbase_url = "http://127.0.0.1:1/v1"\n')
    launch.write("agentwire.toml", f'mode = "yolo"\n{evil}[mcp_servers.x]\ntransport = "stdio"\ncommand = "false"\n')
    model.script("ok")
    ended = await run(launch, *RUN, "--output-format", "json", "go")
    assert (ended.status, ended.result["result"]) == (0, "ok")
    assert model.requests[0].headers["authorization"] == "Bearer test-key"
    assert "not trusted" in ended.errors


async def test_flags_choose_the_service(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    configure(launch, "anthropic", model="claude-x")
    configure(launch, "other", model="claude-y", api_type="anthropic")
    for flags, path, key, name in (
        ((), "/messages", "x-api-key", "claude-x"),
        (("--model", "stub-model"), "/chat/completions", "authorization", "stub-model"),
        (("--provider", "stub"), "/chat/completions", "authorization", "stub-model"),
        (("--model", "other/claude-z"), "/messages", "x-api-key", "claude-z"),
    ):
        model.script("ok")
        ended = await run(launch, *RUN, *flags, "--api-key", "sk-flag", "go")
        assert ended.status == 0, ended.errors
        request = model.requests[-1]
        assert request.path.endswith(path)
        assert request.body["model"] == name
        assert request.headers[key].removeprefix("Bearer ") == "sk-flag"


async def test_the_task_may_look_like_a_flag(launch: Launcher, model: ModelService) -> None:
    configure(launch)
    model.script("ok")
    await run(launch, *RUN, "--max-session-tokens", "9", "--no-sandbox", "--no-worktree", "--", "--resume")
    assert model.requests[0].texts("user") == ["--resume"]


# --- schemas -------------------------------------------------------------------------------------------------


async def test_the_schema_of_the_stream(launch: Launcher) -> None:
    told = await run(launch, "cli", "agent", "schema")
    document = json.loads(told.out)
    Draft202012Validator.check_schema(document)
    assert document["x-protocol-version"] == 1
    out = Path(launch.path("schema.json"))
    ended = await run(launch, "cli", "agent", "schema", "--out", str(out))
    assert (ended.status, ended.out) == (0, "")
    assert json.loads(out.read_text()) == document
    ended = await run(launch, "cli", "agent", "schema", "--out", "/no/such/place/s.json")
    assert (ended.status, "cannot write '/no/such/place/s.json'" in ended.errors) == (1, True)
    published = json.loads((Path(__file__).with_name("published") / "stream-schema.json").read_text())
    assert set(published["required"]) == set(document["required"])


async def test_the_schema_of_the_rpc(launch: Launcher) -> None:
    told = await run(launch, "cli", "agent", "rpc-schema")
    assert told.status == 0
    assert json.loads(told.out)
