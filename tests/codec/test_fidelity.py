"""The fidelity model itself, on small tables: what follows from a row, and what is wrong with a bad one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from strategies import complete_log

from agentwire import events as bus
from agentwire.codec.contract import Heard
from agentwire.codec.fidelity import (
    EXACT,
    Declaration,
    Fidelity,
    Row,
    Rule,
    absent,
    invented,
    matrix_table,
    moved,
    narrowed,
)
from agentwire.log.record import Record

PLACE = {"seq": absent(), "time": absent(), "turn": absent(), "origin": EXACT}


class Story:
    """Remembers the notices so far."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.notices: list[str] = []

    def advance(self, record: Record) -> None:
        if isinstance(record.event, bus.Notice):
            self.notices.append(record.event.text)


def repeated(record: Record, story: Story) -> bool:
    return isinstance(record.event, bus.Notice) and record.event.text in story.notices


NOTICE = (
    Row(bus.Notice, "absent", "said before", when="repeated"),
    Row(bus.Notice, "narrowed", "", {
        "text": narrowed("shouted", lambda event, story: event.text.upper()),
        "level": absent(),
    }),
)  # fmt: skip
ERROR = (Row(bus.ErrorRaised, "exact", "", {"error": EXACT}),)
REST = tuple(Row(event, "absent") for event in bus.ALL_EVENTS if event not in (bus.Notice, bus.ErrorRaised))


def table(*rows: Row, **others: Any) -> Fidelity:
    given: dict[str, Any] = {
        "place": PLACE,
        "story": Story,
        "ref": lambda record, story: record.turn or None,
        "conditions": {"repeated": repeated},
        **others,
    }
    return Fidelity(rows, **given)


GOOD = table(*NOTICE, *ERROR, *REST)


def records(*events: bus.Event) -> list[Record]:
    return [Record(n, 0, event, n) for n, event in enumerate(events, 1)]  # type: ignore[arg-type]


LOG = records(bus.Notice("a", "warning"), bus.Notice("a"), bus.Notice("B"), bus.TextDelta("x"))


def test_what_survives() -> None:
    assert GOOD.surviving(LOG) == [Heard(bus.Notice("A"), ref=1), Heard(bus.Notice("B"), ref=3)]
    child = [Record(1, 0, bus.Notice("x"), 0, "run-1")]
    assert GOOD.surviving(child, "s1") == [Heard(bus.Notice("X"), "s1", None, "run-1")]


def test_losses_are_counted_where_something_differs() -> None:
    assert GOOD.losses(LOG) == {
        Declaration("notice", "text", "narrowed", "shouted"): 1,
        Declaration("notice", "level", "absent"): 1,
        Declaration("notice", "", "absent", "said before", "repeated"): 1,
        Declaration("text_delta", "", "absent"): 1,
    }


def test_hidden_records() -> None:
    hiding = table(
        *NOTICE, *ERROR, *REST,
        conditions={"repeated": repeated, "child": lambda record, story: bool(record.origin)},
        hidden={"child": "children are not shown"},
    )  # fmt: skip
    child = [Record(1, 0, bus.ErrorRaised(bus.ErrorInfo("x", "y")), 1, "run-1")]
    assert hiding.problems() == []
    assert hiding.surviving(child) == []
    assert hiding.losses(child) == {
        Declaration("error_raised", "", "absent", "children are not shown", "child"): 1,
    }


def test_an_event_may_become_others() -> None:
    turned = Row(
        bus.SessionClosed,
        "moved",
        "as two notices",
        becomes=lambda event, story: [bus.Notice(event.reason), bus.Notice(str(len(story.notices)))],
    )
    rest = tuple(row for row in REST if row.event is not bus.SessionClosed)
    moving = table(*NOTICE, *ERROR, turned, *rest)
    log = records(bus.Notice("x"), bus.SessionClosed("bye"))
    assert moving.problems() == []
    assert [heard.event for heard in moving.surviving(log)] == [bus.Notice("X"), bus.Notice("bye"), bus.Notice("1")]
    assert moving.losses(log)[Declaration("session_closed", "", "moved", "as two notices")] == 1


