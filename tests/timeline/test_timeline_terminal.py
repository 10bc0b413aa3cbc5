"""A timeline in the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from timed_recordings import CONVERSATION, RECORDINGS, request, text, write, write_journal

from agentwire.timeline import open_source
from agentwire.timeline.terminal import TURNS, duration, show


def printed(path: Path, width: int = 100, turns: tuple[int, ...] = (), everything: bool = False) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    show(open_source(path).timeline(), console, turns=turns, everything=everything)
    return out.getvalue().splitlines()


def test_a_recording_with_times(tmp_path: Path) -> None:
    lines = printed(write(tmp_path / "r", CONVERSATION))
    assert lines[1].startswith("aionrs  a test  2025-11-")
    assert lines[2:10] == [
        "  turns     1 completed, 1 failed, 3 steps",
        "  calls     1 ok, 1 denied",
        "  questions 1 allowed, 1 denied",
        "  tokens    1,234 in, 56 out",
        "  trouble   1 error",
        "  lines     15 agent, 4 host",
        "  time      5.1 s, 2.8 s of it between turns",
        "  mmmmmmmmmmtttttttpppppppppppppppp  model 700 ms  tools 500 ms  person 1.1 s",
    ]
    assert lines[11:22] == [
        "turn 1 completed  2.2 s  1,234 in, 56 out",
        "  hello there",
        "  mmmmmmmmmtttttttppppppppppppppppp  model 600 ms  tools 500 ms  person 1.1 s",
        "  step 1                                            ok            300 ms  ━━━━·····················",
        "    ? ExecCommand: Execute: ls                      ok             1.0 s  ···━━━━━━━━━━━━··········",
        "  ExecCommand: Execute: ls                          ok            500 ms  ··············━━━━━━━····",
        "  step 2                                            ok            200 ms  ····················━━━··",
        "    ? ExecCommand: Execute: </script><script>docum  denied        100 ms  ······················━━·",
        "  ExecCommand: Execute: </script><script>document.  denied             0  ························╸",
        "  step 3                                            ok             85 ms  ························━",
        "",
    ]
    assert lines[22:] == [
        "turn 2 failed  100 ms",
        "  and now fail",
        "  it broke",
        "  mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm  model 100 ms",
        "  ! it broke                                        error              0  ······················╸··",
    ]


def test_bars_lie_where_things_happened(tmp_path: Path) -> None:
    rows = printed(write(tmp_path / "r", CONVERSATION))
    bars = {row.split("  ")[1].strip(): row.split()[-1] for row in rows if row and row[-1] in "━·╸"}
    assert {len(bar) for bar in bars.values()} == {25}
    assert bars["step 1"].startswith("━")
    assert bars["step 1"].rstrip("·").count("━") == 4
    assert bars["step 3"].endswith("━")


def test_no_line_is_wider_than_the_terminal_however_narrow(tmp_path: Path) -> None:
    for width in (40, 80, 300):
        for line in printed(write(tmp_path / "r", CONVERSATION), width):
            assert len(line) <= min(width, 140)


def test_nothing_reaches_the_terminal_that_it_would_obey(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\x9b31m"
    lines = [
        *CONVERSATION[:1],
        (1, "host", {"type": "message", "msg_id": "m", "content": evil}),
        (2, "agent", {"type": "stream_start", "msg_id": "m"}),
        (3, "agent", text(evil)),
        (4, "agent", request("c1", evil)),
        (5, "agent", {"type": "error", "msg_id": "m", "error": {"code": "x", "message": evil, "retryable": False}}),
    ]
    for line in printed(write(tmp_path / "r", lines)):
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    assert any("\ufffd]0;owned" in line for line in printed(tmp_path / "r"))


def test_a_recording_without_times_shows_the_order() -> None:
    path = next(path for path in RECORDINGS if path.stem == "tool_failures")
    lines = printed(path)
    assert any("no times" in line for line in lines)
    assert not any(line.endswith(" ms") for line in lines)
    boom = next(line for line in lines if line.startswith("  boom"))
    assert "error" in boom
    assert "kaput" in boom


def test_a_journal_shows_subagents_and_retries(tmp_path: Path) -> None:
    lines = printed(write_journal(tmp_path / "s1.jsonl", "s1"))
    assert lines[1].startswith("journal")
    assert any("retry 1 of 2: reset" in line for line in lines)
    assert any(line.lstrip().startswith("sub: task") for line in lines)


def test_many_turns_are_cut_and_any_can_be_asked_for(tmp_path: Path) -> None:
    lines = list(CONVERSATION[:1])
    for number in range(TURNS + 5):
        name = f"m{number}"
        lines += [
            (10 * number + 1, "host", {"type": "message", "msg_id": name, "content": f"question {number + 1}"}),
            (10 * number + 2, "agent", {"type": "stream_start", "msg_id": name}),
            (10 * number + 9, "agent", {"type": "stream_end", "msg_id": name}),
        ]
    path = write(tmp_path / "r", lines)
    cut = printed(path)
    assert cut[-1] == "5 more turns; --all shows them, --turn N one of them"
    assert "  question 41" not in cut
    assert "  question 41" in printed(path, turns=(41,))
    assert "  question 40" not in printed(path, turns=(41,))
    assert "  question 45" in printed(path, everything=True)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_any_recording_can_be_shown(path: Path) -> None:
    lines = printed(path)
    assert lines[0].startswith(str(path)[:40])
    assert sum(line.startswith("turn ") for line in lines) == len(open_source(path).timeline().turns)


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        (0, "0"),
        (999, "999 µs"),
        (1500, "2 ms"),
        (1_250_000, "1.2 s"),
        (61_000_000, "1 m 01 s"),
        (3_720_000_000, "1 h 02 m"),
    ],
)
def test_times_as_a_person_reads_them(micros: int, words: str) -> None:
    assert duration(micros) == words
