"""Every failure case of ``tests/cases.jsonl`` is somebody's test, found by its id; what is left out has a reason.

A test has a case if its name holds the id (``test_s_f03_...``), if a decorator gives it the case
(``@case("S-c01")``) or if it takes the case's data from the file (``CASES["S-a17"]``). Cases of one kind that are
played all alike are found by their kind.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = {case["id"]: case for case in map(json.loads, (TESTS / "cases.jsonl").read_text("ascii").splitlines())}

PLAYED_BY_KIND = {"sse_chunks": ("providers/test_stream_cases.py", "test_case")}
"""Kinds of input that one test plays whole: its module and function."""

OUT_OF_SCOPE = dict.fromkeys(
    ("S-g01", "S-g02", "S-g03", "S-g04", "S-g05"),
    "needs agentwire's own HTTP and WebSocket server, which there is not: every wire so far is on standard streams",
)

_ID = re.compile(r"S-[a-z][0-9]{2}")
_IN_NAME = re.compile(r"(?<![a-z0-9])s_([a-z][0-9]{2})(?![0-9])")


def _tests() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every test function, with its module's path."""
    for path in sorted(TESTS.rglob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield path.relative_to(TESTS).as_posix(), node


def _claimed(test: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The ids of the cases that a test has. What its docstring says does not count."""
    found = {f"S-{number}" for number in _IN_NAME.findall(test.name)}
    for node in ast.walk(test):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _ID.fullmatch(node.value):
            found.add(node.value)
    return found


@pytest.fixture(scope="module")
def coverage() -> dict[str, list[str]]:
    """The tests of each case: ``module::function``."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, test in _tests():
        for case in _claimed(test):
            found[case].append(f"{module}::{test.name}")
        for kind, place in PLAYED_BY_KIND.items():
            if place == (module, test.name):
                for case, content in CASES.items():
                    if content["input"]["kind"] == kind:
                        found[case].append(f"{module}::{test.name}")
    return found


@pytest.mark.parametrize("case", sorted(CASES.keys() - OUT_OF_SCOPE.keys()))
def test_a_case_has_a_test(case: str, coverage: dict[str, list[str]]) -> None:
    assert coverage.get(case), f"no test plays {case}: {CASES[case]['title']}"


def test_no_test_claims_a_case_that_there_is_not(coverage: dict[str, list[str]]) -> None:
    strangers = {case: tests for case, tests in coverage.items() if case not in CASES}
    assert strangers == {}


def test_what_is_out_of_scope_needs_the_server_that_is_missing() -> None:
    """As soon as there is one, its cases must be played."""
    assert {CASES[case]["area"] for case in OUT_OF_SCOPE} == {"g-transport"}
    assert {case for case, content in CASES.items() if content["area"] == "g-transport"} == set(OUT_OF_SCOPE)
    assert not (TESTS.parent / "agentwire" / "transport" / "http.py").exists()


@pytest.mark.parametrize(("kind", "place"), PLAYED_BY_KIND.items())
def test_a_kind_that_is_played_whole_is_taken_from_the_file(kind: str, place: tuple[str, str]) -> None:
    module, name = place
    source = (TESTS / module).read_text("utf-8")
    assert f'["kind"] == "{kind}"' in source
    assert f"def {name}(" in source
