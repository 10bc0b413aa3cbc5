"""The ExecCommand tool (aionrs protocol, section 4.4), with real processes."""

from __future__ import annotations

import os
import resource
import shutil
import time
from typing import Any

import pytest
import trio
from support.agent_process import alive, gone, lines_of
from support.cases import case

from agentwire.children.environment import environment
from agentwire.children.running import Ended
from agentwire.children.secret_variables import SECRET_VARIABLES
from agentwire.tools import ToolError, post_process
from agentwire.tools.exec_command import shell_command

LIMIT = 50_000


def processed(result: Any) -> str:
    return post_process(result.output, LIMIT, "safe")


@pytest.mark.parametrize(
    ("command", "ok", "raw"),
    [
        ("true", True, "Exit code: 0\nSTDOUT:\n\nSTDERR:\n"),
        (r"printf 'hi\n'", True, "Exit code: 0\nSTDOUT:\nhi\n\nSTDERR:\n"),
        ("printf x >&2", True, "Exit code: 0\nSTDOUT:\n\nSTDERR:\nx"),
        ("exit 3", False, "Exit code: 3\nSTDOUT:\n\nSTDERR:\n"),
        ("kill -9 $$", False, "Exit code: -1\nSTDOUT:\n\nSTDERR:\n"),
        ("kill -TERM $$", False, "Exit code: -1\nSTDOUT:\n\nSTDERR:\n"),
        ("cat; read x || echo nothing", True, "Exit code: 0\nSTDOUT:\nnothing\n\nSTDERR:\n"),
        (r"printf 'a\r\n'", True, "Exit code: 0\nSTDOUT:\na\r\n\nSTDERR:\n"),
        ("", True, "Exit code: 0\nSTDOUT:\n\nSTDERR:\n"),
    ],
)
async def test_commands(bench: Any, command: str, ok: bool, raw: str) -> None:
    with trio.fail_after(20):
        result = await bench("ExecCommand", cmd=command)
    assert (result.is_error, result.output) == (not ok, raw)


async def test_it_runs_in_the_workspace_in_a_session_of_its_own(bench: Any) -> None:
    result = await bench.works("ExecCommand", cmd="pwd -P; ps -o pgid=,sess= -p $$; echo $$")
    _, _, folder, ids, pid, *_ = result.split("\n")
    assert folder == os.path.realpath(bench.workspace)
    assert ids.split() == [pid, pid]


