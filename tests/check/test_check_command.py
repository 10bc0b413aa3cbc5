"""``agentwire check``: our own programs pass, others are told what is wrong with them, in three forms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from described_peer import Described, put, write
from peer_runs import aionrs, ready, text_delta

pytestmark = pytest.mark.slow

CHECK = [sys.executable, "-m", "agentwire", "check"]
PEER = [sys.executable, str(Path(__file__).with_name("peer_program.py"))]
CHAT = [sys.executable, "-m", "agentwire", "chat", "--yes", "--prompt", "hi", "--codec"]

WIRES = ["aionrs", "pagent", "pagent-v4", "jan", "jan-stream", "levpro"]


def check(*arguments: str, timeout: float = 280) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CHECK, *arguments], capture_output=True, text=True, timeout=timeout, check=False)


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    return {finding["id"]: finding["verdict"] for finding in json.loads(done.stdout)["findings"]}


NOT_SEEN = {
    # any model will do for our scripted service
    ("jan", "agent"): {"model-unknown"},
    # we have no slash commands
    ("pagent-v4", "agent"): {"slash"},
    ("jan", "host"): {
        "slow-agent", "host-tool", "host-tool-child", "host-tool-unknown", "host-tool-withdrawn",
    },  # `agentwire chat` has no tools; who has is checked below
    ("jan-stream", "host"): {"slow-agent", "command-line"},
    **{(wire, "host"): {"slow-agent"} for wire in ("pagent", "pagent-v4", "levpro")},
}  # fmt: skip
"""What our own programs give no occasion to see."""


def all_hold(done: subprocess.CompletedProcess[str], wire: str, role: str) -> None:
    assert done.returncode == 0, done.stdout
    found = verdicts(done)
    wrong = {name: verdict for name, verdict in found.items() if verdict != "passed"}
    assert wrong == dict.fromkeys(NOT_SEEN.get((wire, role), ()), "unseen"), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_our_own_agent_passes_all(wire):
    all_hold(check("agent", "--codec", wire, "--timeout", "30", "--json"), wire, "agent")


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
def test_our_own_host_passes_all(wire):
    done = check("host", "--codec", wire, "--timeout", "30", "--json", "--", *CHAT, wire, "--", "{agent}")
    all_hold(done, wire, "host")


@pytest.mark.slow
def test_our_own_host_with_tools_passes_all_about_them():
    asked = [word for name in NOT_SEEN["jan", "host"] - {"slow-agent"} for word in ("--only", name)]
    program = [sys.executable, str(Path(__file__).with_name("host_with_tools.py"))]
    done = check("host", "--codec", "jan", "--timeout", "30", "--json", *asked, "--", *program, "{agent}")
    assert done.returncode == 0, done.stdout
    assert set(verdicts(done).values()) == {"passed"}, done.stdout


@pytest.mark.parametrize("wire", WIRES)
def test_our_own_agent_talks(wire):
    done = check("agent", "--codec", wire, "--timeout", "30", "--json", "--only", "talk", "--only", "order")
    assert done.returncode == 0, done.stdout
    assert verdicts(done) == {"talk": "passed", "order": "passed"}


@pytest.mark.parametrize("wire", WIRES)
def test_our_own_host_talks(wire):
    done = check("host", "--codec", wire, "--timeout", "30", "--json", "--only", "talk", "--only", "leaves", "--only",
                 "order", "--", *CHAT, wire, "--", "{agent}")  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert set(verdicts(done).values()) == {"passed"}, done.stdout


@pytest.fixture
def wrong_agent(tmp_path) -> list[str]:
    """Says something of its own on standard output."""
    peer = Described(aionrs(Described()))
    return [*PEER, str(put(peer.with_before(0, b"warning: no colours\n"), tmp_path / "deeds.json"))]


def test_what_is_wrong_is_told_to_people(wrong_agent):
    done = check("agent", "--timeout", "5", "--only", "talk", "--only", "only-lines", "--", *wrong_agent)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "line 1 is not a JSON object" in " ".join(done.stdout.split())
    assert "1 hold, 1 broken" in done.stdout
    assert "agent: warning: no colours" in done.stdout


def test_what_is_wrong_is_told_to_machines(wrong_agent, tmp_path):
    report = tmp_path / "report.xml"
    done = check(
        "agent", "--json", "--junit", str(report), "--only", "talk", "--only", "only-lines", "--", *wrong_agent
    )
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["ok"] is False
    assert verdicts(done) == {"talk": "passed", "only-lines": "failed"}
    suites = ElementTree.parse(report).getroot()
    assert suites.attrib == {"tests": "2", "failures": "1", "skipped": "0", "errors": "0"}
    (failure,) = suites.iter("failure")
    assert failure.attrib["message"].startswith("line 1 is not a JSON object")


def test_what_goes_against_advice_only_does_not_count(tmp_path):
    peer = Described(aionrs(Described()))
    argv = [*PEER, str(put(peer.with_last({"type": "agentwire_unknown"}), tmp_path / "deeds.json"))]
    done = check("agent", "--json", "--only", "advice", "--", *argv)
    assert done.returncode == 0
    assert verdicts(done) == {"advice": "failed"}


def test_what_cannot_be_seen_is_said(tmp_path):
    """An agent whose model calls no tool."""
    peer = Described(aionrs(Described()))
    done = check("agent", "--json", "--only", "approval", "--", *PEER, str(put(peer.deeds, tmp_path / "deeds.json")))
    assert done.returncode == 0
    assert verdicts(done) == {"approval": "unseen"}


def test_an_agent_that_says_nothing_is_not_waited_for_long(tmp_path):
    argv = [*PEER, str(put([("hang", None)], tmp_path / "deeds.json"))]
    done = check("agent", "--timeout", "0.5", "--only", "ready", "--", *argv, timeout=60)
    assert done.returncode == 1
    assert "no ready with all of its keys came" in " ".join(done.stdout.split())


def test_requirements_are_listed():
    done = check("agent", "--codec", "jan", "--list")
    assert done.returncode == 0
    assert "turn/start is answered first" in done.stdout
    assert all(line.split()[1] in ("must", "should") for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["agent", "--codec", "nope", "--", "true"], 2, "nope"),
        (["agent", "--only", "nope", "--", "true"], 2, "no requirement nope"),
        (["agent", "--", "/no/such"], 1, "cannot be started"),
        (["host"], 2, "Missing argument"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, status, said):
    done = check(*arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_an_agent_that_takes_its_task_and_its_tools_on_the_command_line(tmp_path):
    """As `jan cli agent run --host-tools FILE TASK` does."""
    script = tmp_path / "script.jsonl"
    replies = [
        {"match": "host__agentwire_probe", "tool_calls": [{"name": "host__agentwire_probe", "arguments": {}}]},
        {"match": "hello", "text": "Hello."},
        {"text": "Done."},
    ]
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    program = tmp_path / "agent.py"
    program.write_text(
        "import pathlib, sys\n"
        "from agentwire.cli import main\n"
        "tools = pathlib.Path(sys.argv[1]).read_text()\n"
        "tools = ['--codec-option', f'host_tools={tools}']\n"
        f"model = ['--provider', 'script', '--provider-option', 'script={script}']\n"
        "sys.argv[1:] = ['serve', '--codec', 'jan-stream', '--ephemeral', *model, *tools, sys.argv[2]]\n"
        "main()\n"
    )
    done = check("agent", "--codec", "jan-stream", "--json", "--only", "run", "--only", "last", "--only", "host-call",
                 "--timeout", "20", "--", sys.executable, str(program), "{host_tools}", "{task}")  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert verdicts(done) == {"run": "passed", "last": "passed", "host-call": "passed"}


def test_a_run_that_comes_off_is_held_to_the_rules_of_the_wire(tmp_path):
    """Each step of the play comes, and one line that the play does not wait for is out of order."""
    peer = Described(aionrs(Described()))
    argv = [*PEER, str(put(peer.with_before(3, {**text_delta, "msg_id": "other"}), tmp_path / "deeds.json"))]
    done = check("agent", "--json", "--only", "text", "--timeout", "5", "--", *argv)
    assert done.returncode == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert "line 4: text_delta" in finding["why"]


def test_an_agent_that_dies_is_not_said_to_have_called_no_tool(tmp_path):
    start = {"type": "stream_start", "msg_id": "m"}
    argv = [*PEER, str(put([write(ready), ("read", None), write(start), ("exit", 1)], tmp_path / "deeds.json"))]
    done = check("agent", "--json", "--only", "approval", "--", *argv)
    assert done.returncode == 1
    assert "no tool_request came: the output has ended" in done.stdout


STREAM_HOST = """
import json, os, subprocess, sys
agent = subprocess.Popen(
    [os.environ["AGENTWIRE_CHECK_AGENT"], *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
for line in agent.stdout:
    event = json.loads(line)
    if event["type"] == "permission_request":
        answer = {"type": "permission", "request_id": event["request_id"], "decision": "deny"}
        agent.stdin.write(json.dumps(answer).encode() + b"\\n")
        agent.stdin.flush()
sys.exit(agent.wait())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["cli", "agent", "run", "--output-format", "stream-json", "--input-format=stream-json", "hi"], "passed"),
        (["cli", "agent", "run", "--output-format=stream-json", "hi"], "failed"),
        (["cli", "agent", "step", "--output-format=stream-json", "--input-format=stream-json", "hi"], "failed"),
    ],
)
def test_a_host_gives_the_task_to_the_command_line(words, verdict, tmp_path):
    program = tmp_path / "host.py"
    program.write_text(STREAM_HOST, encoding="utf-8")
    done = check("host", "--codec", "jan-stream", "--timeout", "10", "--json", "--only", "talk", "--only",
                 "command-line", "--", sys.executable, str(program), *words)  # fmt: skip
    assert verdicts(done) == {"talk": "passed", "command-line": verdict}, done.stdout


