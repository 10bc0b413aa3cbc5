"""Failure cases S-b, and those of S-a that name this wire: bytes, lines, and what a model's stream becomes.

Where the dialects read and do the same, one of them stands for both.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import pytest
import trio
from pagentcases import COMMANDS, both, classic, commands, say, still_there, translated, v4
from pagentserved import PagentLauncher, text
from support import noisy_plugin
from support.cases import case, lines, replies, stdin
from support.model_service import ModelService, wait_for
from support.patterns import find
from support.replies import Bytes, Gate, JsonObject, Reply, ToolCall, raw, sse

pytestmark = pytest.mark.slow

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


@case("S-b08")
@classic
async def test_noise_on_stdout(case: JsonObject, codec: str, serve: PagentLauncher) -> None:
    environ = noisy_plugin.install(serve.home, case["input"]["python"])
    arguments = ("serve", "--codec", codec, "--provider", "noisy", "--workspace", str(serve.workspace))
    agent = await serve.spawn(*arguments, environ=environ)
    assert text(await say(agent)) == noisy_plugin.SAYS
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