async def test_it_has_nothing_but_its_three_streams(bench: Any) -> None:
    """No descriptor of ours, inheritable or not, reaches a command."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        listed = await bench.works("ExecCommand", cmd="ls -l /proc/self/fd", shell="sh")
    finally:
        os.close(reading)
        os.close(writing)
    targets = [line.split(" ")[-3:] for line in listed.split("\n") if " -> " in line]
    assert [number for number, _, _ in targets] == ["0", "1", "2", "3"]  # the last is ls reading the folder
    assert targets[0][2] == "/dev/null"


async def test_it_gets_no_keys(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRET_VARIABLES:
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("STRIPE_API_KEY", "of the project")
    output = await bench.works("ExecCommand", cmd="env")
    assert "sk-secret" not in output
    assert "STRIPE_API_KEY=of the project" in output
    bench.environ = {"PATH": os.environ["PATH"], "ONLY": "this"}
    assert "ONLY=this" in await bench.works("ExecCommand", cmd="env")


def test_the_environment_for_children() -> None:
    given = {"OPENAI_API_KEY": "a", "openai_api_key": "b", "AWS_SECRET_ACCESS_KEY": "c", "AWS_REGION": "d", "HOME": "e"}
    assert environment(given) == {"AWS_REGION": "d", "HOME": "e"}
    assert environment(given, keep=["AWS_SECRET_ACCESS_KEY"]) == {
        "AWS_SECRET_ACCESS_KEY": "c", "AWS_REGION": "d", "HOME": "e",
    }  # fmt: skip


async def test_output_comes_live(bench: Any) -> None:
    """The command waits for a file that appears only after its first output was heard."""
    heard = trio.Event()

    def output(text: str, stream: str) -> None:
        bench.live.append((stream, text))
        if "first" in text:
            heard.set()

    context = bench.context()
    context.output = output
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await heard.wait()
            (bench.workspace / "go").touch()

        nursery.start_soon(answer)
        with trio.fail_after(20):
            wait = "while ! [ -e go ]; do sleep 0.01; done"
            command = rf"printf 'first \360\237'; {wait}; printf '\222\251'; echo e >&2"
            await bench.tools["ExecCommand"].run({"cmd": command}, context)
    assert "".join(text for stream, text in bench.live if stream == "stdout") == "first 💩"
    assert "".join(text for stream, text in bench.live if stream == "stderr") == "e\n"


async def test_a_background_child_does_not_hold_the_result(bench: Any) -> None:
    started = time.monotonic()
    result = await bench.works("ExecCommand", cmd="sleep 300 & echo $!")
    assert time.monotonic() - started < 5
    pid = int(result.split("\n")[2])
    assert alive(pid), "a child in the background goes on"
    os.kill(pid, 9)


@pytest.mark.parametrize("timeout", [100, 100.0, "100", 0, -5, True, None, 10**9])
async def test_time_limits(bench: Any, timeout: Any) -> None:
    """Only a positive integer is one."""
    with trio.fail_after(20):
        result = await bench("ExecCommand", cmd="echo a; sleep 0.5; echo b", timeout=timeout)
    if timeout == 100 and isinstance(timeout, int):
        assert result.is_error
        assert result.output == "Command timed out after 100ms\nSTDOUT:\na\n\nSTDERR:\n"
    else:
        assert not result.is_error


async def test_time_limits_are_capped(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentwire.tools import exec_command

    seen: list[float] = []

    async def run(argv: Any, *, timeout: float, **others: Any) -> Any:
        seen.append(timeout)
        return Ended(0)

    monkeypatch.setattr(exec_command, "run", run)
    for timeout in (None, 5, 600_000, 600_001, 10**12):
        await bench.works("ExecCommand", cmd="true", timeout=timeout)
    assert seen == [120, 0.005, 600, 600, 600]


async def test_a_cancelled_command_is_gone(bench: Any) -> None:
    """With its children, within two seconds, also if it ignores the polite signal."""
    command = "trap '' TERM; echo $$ > pids; sleep 300 & echo $! >> pids; sleep 300 & echo $! >> pids; wait; sleep 300"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: bench("ExecCommand", cmd=command))
        pids = [int(line) for line in await lines_of(bench.workspace / "pids", 3)]
        started = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - started < 1.5
    for pid in pids:
        await gone(pid, within=1)


async def test_a_command_cancelled_while_its_pipes_are_drained(bench: Any) -> None:
    """Its leader has ended, a child in the background has not: stopping ends that too."""
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        def output(text: str, stream: str) -> None:
            if "done" in text:
                done.set()

        context = bench.context()
        context.output = output
        command = "(trap '' TERM; sleep 300) & echo $! > pid; echo done"
        nursery.start_soon(lambda: bench.tools["ExecCommand"].run({"cmd": command}, context))
        await done.wait()
        nursery.cancel_scope.cancel()
    (pid,) = await lines_of(bench.workspace / "pid", 1)
    await gone(int(pid), within=2)


@case("S-e03")
async def test_a_time_limit_reaches_the_whole_group(bench: Any, case: dict[str, Any]) -> None:
    results = []
    for name, arguments in case["input"]["calls"]:
        arguments["cmd"] = f"echo $$ >> pids; {arguments['cmd']}"
        with trio.fail_after(4):
            results.append(await bench(name, **arguments))
    for result, word in zip(results, ["started", "t", "after"], strict=True):
        assert word in processed(result).split("\n")
    assert [result.is_error for result in results] == [True, True, False]
    assert all("timed out after 1000ms" in result.output for result in results[:2])
    assert "never" not in results[0].output
    for group in await lines_of(bench.workspace / "pids", 3):
        with trio.fail_after(5):
            while any(alive(pid) for pid in members(int(group))):  # noqa: ASYNC110 - they are no children of ours
                await trio.sleep(0.02)


def members(group: int) -> list[int]:
    """The processes of a group."""
    listed = os.popen("ps -A -o pid=,pgid=").read().split("\n")
    return [int(line.split()[0]) for line in listed if line and int(line.split()[1]) == group]


@case("S-c07")
async def test_output_that_is_no_text(bench: Any, case: dict[str, Any]) -> None:
    result = await bench("ExecCommand", **case["input"]["args"])
    assert not result.is_error
    for level in ("off", "safe", "full"):
        output = post_process(result.output, LIMIT, level)
        assert output.encode().decode() == output
        assert "\0" not in output
        for word in case["expect"]["tool_result"]["output_contains"]:
            assert word in output
    assert processed(result) == "Exit code: 0\nSTDOUT:\nred \ufffdnul \ufffd\ufffd end \ufffd x\n\nSTDERR:"
    live = "".join(text for _, text in bench.live)
    assert live.encode().decode() == live
    assert "\0" not in live


@case("S-c08")
async def test_endless_output(bench: Any, case: dict[str, Any]) -> None:
    context = bench.context()
    context.output = lambda text, stream: None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slowest = 0.0

    async def pulse() -> None:
        nonlocal slowest
        while True:
            started = trio.current_time()
            await trio.sleep(0.02)
            slowest = max(slowest, trio.current_time() - started)

    results = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse)
        for call in (script["tool_calls"][0] for script in case["input"]["provider_script"][:2]):
            started = trio.current_time()
            results.append(await bench.tools[call["name"]].run(call["arguments"], context))
            took = trio.current_time() - started
        nursery.cancel_scope.cancel()
    whole, endless = results
    assert not whole.is_error
    total = 200_000_000 + len("Exit code: 0\nSTDOUT:\n\nSTDERR:\n")
    assert f"\n\n... [truncated {total - LIMIT} chars] ...\n\n" in whole.output
    assert whole.output.startswith("Exit code: 0\nSTDOUT:\ny\ny\n")
    assert whole.output.endswith("y\ny\n\nSTDERR:\n")
    assert LIMIT < len(whole.output) < LIMIT + 50
    assert post_process(whole.output, LIMIT, "off") == whole.output
    assert endless.is_error
    assert endless.output.startswith("Command timed out after 2000ms\nSTDOUT:\ny\n")
    assert took < 4
    assert slowest < case["expect"]["pong_latency_s_max"]
    unit = 1024 if os.uname().sysname == "Darwin" else 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / unit
    assert grown < case["expect"]["rss_growth_mib_max"] * 1024


async def test_long_output_on_both_streams(bench: Any) -> None:
    command = "seq 1 20000; seq 20001 40000 >&2"
    raw = await bench.works("ExecCommand", cmd=command)
    full = "Exit code: 0\nSTDOUT:\n{}\n\nSTDERR:\n{}\n".format(
        *("\n".join(map(str, range(start, start + 20_000))) for start in (1, 20_001))
    )
    assert post_process(raw, LIMIT, "off") == post_process(full, LIMIT, "off")


@pytest.mark.parametrize(
    ("arguments", "failure"),
    [
        ({"cmd": "a\0b"}, "Failed to execute command: embedded null byte"),
        ({"cmd": "true", "shell": "fish"}, "Invalid shell: unknown shell 'fish' (expected auto, "),
        ({"cmd": "true", "shell": "./none"}, "Invalid shell: ./none was not found or cannot be run"),
        ({"cmd": "true", "shell": "/bin/\0"}, "Invalid shell: unknown shell '/bin/\\x00'"),
        ({"cmd": "x" * 3_000_000}, "Failed to execute command: Argument list too long (os error 7)"),
    ],
)
async def test_failures_to_start(bench: Any, arguments: dict[str, Any], failure: str) -> None:
    assert (await bench.fails("ExecCommand", **arguments)).startswith(failure)


async def test_a_workspace_that_is_gone(bench: Any) -> None:
    bench.workspace.rmdir()
    failure = await bench.fails("ExecCommand", cmd="true")
    assert failure == "Failed to execute command: No such file or directory (os error 2)"


async def test_a_shell_by_its_path_is_shown_to_whoever_approves(bench: Any) -> None:
    script = bench.write("my shell", '#!/bin/sh\necho "mine: $1 $2"\n')
    script.chmod(0o755)
    arguments = {"cmd": "ls it", "shell": "./my shell"}
    assert "mine: -c ls it" in await bench.works("ExecCommand", **arguments)
    tool = bench.tools["ExecCommand"]
    assert tool.command(arguments) == "'./my shell' -c 'ls it'"
    assert tool.command({"cmd": "ls it"}) == "ls it"
    assert tool.command({"cmd": "ls it", "shell": "zsh"}) == "ls it"
    assert tool.command({}) == ""


def test_which_shell(bench: Any) -> None:
    workspace = bench.workspace
    folder = workspace / "bin"
    for name in ("bash", "zsh", "sh", "fish", "pwsh"):
        bench.write(f"bin/{name}", "#!/bin/sh\n").chmod(0o755)
    bench.write("bin/noexec", "#!/bin/sh\n")

    def chosen(shell: str, path: str = str(folder), own: str = "") -> list[str]:
        return shell_command(shell, workspace, {"PATH": path, "SHELL": own})

    assert chosen("auto") == [f"{folder}/bash", "-c"]
    assert chosen("auto", own=f"{folder}/zsh") == [f"{folder}/zsh", "-c"]
    assert chosen("auto", own=f"{folder}/fish") == [f"{folder}/bash", "-c"]
    assert chosen("auto", own="/nowhere/zsh") == [f"{folder}/bash", "-c"]
    assert chosen("sh") == [f"{folder}/sh", "-c"]
    assert chosen("pwsh") == [f"{folder}/pwsh", "-NoProfile", "-NonInteractive", "-Command"]
    assert chosen(f"{folder}/fish") == [f"{folder}/fish", "-c"]
    assert chosen("bin/pwsh")[1:] == ["-NoProfile", "-NonInteractive", "-Command"]
    (folder / "bash").unlink()
    assert chosen("auto") == [f"{folder}/zsh", "-c"]
    for shell, path in (("powershell", str(folder)), (f"{folder}/noexec", str(folder)), ("auto", "/nowhere")):
        with pytest.raises(ToolError, match=r"^Invalid shell: "):
            chosen(shell, path)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
async def test_another_shell(bench: Any) -> None:
    assert "zsh" in await bench.works("ExecCommand", cmd="echo ${ZSH_NAME}", shell="zsh")
