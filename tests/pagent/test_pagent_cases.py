"""The failure cases S-b, S-c and S-d, and those of S-a that name this wire, over real pipes.

Their input is what it is in this wire's lines. Where the dialects read and do the same, one of them stands for both.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from pagentserved import PagentLauncher, PagentProcess, names, text
from support.agent_process import gone, lines_of
from support.cases import case, lines, replies, stdin
from support.model_service import ModelService, wait_for
from support.patterns import find
from support.replies import Bytes, Gate, JsonObject, Reply, ToolCall, raw, sse

both = pytest.mark.parametrize("codec", ["pagent", "pagent-v4"])
classic = pytest.mark.parametrize("codec", ["pagent"])
v4 = pytest.mark.parametrize("codec", ["pagent-v4"])
COMMANDS = b'{"cmd": "commands"}'


def translated(line: str) -> str:
    """A case's line for this wire; what is no JSON object stays as it is. Escapes stay escapes."""
    try:
        given = json.loads(line)
    except ValueError:
        return line
    return json.dumps(_command(given)) if isinstance(given, dict) else line


def _command(given: JsonObject) -> JsonObject:
    kind = given.get("type")
    call = {"tool_call_id": given.get("call_id")}
    return {
        "message": {"cmd": "user", "text": given.get("content")},
        "ping": {"cmd": "commands"},
        "stop": {"cmd": "cancel"},
        "tool_approve": {"cmd": "permit", **call},
        "tool_deny": {"cmd": "deny", **call, "reason": given.get("reason")},
    }.get(str(kind), {"cmd": kind})


def commands(step: JsonObject) -> list[JsonObject]:
    """What a step of a dialog sends."""
    given = step.get("send_together") or [step["send"]]
    return [_command(command) for command in given]


async def say(agent: PagentProcess, words: str = "go") -> list[JsonObject]:
    """An input and everything up to the end of its run."""
    await agent.user(words)
    return await agent.run()


async def still_there(agent: PagentProcess, model: ModelService, codec: str) -> None:
    """Prove that all earlier lines were read and none was answered: the next thing said is in answer to this."""
    if codec == "pagent-v4":
        return await agent.fence()
    model.script("still there")
    await agent.user("are you")
    await agent.expect("RunBegin", user_input="are you")
    assert text(await agent.run()) == "still there"


# --- S-a: what the model's stream becomes on this wire --------------------------------------------------------


