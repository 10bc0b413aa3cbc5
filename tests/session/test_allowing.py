"""The allow list: which rules there are, what a rule about commands frees, and that nothing rides along with it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentwire.allowing import LONGEST, AllowList, allow_list, without_effect
from agentwire.approvals import CATEGORIES, Approvals
from agentwire.bridge.opening import BridgeSetup
from agentwire.options import ServeOptions
from agentwire.policy import Policy
from agentwire.setup import BUILTIN_TOOLS, DELEGATE_TOOLS, RUNS_COMMANDS
from agentwire.tools import builtin_tools, delegate_tools

STATUS = allow_list(frozenset({"ExecCommand(git status)"}))

FREE = (
    "git status", "git status --short", "git status -- a/b.py c:d", "git status -z --porcelain=v2", 'git status "a b"',
    "git status 'a b' --x='y'", "git status ",
    "git status a@b HEAD@1",
)  # fmt: skip

ASKED = (
    "", " ", "git", "git statusx", "git status-all", "git  status", " git status", "\tgit status", "Git status",
    "git status;touch pwned", "git status; touch pwned", "git status && touch pwned", "git status || touch pwned",
    "git status | tee pwned", "git status & touch pwned", "git status\ntouch pwned", "git status\r\ntouch pwned",
    "git status\rtouch pwned", "git status $(touch pwned)", "git status `touch pwned`", 'git status "$(touch pwned)"',
    "git status > pwned", "git status >> pwned", "git status 2>pwned", "git status < pwned", "git status <<< x",
    "git status <(touch pwned)", "git status =(touch pwned)", "git status ${x:=y}", "git status $HOME", "git status *",
    "git status a?b", "git status [a]", "git status {a,b}", "git status ~root", "git status !!", "git status !touch",
    "git status # x", "git status \\\ntouch pwned", "git status \\", "git status\0touch pwned", "git status\x0btouch",
    "git status\u2028touch pwned", "git status\u00a0x", "git status \u200b", "git status %PATH%", "git status ^& x",
    "git status =touch", "git status ''=touch", 'git status a ""=touch', "git status @args", "git status ''@env:PATH",
    "git status (touch pwned)", "(git status)", "FOO=1 git status", "env git status", "sudo git status", "./git status",
    "git -c alias.status=!sh status", "'git status'", '"git" status', "git 'status'", "git\tstatus", "x git status",
    "git status \ud83d",
)  # fmt: skip


@pytest.mark.parametrize("command", FREE)
def test_a_command_that_begins_as_a_rule_says_is_free(command: str) -> None:
    assert STATUS.frees("ExecCommand", command)


def test_a_command_that_nobody_could_read_is_not_free() -> None:
    longest = "git status " + "a" * (LONGEST - 11)
    assert STATUS.frees("ExecCommand", longest)
    assert not STATUS.frees("ExecCommand", longest + "a")


@pytest.mark.parametrize("command", ASKED)
def test_whatever_is_more_than_that_is_not(command: str) -> None:
    assert not STATUS.frees("ExecCommand", command)


@pytest.mark.parametrize("rule", ["ExecCommand(git status)", "ExecCommand: git status", " ExecCommand(git status) "])
def test_the_ways_to_write_it(rule: str) -> None:
    assert allow_list(frozenset({rule})) == AllowList(frozenset(), {"ExecCommand": ("git status",)})


def test_a_rule_is_about_its_tool_alone() -> None:
    assert not STATUS.frees("shell", "git status")
    rules = allow_list(frozenset({"shell(ls)", "shell(git log)", "Read", "info"}))
    assert rules.names == {"Read", "info"}
    assert [rules.frees("shell", command) for command in ("ls -l", "git log", "git")] == [True, True, False]


@pytest.mark.parametrize(
    "rule",
    ["", " ", "git status", "ExecCommand()", "ExecCommand( )", "ExecCommand(git status:*", "ExecCommand(git *)",
     "ExecCommand(git;ls)", "ExecCommand(git 'x')", "ExecCommand(git\nls)", "ExecCommand( git)", "ExecCommand(a  b)",
     "(git)", "ExecCommand(git) x", "a" * 129],
)  # fmt: skip
def test_what_is_no_rule_frees_nothing_and_is_told(rule: str) -> None:
    assert allow_list(frozenset({rule})) == AllowList()
    (told,) = without_effect([rule], tools=["ExecCommand"], categories=["exec"], runs=["ExecCommand"], more=True)
    assert told.startswith(f"The rule {rule!r} of the allow list frees nothing: ")
    assert "\n" not in told


# --- a shell's opinion ---------------------------------------------------------------------------------------

PIECES = (
    "", " ", "a", "--x=y", "'", '"', "';'", '"; touch pwned"', "'$(touch pwned)'", ";touch pwned", "&", "|touch pwned",
    "\n", "$(touch pwned)", "`touch pwned`", ">pwned", "<(touch pwned)", "#", "\\", "*", "{a,b}", "!", "=b", "@", "+",
)  # fmt: skip
SHELLS = [found for found in map(shutil.which, ("bash", "zsh", "sh")) if found]


@pytest.mark.skipif(sys.platform == "win32", reason="commands are another shell's there")
def test_what_is_free_a_shell_runs_as_one_program_with_words(tmp_path: Path) -> None:
    """Every combination of three pieces after the rule's words; those that are free are given to real shells."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {shlex.quote(str(tmp_path / 'ran'))}\n")
    program.chmod(0o755)
    rules = allow_list(frozenset({f"sh_({program} say)"}))
    commands = sorted({f"{program} say{''.join(rest)}" for rest in product(PIECES, repeat=3)})
    free = [command for command in commands if rules.frees("sh_", command)]
    assert 20 < len(free) < len(commands) / 10
    whole = [command for command in free if _closed(command)]
    for shell in SHELLS:
        (tmp_path / "ran").write_text("")
        script = "\n".join(f"({command}\n)" for command in whole)
        subprocess.run([shell, "-c", script], cwd=tmp_path, check=True, timeout=30)
        assert (tmp_path / "ran").read_text() == "ran\n" * len(whole)
        assert {path.name for path in tmp_path.iterdir()} == {"program", "ran"}


