"""Findings for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from agentwire.check.findings import Finding

if TYPE_CHECKING:
    from rich.console import Console

TAIL = 12
"""Lines of a run that are shown with a failure."""

LEGEND: Final = "Sections are those of the wire's specification. --only ID checks one requirement alone."

_MARKS: Final = {
    ("passed", "must"): ("ok", "green"),
    ("passed", "should"): ("ok", "green"),
    ("failed", "must"): ("FAILED", "bold red"),
    ("failed", "should"): ("advice", "yellow"),
    ("unseen", "must"): ("not seen", "dim"),
    ("unseen", "should"): ("not seen", "dim"),
}


def print_table(findings: Sequence[Finding], console: Console, title: str) -> None:
    """A table of all findings, what happened in the runs that failed, and a sum."""
    from rich.table import Table

    table = Table(title=_plain(title), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in ("", "requirement", "section", "what is asked"):
        table.add_column(column, no_wrap=column in ("", "requirement"))
    for finding in findings:
        asked = finding.requirement
        mark, style = _MARKS[finding.verdict, asked.level]
        text = f"{asked.text}\n→ {finding.why}" if finding.why else asked.text
        table.add_row(f"[{style}]{mark}[/]", _plain(asked.id), _plain(asked.section), _plain(text))
    console.print(table)
    for finding in findings:
        if finding.verdict == "failed":
            console.print(f"\n{finding.requirement.id}: {finding.why}", style="bold", markup=False)
            console.print("\n".join(story(finding)), markup=False, highlight=False, soft_wrap=True)
    console.print("\n" + summary(findings), style="bold", markup=False)
    console.print(LEGEND, style="dim", markup=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def summary(findings: Sequence[Finding]) -> str:
    """How many passed, failed, and were not seen."""
    counts = Counter(_MARKS[finding.verdict, finding.requirement.level][0] for finding in findings)
    names = (("ok", "hold"), ("FAILED", "broken"), ("advice", "against advice"), ("not seen", "not seen"))
    return ", ".join(f"{counts[mark]} {name}" for mark, name in names)


def story(finding: Finding) -> list[str]:
    """The last lines of a run, and the end of the program's standard error."""
    run = finding.transcript
    if run is None:
        return []
    lines = [f"  {said.who:>5}: {said.line[:160].decode(errors='replace')}{'…' * (len(said.line) > 160)}"
             for said in run.lines[-TAIL:]]  # fmt: skip
    return lines + [f"  stderr: {line}" for line in run.stderr.strip().splitlines()[-3:]]


def as_json(findings: Sequence[Finding], codec: str, role: str) -> dict[str, Any]:
    """Everything, for a program to read."""
    return {
        "codec": codec,
        "role": role,
        "ok": not any(finding.fatal for finding in findings),
        "findings": [
            {
                "id": finding.requirement.id,
                "level": finding.requirement.level,
                "section": finding.requirement.section,
                "text": finding.requirement.text,
                "verdict": finding.verdict,
                "why": finding.why,
            }
            for finding in findings
        ],
    }


def junit(findings: Sequence[Finding], codec: str, role: str) -> bytes:
    """JUnit XML: a test case a requirement; what goes against advice only, or was not seen, is skipped."""
    failed = sum(finding.fatal for finding in findings)
    skipped = sum(finding.verdict != "passed" and not finding.fatal for finding in findings)
    counts = {"tests": str(len(findings)), "failures": str(failed), "skipped": str(skipped), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": f"agentwire check {role} {codec}", **counts})
    for finding in findings:
        asked = finding.requirement
        case = ElementTree.SubElement(suite, "testcase", {"classname": f"{codec}.{role}", "name": asked.id})
        if finding.verdict != "passed":
            kind = "failure" if finding.fatal else "skipped"
            told = ElementTree.SubElement(case, kind, {"message": _clean(finding.why)})
            told.text = _clean("\n".join([f"{asked.text} (section {asked.section}, {asked.level})", *story(finding)]))
    ElementTree.indent(suites)
    document: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _clean(text: str) -> str:
    """XML has no control characters, whatever a program wrote."""
    return "".join(
        char if char in "\t\n" or (char >= " " and char not in "\ufffe\uffff") else "\ufffd" for char in text
    )