def test_the_matrix() -> None:
    cells = GOOD.matrix()
    assert list(cells) == [event.__struct_config__.tag for event in bus.ALL_EVENTS]
    assert (cells["notice"], cells["error_raised"], cells["text_delta"]) == ("◐–", "●", "–")
    lines = matrix_table({"one": GOOD, "two": GOOD}).splitlines()
    assert lines[:2] == ["| event | one | two |", "|---|:-:|:-:|"]
    assert "| `notice` | ◐– | ◐– |" in lines
    assert len(lines) == 2 + len(bus.ALL_EVENTS)


def test_declarations_list_everything() -> None:
    told = list(GOOD.declarations())
    assert Declaration("record", "origin", "exact") in told
    assert Declaration("notice", "text", "narrowed", "shouted") in told
    assert {one.event for one in told} == {"record", *GOOD.matrix()}


def broken(event: type[bus.Event], *rows: Row, **others: Any) -> list[str]:
    """What is wrong with the good table after all rows of one event were replaced."""
    kept = [row for row in (*NOTICE, *ERROR, *REST) if row.event is not event]
    return table(*kept, *rows, **others).problems()


def test_a_good_table_has_no_problems() -> None:
    assert GOOD.problems() == []
    assert broken(bus.Notice, *NOTICE) == []


@pytest.mark.parametrize(
    ("event", "rows", "problem"),
    [
        (bus.SessionOpened, (), "session_opened: needs rows"),
        (bus.Notice, NOTICE[:1], "notice: needs rows"),
        (bus.Notice, (NOTICE[1], NOTICE[0]), "notice: needs rows"),
        (bus.Notice, (NOTICE[0], NOTICE[1], NOTICE[1]), "notice: needs rows"),
        (bus.StepStarted, (Row(bus.StepStarted, "exact", "", {"index": EXACT}),), "no declaration of max"),
        (bus.HistoryCleared, (Row(bus.HistoryCleared, "exact", "", {"x": EXACT}),), "no such field: x"),
        (bus.ContextAdded, (Row(bus.ContextAdded, "exact", "", {"text": absent()}),), "exact, yet text is not"),
        (bus.ContextAdded, (Row(bus.ContextAdded, "narrowed", "", {"text": EXACT}),), "every field is exact"),
        (bus.ContextAdded, (Row(bus.ContextAdded, "narrowed", "", {"text": absent()}),), "needs a value"),
        (bus.ContextAdded, (Row(bus.ContextAdded, "absent", "", {"text": EXACT}),), "absent, yet"),
        (bus.ContextAdded, (Row(bus.ContextAdded, "moved"),), "no declaration of text"),
    ],
)
def test_problems_of_rows(event: type[bus.Event], rows: tuple[Row, ...], problem: str) -> None:
    assert any(problem in found for found in broken(event, *rows))


@pytest.mark.parametrize(
    ("others", "problem"),
    [
        ({"conditions": {}}, "condition 'repeated' is not defined"),
        ({"conditions": {"repeated": repeated, "x": repeated}}, "condition 'x' is never used"),
        ({"hidden": {"x": "why"}}, "condition 'x' is not defined"),
        ({"place": {"seq": EXACT}}, "record.time: no declaration"),
    ],
)
def test_problems_of_the_rest(others: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in broken(bus.Notice, *NOTICE, **others))


def test_rules() -> None:
    assert Rule("exact") == EXACT
    assert moved("there").verdict == "moved"
    assert invented("made up", lambda event, story: 1).verdict == "invented"
    assert moved("there").value is None


def test_the_complete_log_is_complete() -> None:
    """What other codecs' tests rely on: one log with every kind of event, well-formed."""
    log = complete_log()
    assert {type(record.event) for record in log} == set(bus.ALL_EVENTS)
    assert [record.seq for record in log] == list(range(1, len(log) + 1))
