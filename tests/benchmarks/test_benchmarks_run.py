"""The benchmarks run: each in its quickest form, for what it does and not for what it finds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = {
    "rendering": 2, "decoding": 2, "every_wire": 11, "log_to_pipe": 2, "append_latency": 2, "reading_lines": 1,
    "model_to_pipe": 1, "provider_stream": 2, "first_line": 1, "session_memory": 2, "stored_sessions": 2,
    "replay_recording": 2, "task_steps": 1, "tap_latency": 1,
}  # fmt: skip
"""How many figures each benchmark gives."""

LIGHT = {"rendering", "decoding", "log_to_pipe", "reading_lines", "task_steps"}
"""Those that start no program of seconds and import no SDK."""


def benchmarks(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``python benchmarks``."""
    command = [sys.executable, str(ROOT / "benchmarks"), *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False)


def report(path: Path) -> dict[str, Any]:
    """What ``--json`` wrote."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def check(found: dict[str, Any], name: str, output: str) -> None:
    """One benchmark ran and gave its figures."""
    assert name not in found["errors"], found["errors"]
    figures = [figure for figure in found["figures"] if figure["benchmark"] == name]
    assert len(figures) == FIGURES[name]
    for figure in figures:
        values = [*figure["measured"].values(), figure["goal"]]
        assert len(values) == 4
        assert all(math.isfinite(value) and value > 0 for value in values), figure
        assert figure["what"] in output


def run_quickly(names: Iterable[str], folder: Path, *more: str) -> dict[str, Any]:
    """Run these benchmarks in their quickest form and check all their figures; the report."""
    only = [word for name in names for word in ("--only", name)]
    done = benchmarks("--quick", *only, *more, "--json", "found.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = report(folder / "found.json")
    assert found["quick"] is True
    assert {figure["benchmark"] for figure in found["figures"]} == set(names)
    for name in names:
        check(found, name, done.stdout)
    return found


def test_what_runs_in_one_process(tmp_path: Path) -> None:
    assert run_quickly(LIGHT, tmp_path)["rounds"] == 1


def test_rounds_can_be_chosen(tmp_path: Path) -> None:
    assert run_quickly(["task_steps"], tmp_path, "--rounds", "2")["rounds"] == 2


@pytest.mark.slow
def test_what_needs_peers_and_whole_programs(tmp_path: Path) -> None:
    run_quickly(FIGURES.keys() - LIGHT, tmp_path)


@pytest.mark.parametrize(("goal", "status"), [(1e-9, 1), (1e9, 0)])
def test_check_tells_a_missed_goal(goal: float, status: int, tmp_path: Path) -> None:
    """A goal that nobody can miss, and one that nobody can keep."""
    program = (
        "import sys; from benchmarks import task_steps, command; measure = task_steps.measure\n"
        "def strict(effort):\n"
        "    for figure in measure(effort):\n"
        f"        figure.goal = {goal}\n"
        "        yield figure\n"
        "task_steps.measure = strict; command.main(['--quick', '--only', 'task_steps', '--check'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert ("NO" in done.stdout) is bool(status)


def test_help_names_every_benchmark(tmp_path: Path) -> None:
    done = benchmarks("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(name in done.stdout for name in FIGURES)