def _closed(command: str) -> bool:
    """Whether its quotes are: else a shell says so and runs nothing."""
    try:
        shlex.split(command)
    except ValueError:
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab \"'=-/;&|$`()<>\n\r\t\\*?[]{}~#!%^\0é\u2028"), max_size=12))
def test_a_free_command_is_words_and_quotes(rest: str) -> None:
    if STATUS.frees("ExecCommand", f"git status{rest}"):
        assert not set(rest) & set(";&|$`()<>\n\r\t\\*?[]{}~#!%^\0é\u2028")
        assert not rest or rest[0] == " "


# --- who is told ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "instead"),
    [
        ("git", "to free commands that begin so, write 'ExecCommand(git)'"),
        ("git status", "to free commands that begin so, write 'ExecCommand(git status)'"),
        ("Bash(git status:*)", "to free commands that begin so, write 'ExecCommand(git status)'"),
        ("ExecCommand(git status *)", "to free commands that begin so, write 'ExecCommand(git status)'"),
        ("Read(src)", "to free commands that begin so, write 'ExecCommand(src)'"),
        ("execcommand", "write 'ExecCommand'"),
        ("EXEC", "write 'exec'"),
        ("ExecCommand()", "write 'ExecCommand'"),
        ("ExecCommand(*)", "write 'ExecCommand'"),
        ("git; ls", "write one of Read, ExecCommand, edit, exec, or ExecCommand(WORDS) with the plain words that a "
                    "command begins with"),
    ],
)  # fmt: skip
def test_what_to_write_instead(rule: str, instead: str) -> None:
    tools = ["Read", "ExecCommand"]
    told = without_effect([rule, rule], tools=tools, categories=["edit", "exec"], runs=["ExecCommand"])
    assert told == [f"The rule {rule!r} of the allow list frees nothing: {instead}"]


def test_nothing_is_said_of_rules_that_free_something() -> None:
    rules = ["Read", "exec", "ExecCommand(git)", "ExecCommand: ls -l", "own", "own(x)", "host__arm", "mcp__a__b"]
    tools, runs = ["Read", "ExecCommand", "own"], ["ExecCommand", "own"]
    assert without_effect(rules, tools=tools, categories=sorted(CATEGORIES), runs=runs) == []


def test_where_more_tools_may_come_a_name_may_be_theirs() -> None:
    told = without_effect(["look", "look(x)", "a b"], tools=[], categories=["exec"], more=True)
    assert told == [
        "The rule 'look(x)' of the allow list frees nothing: "
        "the names of tools and categories are all that counts here",
        "The rule 'a b' of the allow list frees nothing: write one of exec",
    ]


def test_a_bridge_says_that_commands_are_the_agents_affair(caplog: pytest.LogCaptureFixture) -> None:
    """It asks about names and categories alone: what a command does only the agent knows."""
    options = ServeOptions(allow=("shell(git status)", "whatever", "exec"))
    BridgeSetup(options, Policy(), None, None, 0)  # type: ignore[arg-type]  # no agent is started
    assert [record.getMessage() for record in caplog.records] == [
        "The rule 'shell(git status)' of the allow list frees nothing: "
        "the names of tools and categories are all that counts here"
    ]


def test_the_names_that_are_known_are_the_tools_names() -> None:
    tools = builtin_tools()
    assert [tool.name for tool in tools] == list(BUILTIN_TOOLS)
    assert [tool.name for tool in delegate_tools()] == list(DELEGATE_TOOLS)
    assert [tool.name for tool in tools if tool.command({"cmd": "x"})] == [RUNS_COMMANDS]


# --- the verdict ---------------------------------------------------------------------------------------------

ALLOWED = frozenset({"ExecCommand(git status)"})


@pytest.mark.parametrize(
    ("policy", "command", "outside", "verdict"),
    [
        (Policy(), "git status", False, "free"),
        (Policy(), "git status; x", False, "ask"),
        (Policy(), "git status", True, "ask"),
        (Policy(can_ask=False), "git status -s", False, "free"),
        (Policy(can_ask=False), "git status > x", False, "refuse"),
    ],
)
def test_verdicts(policy: Policy, command: str, outside: bool, verdict: str) -> None:
    approvals = Approvals(policy, allow=ALLOWED)
    assert approvals.judge("ExecCommand", "exec", outside=outside, command=lambda: command) == verdict
    assert approvals.judge("ExecCommand", "exec", outside=outside) in ("ask", "refuse")
    assert approvals.judge("shell", "exec", command=lambda: command) in ("ask", "refuse")
    always = approvals.judge("ExecCommand", "exec", gate="always", command=lambda: command)
    assert always in ("ask", "refuse")


def test_a_tool_is_asked_for_its_command_only_where_a_rule_is_about_it() -> None:
    def never() -> str:
        raise AssertionError("asked")

    assert Approvals(Policy(), allow=ALLOWED).judge("Write", "edit", command=never) == "ask"
    assert Approvals(Policy(), allow=frozenset({"exec"})).judge("ExecCommand", "exec", command=never) == "free"
    assert Approvals(Policy(), mode="yolo", allow=ALLOWED).judge("ExecCommand", "exec", command=never) == "free"