HOST = """
import json, os, subprocess, sys
stay = "--stay" in sys.argv
agent = subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
agent.stdout.readline()
agent.stdin.write(b'{"type":"message","msg_id":"m","content":"hi"}\\n')
agent.stdin.flush()
for line in agent.stdout:
    event = json.loads(line)
    if event["type"] == "tool_request":
        answer = {"type": "tool_deny", "call_id": event["call_id"]}
        agent.stdin.write(json.dumps(answer).encode() + b"\\n")
        agent.stdin.flush()
    if event["type"] == "stream_end" and not stay:
        break
agent.stdin.close()
agent.wait()
"""


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("os.environ['AGENTWIRE_CHECK_AGENT']", []),
        ("['my-agent']", ["--as", "my-agent"]),
        ("os.environ['AGENTWIRE_CHECK_AGENT']", ["--stays"]),
    ],
)
def test_hosts_that_take_no_command_find_their_agent(start, options, tmp_path):
    program = tmp_path / "host.py"
    program.write_text(HOST.replace("AGENT,", f"{start},"), encoding="utf-8")
    stay = ["--stay"] if "--stays" in options else []
    done = check("host", "--timeout", "10", "--json", *options, "--only", "approval", "--only", "lines", "--",
                 sys.executable, str(program), *stay)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert verdicts(done) == {"lines": "unseen" if stay else "passed", "approval": "passed"}


def test_a_host_that_starts_no_agent_is_told_so():
    done = check("host", "--timeout", "5", "--only", "talk", "--", sys.executable, "-c", "pass")
    assert done.returncode == 1
    assert "the host did not start its agent" in done.stdout


def test_a_host_that_cannot_take_an_unknown_event(tmp_path):
    program = tmp_path / "host.py"
    strict = 'event = json.loads(line)\n    if event["type"].startswith("agentwire"): sys.exit(4)'
    program.write_text(
        HOST.replace("AGENT,", "os.environ['AGENTWIRE_CHECK_AGENT'],").replace("event = json.loads(line)", strict)
    )
    argv = [sys.executable, str(program)]
    done = check("host", "--timeout", "5", "--json", "--only", "talk", "--only", "line-type", "--", *argv)
    assert done.returncode == 1
    assert verdicts(done) == {"talk": "passed", "line-type": "failed"}