@case("S-a08")
async def test_usage_after_the_last_piece(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    model.script(raw(*(chunk.encode() for chunk in case["input"]["chunks"])))
    agent = await serve(codec="pagent")
    end = (await say(agent))[-1]
    (wanted,) = case["expect"]["pagent"].values()
    assert wanted.items() <= end["usage"].items()
    assert end["content"] == case["expect"]["result"]["text"]


@case("S-a16")
async def test_reasoning_by_another_name(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    model.script(raw(*(chunk.encode() for chunk in case["input"]["chunks"])))
    agent = await serve(codec="pagent")
    events = await say(agent)
    assert [event["type"] for event in events if event["type"].endswith("Delta")] == ["ReasoningDelta"] * 2 + [
        "TextDelta"
    ]
    wanted = case["expect"]["pagent"][-1]
    assert [events[-1][path.rpartition(".")[2]] for path in wanted] == list(wanted.values())


# --- S-b: between bytes and lines ----------------------------------------------------------------------------


@case("S-b01")
@v4
async def test_long_lines(case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService) -> None:
    given = case["input"]
    message = [translated(given["lines"][0])]
    agent = await serve(codec=codec)
    for number, size in enumerate(given["sizes"], 1):
        model.script(*replies(given["provider_script"]))
        await agent.send_bytes(lines(message, size))
        await agent.run()
        assert (await model.request(number)).texts("user")[-1] == "x" * size
    await agent.send_bytes(lines(message, given["over_limit_sizes"]["aionrs"]))
    await still_there(agent, model, codec)
    assert len(find(agent.events, "RunBegin")) == len(given["sizes"]) + (codec == "pagent")
    assert any("too long" in word for word in agent.words)


@both
@case("S-b02")
async def test_malformed_lines(case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService) -> None:
    agent = await serve(codec=codec)
    *bad, _ = case["input"]["lines"]
    await agent.send_bytes(lines([translated(line) for line in bad]))
    await still_there(agent, model, codec)
    skipped = [word.partition(":")[0] for word in agent.words[1:]]
    assert skipped == ["skip non-json line", "skip non-json line", "unknown command", "unknown command"]
    assert "no_such_command" in agent.errors


@case("S-b03")
async def test_line_ends(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    model.script("a\r\nb")
    agent = await serve()
    await agent.send_bytes(stdin(case).replace(b'{"type":"ping"}', COMMANDS))
    for _ in case["expect"]["aionrs"]:
        await agent.expect("SlashCommands")
    await agent.send_bytes(b'{"cmd": "user", "text": "x"}\r\n')
    assert text(await agent.run()) == "a\r\nb"
    assert b"\r" not in agent.stdout
    assert agent.words == ["ready"]


@both
@case("S-b04")
async def test_unicode_line_separators(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """Each line that comes is cut at line feeds and read as JSON by the one who drives these tests."""
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await serve(codec=codec)
    await agent.send_bytes(lines([json.dumps(json.loads(translated(given["lines"][0])), ensure_ascii=False)]))
    assert text(await agent.run()) == "x\u2028y\u0085z\nnext"
    assert model.requests[0].texts("user") == ["a\u2028b\u2029c\u0085d"]
    assert "x\u2028y\u0085z\\nnext".encode() in agent.stdout


@both
@case("S-b05")
async def test_lone_surrogates(case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService) -> None:
    given = case["input"]
    for name in given["workspace_files_bytes_names"]:
        try:
            (serve.workspace / os.fsdecode(base64.b64decode(name))).touch()
        except OSError:
            pytest.skip("this file system takes no names that are not UTF-8")
    halves, good, _ = map(translated, given["lines"])
    model.script(*replies(given["provider_script"]), Reply(ToolCall("g", "Glob", {"pattern": "*.txt"})), "done")
    agent = await serve("--auto-approve", codec=codec)
    await agent.send_bytes(lines([halves]))
    assert text(await agent.run()) == "half \ufffd pair"
    assert model.requests[0].texts("user") == ["bad \ufffd end"]
    await agent.send_bytes(lines([good]))
    assert text(await agent.run()) == "fine"
    assert model.requests[1].texts("user")[-1] == "good \U0001f600"
    (result,) = find(await say(agent), "ToolResult", ok=True)
    assert result["content"] == "caf\ufffd.txt"
    await still_there(agent, model, codec)


@case("S-b07")
@v4
async def test_batches_and_bare_values(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    agent = await serve(codec=codec)
    *bare, _ = case["input"]["codec_variants"]["aionrs"]
    await agent.send_bytes(lines([translated(line) for line in bare]))
    await still_there(agent, model, codec)
    assert agent.words[1:] == ["skip non-object command"] * 5 + ["unknown command: 5"]


NOISY = """
import logging, os, subprocess, sys, warnings
from agentwire.provider.contract import Completion, ProviderPlugin
from agentwire.events import TextDelta

def noise():
{noise}

noise()

class Noisy:
    name, model, thinking, effort_levels = "noisy", "noisy", False, ()

    async def complete(self, request, emit):
        noise()
        emit(TextDelta("through the noise"))
        noise()
        return Completion(text="through the noise")

    async def aclose(self):
        pass

provider = ProviderPlugin("noisy", lambda settings: Noisy())
"""


@case("S-b08")
@classic
async def test_noise_on_stdout(case: JsonObject, codec: str, serve: PagentLauncher) -> None:
    plugins = serve.home / "plugins"
    information = plugins / "noisy-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[agentwire.providers]\nnoisy = noisy_plugin:provider\n")
    noise = "\n".join(f"    {statement}" for statement in case["input"]["python"])
    (plugins / "noisy_plugin.py").write_text(NOISY.format(noise=noise))
    arguments = ("serve", "--codec", codec, "--provider", "noisy", "--workspace", str(serve.workspace))
    agent = await serve.spawn(*arguments, environ={"PYTHONPATH": str(plugins)})
    assert text(await say(agent)) == "through the noise"
    await serve.close(agent)
    for said in ("loading model", "raw bytes", "careful", "from child"):
        assert said in agent.errors


@case("S-b09")
@v4
async def test_children_and_the_protocol_input(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    given, expected = case["input"], case["expect"]
    model.script(*replies(given["provider_script"]))
    agent = await serve(*given["argv"], codec=codec)
    with trio.fail_after(expected["within_s"]):
        await agent.send(*commands(given["steps"][0]))
        await agent.until("StepEnd" if codec == "pagent" else "TurnResult")
        await agent.send({"cmd": "commands"})
        events = await agent.run()
    (result,) = find(events, "ToolResult", tool_call_id="t1", ok=True)
    assert "done" in result["content"]
    assert "commands" not in result["content"]
    assert len(find(events, "SlashCommands")) == (codec == "pagent-v4")
    assert text(events) == "ok"


@case("S-b10")
@pytest.mark.parametrize("variant", ["complete", "cut"])
async def test_the_last_line_without_an_end(variant: str, case: JsonObject, serve: PagentLauncher) -> None:
    agent = await serve()
    given = case["input"]["variants"][variant].encode()
    await agent.send_bytes(given.replace(b'{"type":"ping"}', COMMANDS))
    await agent.close_stdin()
    await agent.expect("SlashCommands")
    assert await agent.wait_exit() == case["expect"][variant]["exit_code"]
    assert agent.rest() == []
    assert len(agent.words[1:]) == (variant == "cut")


@case("S-b11")
@v4
async def test_input_that_is_not_utf8(case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService) -> None:
    agent = await serve(codec=codec)
    await agent.send_bytes(stdin(case).replace(b'"type":"message"', b'"cmd":"user"').replace(b"content", b"text"))
    await still_there(agent, model, codec)
    assert len(model.requests) == (codec == "pagent")
    assert len(find(agent.events, "RunBegin")) == (codec == "pagent")


PIECES, SIZE = 20_000, 200


def packed(count: int) -> Iterator[Bytes]:
    """Numbered pieces, fifty events in each write: they show if one is lost or out of order."""
    for start in range(0, count, 50):
        texts = (f"{n:08}".ljust(SIZE - 1, ".") + "\n" for n in range(start, start + 50))
        yield Bytes(b"".join(sse({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in texts))


@case("S-b12")
@v4
async def test_a_host_that_does_not_read_loses_nothing_and_may_stop(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    assert "The host reads nothing" in case["input"]["text"]
    end = Gate()
    model.script("warm", Reply(*packed(PIECES), end), "next")
    agent = await serve(codec=codec)
    await say(agent)
    before = agent.memory()
    await agent.user()
    await agent.until("TextDelta")
    agent.hold_reading()
    await wait_for(end.reached, "the model's stream is taken while nobody reads", within=30)
    growth = agent.memory() - before
    await agent.send({"cmd": "cancel"})
    await wait_for(model.requests[1].disconnected, "the stop takes effect", within=1)
    agent.resume_reading()
    await agent.run()
    said = "".join(event["text"] for event in find(agent.events, "TextDelta")[1:])
    whole = "".join(f"{n:08}".ljust(SIZE - 1, ".") + "\n" for n in range(PIECES))
    assert growth < 64 << 20
    assert whole.startswith(said)
    assert len(said) > len(whole) // 2, "what was taken before the stop is not lost"
    assert find(agent.events, "TurnResult")[-1]["content"] == said
    assert text(await say(agent)) == "next"


@case("S-b13")
@classic
async def test_known_commands_with_wrong_fields(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """The commands are this wire's own; what is wrong with them is what the case has."""
    assert "wrongly typed" in case["title"]
    wrong: list[JsonObject] = [
        {"cmd": "user"}, {"cmd": "user", "text": 123}, {"cmd": "user", "text": "x", "images": "a.png"},
        {"cmd": "permit"}, {"cmd": "permit", "tool_call_id": 5}, {"cmd": "deny", "reason": "no"},
        {"cmd": "resume"}, {"cmd": "delete_thread", "thread_id": None},
    ]  # fmt: skip
    agent = await serve(codec=codec)
    await agent.send(*wrong)
    await still_there(agent, model, codec)
    assert len(agent.words[1:]) == len(wrong)
    for command, word in zip(wrong, agent.words[1:], strict=True):
        assert word.startswith(command["cmd"])
        assert len(word) < 300
    assert len(model.requests) == (codec == "pagent")


# --- S-c: in the middle of a run -----------------------------------------------------------------------------


@case("S-c01")
async def test_stop_while_a_permit_is_pending(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """Unlike the peer, which takes the stop for a denial and goes on."""
    given, expected = case["input"], case["expect"]
    model.script(*replies(given["provider_script"]))
    agent = await serve(provider="anthropic")
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    with trio.fail_after(expected["within_s"]):
        await agent.send(*commands(given["steps"][2]))
        assert names(await agent.run()) == ["ToolResult", "TurnEnd", "RunEnd"]
    (result,) = find(agent.events, "ToolResult")
    assert result["ok"] is False
    assert find(agent.events, "RunEnd")[0]["stop_reason"] == "cancelled"
    await agent.send(*commands(given["steps"][4]))
    assert text(await agent.run()) == "second turn"
    (block,) = model.requests[1].result_blocks
    assert (block["tool_use_id"], block["is_error"]) == ("t1", True)
    assert not (serve.workspace / "ran").exists()


@case("S-c02")
async def test_a_permit_after_stop_gives_nothing(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await serve()
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    await agent.send(*commands(given["steps"][2]))
    await agent.run()
    await agent.send(*commands(given["steps"][4]))
    await agent.until("PermitRequest", tool_call_id="t2")
    assert not find(agent.events, "Error")
    await agent.send({"cmd": "cancel"})
    await agent.run()
    assert list(serve.workspace.iterdir()) == []


@case("S-c03")
async def test_answering_twice(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """An answer to what is settled, or never was, is only logged: so does the peer."""
    given = case["input"]
    model.script(*replies(given["provider_script"]))
    agent = await serve()
    await agent.send(*commands(given["steps"][0]))
    await agent.until("PermitRequest", tool_call_id="t1")
    await agent.send(*commands(given["steps"][2]))
    await agent.run()
    assert len(find(agent.events, "ToolResult", tool_call_id="t1", ok=True)) == 1
    assert (serve.workspace / "count").read_text() == case["expect"]["workspace"]["count"]
    for step in given["steps"][4:]:
        await agent.send(*commands(step))
    await agent.fence()
    assert not find(agent.events, "Error")


@both
@case("S-c04")
async def test_a_second_input_in_a_run(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """It is ignored, as by the peer, and that is said on standard error."""
    given, expected = case["input"], case["expect"]
    gate = Gate()
    model.script(*replies(given["provider_script"], gate))
    agent = await serve(codec=codec)
    await agent.send(*commands(given["steps"][0]))
    await agent.until("TextDelta")
    await agent.send(*commands(given["steps"][2]))
    await agent.says("a second input is ignored")
    gate.open()
    await agent.run()
    assert text(agent.events) == expected["m1"]["text_delta_concat"]
    assert len(find(agent.events, "RunBegin")) == len(model.requests) == 1


@both
@case("S-c05")
async def test_input_ends_while_the_model_streams(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """The end of input cancels the run, as with the peer, and v4 says so."""
    assert "turn cancelled" in case["expect"]["model_streaming"]["accept_instead"][0]
    model.script(*replies(case["input"]["provider_script"], Gate()))
    agent = await serve(codec=codec)
    await agent.send(*commands(case["input"]["steps"][0]))
    await agent.until("TextDelta", text="Hel")
    await agent.close_stdin()
    assert await agent.wait_exit() == 0
    rest = agent.rest()
    assert names(rest) == ([] if codec == "pagent" else ["TurnResult", "TurnEnd", "RunEnd"])
    assert all(event.get("stop_reason", "cancelled") == "cancelled" for event in rest)


@case("S-c05")
async def test_input_ends_while_a_permit_is_pending(
    case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    model.script(*replies(case["input"]["variant_pending_approval"]["provider_script"]))
    agent = await serve()
    await agent.user()
    await agent.until("PermitRequest")
    await agent.close_stdin()
    assert await agent.wait_exit(within=5) == 0
    rest = agent.rest()
    assert (rest[0]["type"], rest[0]["ok"]) == ("ToolResult", False)
    assert (rest[-1]["type"], rest[-1]["stop_reason"]) == ("RunEnd", "cancelled")
    assert not (serve.workspace / "ran").exists()


@case("S-c06")
@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_while_a_shell_runs(
    which: signal.Signals, case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    command = re.search(r"ExecCommand '(.+)' and connect", case["input"]["text"])
    assert command
    model.script(Reply(ToolCall("t1", "ExecCommand", {"cmd": command[1].replace('"', "'")})), "welcome back")
    agent = await serve("--auto-approve", "--session-id", "s", expected=(0, 128 + which))
    await agent.user()
    await agent.until("ToolCallBegin")
    pids = await lines_of(serve.workspace / "pids", 2)
    agent.send_signal(which)
    assert await agent.wait_exit(within=case["expect"]["within_s"]) in (0, 128 + which)
    assert names(agent.rest()) == ["ToolResult", "TurnEnd", "RunEnd"]
    for pid in pids:
        await gone(int(pid), within=2)
    again = await serve("--resume", "s")
    await again.expect("HistoryReplay")
    assert text(await say(again)) == "welcome back"
    assert set(model.requests[-1].results) == {"t1"}


@case("S-c07")
@classic
async def test_output_that_is_no_clean_text(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    given, expected = case["input"], case["expect"]["tool_result"]
    model.script(Reply(ToolCall("t1", given["tool"], given["args"])), "done", "second")
    agent = await serve("--auto-approve", codec=codec)
    (result,) = find(await say(agent), "ToolResult", ok=True)
    for said in expected["output_contains"]:
        assert said in result["content"]
    assert "\0" not in result["content"]
    assert model.requests[1].results["t1"] == result["content"]
    assert text(await say(agent)) == "second"


@case("S-c08")
async def test_huge_and_endless_output(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """That commands are read meanwhile is seen by the answers to ``commands``."""
    given, expected = case["input"], case["expect"]
    model.script("warm", *replies(given["provider_script"]))
    agent = await serve(*given["argv"])
    await say(agent)
    before = agent.memory()
    await agent.user()
    longest = 0.0
    with trio.fail_after(30):
        while True:
            sent = trio.current_time()
            await agent.send({"cmd": "commands"})
            passed = await agent.until("SlashCommands")
            longest = max(longest, trio.current_time() - sent)
            if find(passed, "RunEnd"):
                break
            await trio.sleep(given["steps"][1]["every_s"])
    assert longest <= expected["pong_latency_s_max"]
    assert agent.memory() - before < expected["rss_growth_mib_max"] << 20
    assert max(map(len, agent.stdout.split(b"\n"))) < 50_000 + 64 * 1024
    huge, endless = find(agent.events, "ToolResult")
    assert (huge["ok"], endless["ok"]) == (True, False)
    assert re.search(r"\[truncated \d+ chars\]", huge["content"])
    assert endless["content"].startswith("Command timed out after 2000ms\n")


# --- S-d: sessions -------------------------------------------------------------------------------------------


def journal(serve: PagentLauncher, session: str) -> Path:
    """The file that has the session's content."""
    (path,) = (path for path in (serve.data / "sessions").rglob(f"*{session}*") if path.read_bytes())
    return path


@case("S-d01")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_resume_after_a_crash_in_a_call(
    provider: str, case: JsonObject, serve: PagentLauncher, model: ModelService
) -> None:
    """The replay shows each call with its result, and so does the next request; nothing is run again."""
    given = case["input"]
    model.script(*replies(given["provider_script"]), *replies(given["provider_script_after_restart"]))
    agent = await serve(*given["argv"], provider=provider, expected=(-9,))
    await agent.user()
    await agent.until("ToolCallBegin", tool_call_id="t1")
    agent.kill()
    await agent.wait_exit()
    agent = await serve(*given["steps"][3]["restart"], provider=provider)
    replay = await agent.expect("HistoryReplay", thread_id="s-orphan")
    kinds = [(item["kind"], item.get("tool_call_id", "")) for item in replay["messages"]]
    calls = [(kind, call) for kind in ("tool_call", "tool_result") for call in ("t1", "t2")]
    assert kinds == [("text", ""), ("text", ""), *calls]
    events = await say(agent, "continue")
    assert names(events) == ["RunBegin", "TurnBegin", "TextDelta", "TurnResult", "TurnEnd", "RunEnd"]
    assert set(model.requests[1].results) == {"t1", "t2"}
    assert [said.strip() for said in model.requests[1].texts("user")] == ["go", "continue"]


def damage(path: Path, mutation: JsonObject) -> None:
    """Do to the journal what the case says."""
    content = path.read_bytes()
    if mutation["op"] == "cut_tail_bytes":
        content = content[: -mutation["n"]]
    elif mutation["op"] == "cut_tail_inside_utf8_char":
        content = content[: content.rindex("\U0001f600".encode()) + 2]
    else:
        content += base64.b64decode(mutation["base64"])
    path.write_bytes(content)


@case("S-d02")
@pytest.mark.parametrize("op", ["cut_tail_bytes", "cut_tail_inside_utf8_char", "append_bytes"])
async def test_a_torn_last_record(op: str, case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """What the replay tells after the second resume is what the model reads."""
    given = case["input"]
    (mutation,) = (mutation for mutation in given["mutations"] if mutation["op"] == op)
    answers = [turn["assistant"] for turn in given["turns"]]
    answers[-1] = mutation.get("last_assistant", answers[-1])
    model.script(*answers, "3", "4")
    agent = await serve("--session-id", "torn")
    for turn in given["turns"]:
        await say(agent, turn["user"])
    await serve.close(agent)
    damage(journal(serve, "torn"), mutation)
    for words in ("three", "four"):
        agent = await serve("--resume", "torn")
        replay = await agent.expect("HistoryReplay")
        await say(agent, words)
        await serve.close(agent)
    said = [item["text"] for item in replay["messages"] if item["role"] == "user"]
    assert said == ["one", "two", "three"]
    assert model.requests[-1].texts("user") == [*said, "four"]
    told = [item["text"] for item in replay["messages"] if item["role"] == "assistant"]
    assert (told[0], told[-1]) == ("1", "3")
    assert model.requests[-1].texts("assistant") == told


@both
@case("S-d03")
async def test_two_processes_and_one_session(
    case: JsonObject, codec: str, serve: PagentLauncher, model: ModelService
) -> None:
    """At the start that is an end; a running v4 agent says it and stays with its own thread."""
    assert "--resume s1 while A lives" in case["input"]["text"]
    model.script("1", "2")
    first = await serve("--session-id", "s1", codec=codec)
    await say(first, "one")
    before = journal(serve, "s1").read_bytes()
    arguments = [codec if argument == "aionrs" else argument for argument in serve.serve()]
    second = await serve.spawn(*arguments, "--resume", "s1", expected=(1,))
    assert await second.wait_exit(within=2) == 1
    assert "in use" in second.errors
    assert [event["where"] for event in second.events] == ([] if codec == "pagent" else ["open"])
    if codec == "pagent-v4":
        third = await serve("--session-id", "s3")
        await third.send({"cmd": "resume", "thread_id": "s1"})
        error = await third.expect("Error", where="resume")
        assert "in use" in error["message"]
        await say(third, "mine")
        assert model.requests[-1].texts("user") == ["mine"]
    assert journal(serve, "s1").read_bytes() == before


@case("S-d04")
async def test_a_fork_is_a_session_of_its_own(case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    assert "SHA-256" in case["input"]["text"]
    model.script("1", "2", "3", "4")
    agent = await serve("--session-id", "p1")
    await say(agent, "one")
    await say(agent, "two")
    await serve.close(agent)
    before = journal(serve, "p1").read_bytes()
    agent = await serve("--resume", "p1", "--fork-session")
    replay = await agent.expect("HistoryReplay")
    fork = replay["thread_id"]
    assert fork == find(agent.events, "CurrentThread")[0]["thread_id"] != "p1"
    assert [item["text"] for item in replay["messages"]] == ["one", "1", "two", "2"]
    await say(agent, "three")
    assert journal(serve, "p1").read_bytes() == before
    await agent.send({"cmd": "resume", "thread_id": "p1"})
    replay = await agent.expect("HistoryReplay", thread_id="p1")
    assert [item["text"] for item in replay["messages"]] == ["one", "1", "two", "2"]
    await agent.expect("CurrentThread", thread_id="p1")
    await say(agent, "to the parent")
    assert model.requests[-1].texts("user") == ["one", "two", "to the parent"]


@case("S-d05")
@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_runs_without_text(provider: str, case: JsonObject, serve: PagentLauncher, model: ModelService) -> None:
    """The strict service refuses empty messages. On this wire an empty answer is an answer."""
    given = case["input"]
    serve.write("a.txt", "x\n")
    model.script(*replies(given["provider_script"]))
    agent = await serve(provider=provider)
    await agent.user("a")
    await model.request(1)
    await agent.send({"cmd": "cancel"})
    assert (await agent.run())[-1]["stop_reason"] == "cancelled"
    events = await say(agent, "b")
    assert [event["ok"] for event in find(events, "ToolResult")] == [True]
    assert events[-1]["stop_reason"] == "empty_response"
    assert text(await say(agent, "c")) == "ok"
    said = " ".join(model.requests[-1].texts("user")).split()
    assert [word for word in said if word in ("a", "b", "c")] == ["a", "b", "c"]
