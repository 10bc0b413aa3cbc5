"""Who may run what: modes, allow list, standing permissions, and that a question is settled once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from agentwire.approvals import Approvals, Decision, Question
from agentwire.policy import Policy

ASKING = Policy()
LOOKING_FREE = Policy(free=frozenset({"info"}))
DUMB = Policy(can_ask=False, free=frozenset({"info"}))
BY_TOOL = Policy(always_covers="tool")


@pytest.mark.parametrize(
    ("policy", "mode", "allow", "call", "outside", "verdict"),
    [
        (ASKING, "default", (), ("Read", "info"), False, "ask"),
        (ASKING, "default", ("Read",), ("Read", "info"), False, "free"),
        (ASKING, "default", ("info",), ("Read", "info"), False, "free"),
        (ASKING, "default", ("info",), ("Read", "info"), True, "ask"),
        (ASKING, "auto_edit", (), ("Write", "edit"), False, "free"),
        (ASKING, "auto_edit", (), ("Write", "edit"), True, "ask"),
        (ASKING, "auto_edit", (), ("ExecCommand", "exec"), False, "ask"),
        (ASKING, "auto_edit", (), ("tool_a", "mcp"), False, "ask"),
        (ASKING, "yolo", (), ("ExecCommand", "exec"), False, "free"),
        (ASKING, "yolo", (), ("Write", "edit"), True, "free"),
        (LOOKING_FREE, "default", (), ("Read", "info"), False, "free"),
        (LOOKING_FREE, "default", (), ("Read", "info"), True, "ask"),
        (DUMB, "default", (), ("Read", "info"), False, "free"),
        (DUMB, "default", (), ("Write", "edit"), False, "refuse"),
        (DUMB, "default", (), ("Read", "info"), True, "refuse"),
    ],
)
def test_verdicts(policy, mode, allow, call, outside, verdict):
    approvals = Approvals(policy, mode=mode, allow=frozenset(allow))
    assert approvals.judge(*call, outside=outside) == verdict


@pytest.mark.parametrize("mode", ["default", "auto_edit", "yolo"])
def test_confine_refuses_what_leaves_the_workspace_in_every_mode(mode):
    approvals = Approvals(ASKING, mode=mode, allow=frozenset({"Read"}), confine=True)
    assert approvals.judge("Read", "info", outside=True) == "refuse"


def asked(approvals: Approvals, call_id: str, name: str = "Write", category: str = "edit") -> list[Decision]:
    decisions: list[Decision] = []
    approvals.ask(Question(f"q-{call_id}", call_id, name, category, decisions.append))
    return decisions


@pytest.mark.parametrize(("policy", "freed", "still_asked"), [(ASKING, "Edit", None), (BY_TOOL, "Write", "Edit")])
def test_always_covers_what_the_policy_says_and_outlives_modes(policy, freed, still_asked):
    approvals = Approvals(policy)
    asked(approvals, "c1")
    assert approvals.settle("q-c1", Decision(True, approvals.scope_of_always())) == "settled"
    for mode in ("yolo", "default"):
        approvals.mode = mode
    assert approvals.judge(freed, "edit") == "free"
    assert approvals.judge(freed, "edit", outside=True) == "ask"
    assert approvals.judge("ExecCommand", "exec") == "ask"
    if still_asked:
        assert approvals.judge(still_asked, "edit") == "ask"


def test_a_foreign_tool_that_is_called_like_a_category_gets_none_of_its_rights():
    approvals = Approvals(ASKING, allow=frozenset({"info"}))
    assert approvals.judge("info", "mcp") == "ask"
    assert approvals.judge("Read", "info") == "free"
    asked(approvals, "c1", "Write", "edit")
    approvals.settle("q-c1", Decision(True, "category"))
    assert approvals.judge("edit", "mcp") == "ask"


def test_a_denial_frees_nothing():
    approvals = Approvals(ASKING)
    asked(approvals, "c1")
    approvals.settle("q-c1", Decision(False, "category"))
    assert approvals.judge("Write", "edit") == "ask"


def test_when_there_is_nobody_to_ask_a_question_is_settled_at_once():
    approvals = Approvals(ASKING)
    gone = Decision(False, "call", "client_gone", "Client disconnected", cancelled=True)
    approvals.absent = gone
    assert asked(approvals, "c1") == [gone]
    assert approvals.open == []


class Questions(RuleBasedStateMachine):
    """Any order of questions and answers: every question is settled at most once, by the first answer."""

    questions = Bundle("questions")

    def __init__(self) -> None:
        super().__init__()
        self.approvals = Approvals(ASKING)
        self.count = 0
        self.decisions: dict[str, list[Decision]] = {}
        self.expected: dict[str, Decision | None] = {}

    @rule(target=questions)
    def ask(self) -> str:
        self.count += 1
        call_id = f"c{self.count}"
        self.decisions[call_id] = asked(self.approvals, call_id)
        self.expected[call_id] = None
        return call_id

    @rule(call_id=questions, allowed=st.booleans(), by_call=st.booleans())
    def answer(self, call_id: str, allowed: bool, by_call: bool) -> None:
        named = {"call_id": call_id} if by_call else {"approval_id": f"q-{call_id}"}
        found = self.approvals.find(**named)
        assert found is not None
        decision = Decision(allowed)
        if self.expected[call_id] is None:
            assert self.approvals.settle(found, decision) == "settled"
            self.expected[call_id] = decision
        else:
            assert self.approvals.settle(found, decision) == "already"

    @rule()
    def stop(self) -> None:
        for question in self.approvals.open:
            self.approvals.forget(question.approval_id)
            self.expected[question.call_id] = self.expected[question.call_id] or Decision(False, by="forgotten")

    @rule()
    def unknown(self) -> None:
        assert self.approvals.find(call_id="never") is None
        assert self.approvals.settle("never", Decision(True)) == "unknown"

    @invariant()
    def settled_once(self) -> None:
        for call_id, decisions in self.decisions.items():
            expected = self.expected[call_id]
            if expected is not None and expected.by != "forgotten":
                assert decisions == [expected]
            else:
                assert decisions == []


TestQuestions = Questions.TestCase
TestQuestions.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
