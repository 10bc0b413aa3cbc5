"""Compaction: the history gives way to a summary when the window nears its end, and the session lives on."""

from __future__ import annotations

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from scripted import Bench, Call, Model, Probe, Reply, bench, calling, kinds, of, text_of

from agentwire.agent.compaction import HEADING, INSTRUCTIONS, LAST_REQUEST, first_kept, reserve, tokens_of, transcript
from agentwire.commands import Prompt, Stop
from agentwire.events import (
    CallRef,
    CompactionFailed,
    CompactionFinished,
    CompactionStarted,
    Image,
    RequestSent,
    RetryScheduled,
    StepStarted,
    Text,
    TurnFinished,
    Usage,
)
from agentwire.log.history import History
from agentwire.log.record import Record
from agentwire.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentwire.policy import Policy
from agentwire.provider.contract import ModelRequest, ProviderError

WINDOW = 10_000


def too_long() -> ProviderError:
    return ProviderError("prompt is too long", kind="context", status=400)


class Forgetful(Model):
    """A model with a window: it refuses what does not fit, and summarises when asked."""

    def __init__(self, *replies: Reply, window: int = WINDOW, summaries: list[Reply] | None = None) -> None:
        super().__init__(*replies)
        self.window = window
        self.summaries = summaries
        self.asked: list[ModelRequest] = []
        """The requests that were no request for a summary."""

    async def complete(self, request, emit):
        size = sum(map(tokens_of, request.messages)) + len(request.system) // 4
        if request.system == INSTRUCTIONS:
            reply = self.summaries.pop(0) if self.summaries else Reply("They talked.", usage=Usage(100, 10))
        elif size > self.window:
            self.asked.append(request)
            reply = Reply(fails=too_long())
        else:
            self.asked.append(request)
            reply = self.scripts[""].pop(0)  # type: ignore[index, union-attr]
            if reply.usage.input_tokens == 5:
                reply.usage = Usage(size, tokens_of(AssistantMessage(reply.text)))
        other = Model(reply)
        completion = await other.complete(request, emit)
        self.requests.append(request)
        return completion


def check_messages(messages: list[Message]) -> None:
    """Every call is answered right after it, in order, and no result stands without its call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting
            assert message.call_id == waiting.pop(0)
        else:
            assert not waiting
            if isinstance(message, AssistantMessage):
                waiting = [call.call_id for call in message.calls]
    assert not waiting


async def fill(b: Bench, turns: int = 4, size: int = 8_000) -> None:
    """Have a conversation of some turns."""
    for n in range(turns):
        b.model.scripts[""].append(Reply("y" * size))  # type: ignore[union-attr]
        b.send(Prompt(f"question {n} " + "x" * size))
        await b.server.idle()


async def test_near_the_end_of_the_window_the_history_is_summarised_before_the_request(tmp_path):
    model = Forgetful()
    async with bench(model, tmp_path, context_window=WINDOW) as b:
        await fill(b, turns=2)
        assert not of(CompactionStarted, [record.event for record in b.records()])
        model.scripts[""] = [Reply("done")]
        events = await b.finish("and now? " + "z" * 2_000)
        wanted = (StepStarted, CompactionStarted, CompactionFinished, RequestSent, TurnFinished)
        assert kinds(events, *wanted) == [
            "StepStarted", "CompactionStarted", "RequestSent", "CompactionFinished", "RequestSent", "TurnFinished",
        ]  # fmt: skip
        [finished] = of(CompactionFinished, events)
        assert finished.reason == of(CompactionStarted, events)[0].reason == "preflight"
        assert (finished.kept, finished.messages) == (1, 4)
        request = model.asked[-1]
        assert [type(message).__name__ for message in request.messages] == ["UserMessage", "UserMessage"]
        assert text_of(request.messages[0]) == f"{HEADING}\n\nThey talked."
        assert text_of(request.messages[1]).startswith("and now?")
        assert request.system == "Be brief."
        assert (events[-1].outcome, events[-1].text) == ("completed", "done")
        assert events[-1].usage.input_tokens > 100  # the summary's own tokens are the turn's
        asked = text_of(model.requests[-2].messages[0])
        assert asked.startswith("USER: question 0 xxx")
        assert "ASSISTANT: yyy" in asked


async def test_the_last_turns_stay_as_they_were(tmp_path):
    model = Forgetful()
    async with bench(model, tmp_path, context_window=WINDOW) as b:
        await fill(b, turns=1, size=14_500)
        await fill(b, turns=1, size=200)
        model.scripts[""] = [Reply("done")]
        before = b.session.history.messages()
        events = await b.finish("and now? " + "z" * 4_500)
        assert of(CompactionFinished, events)
        messages = b.session.history.messages()
        assert messages[1:3] == before[-2:]
        assert events[-1].outcome == "completed"


async def test_if_the_service_refuses_it_as_too_long_it_is_summarised_and_sent_once_more(tmp_path):
    model = Forgetful(window=10**9)
    async with bench(model, tmp_path) as b:
        await fill(b)
        model.window = WINDOW
        model.scripts[""] = [Reply("done")]
        events = await b.finish("and now?")
        assert [event.reason for event in of(CompactionStarted, events)] == ["context_overflow"]
        assert (events[-1].outcome, events[-1].text) == ("completed", "done")
        assert len(of(StepStarted, events)) == 1
        model.scripts[""] = [Reply("still here")]
        assert (await b.finish("and?"))[-1].text == "still here"


async def test_if_that_does_not_help_the_turn_fails_and_the_session_lives(tmp_path):
    model = Forgetful(window=10**9)
    async with bench(model, tmp_path) as b:
        await fill(b)
        model.window = 50
        events = await b.finish("x" * 4_000)
        assert len(of(CompactionFinished, events)) == 1
        assert (events[-1].outcome, events[-1].error.message) == ("failed", "prompt is too long")
        model.window = WINDOW
        model.scripts[""] = [Reply("better")]
        assert (await b.finish("short"))[-1].text == "better"


async def test_a_single_prompt_that_is_too_long_does_not_end_the_session(tmp_path):
    model = Forgetful()
    async with bench(model, tmp_path, context_window=WINDOW) as b:
        events = await b.finish("x" * 50_000)
        assert not of(CompactionStarted, events)  # there is nothing to summarise before it
        assert events[-1].outcome == "failed"
        model.scripts[""] = [Reply("much better")]
        events = await b.finish("shorter, then")
        assert events[-1].text == "much better"
        assert of(CompactionFinished, events)


async def test_a_failed_summary_is_told_and_the_turn_tries_without_it(tmp_path):
    auth = ProviderError("no such key", kind="auth")
    model = Forgetful(summaries=[Reply(fails=auth), Reply(fails=auth), Reply("")], window=10**9)
    async with bench(model, tmp_path, tools=[Probe("probe")], context_window=WINDOW, mode="yolo") as b:
        await fill(b)
        failed = of(CompactionFailed, [record.event for record in b.records()])
        assert [(event.reason, event.error) for event in failed] == [("preflight", "no such key")] * 2
        model.scripts[""] = [calling("probe"), Reply("done")]
        events = await b.finish("and now?")
        assert [event.error for event in of(CompactionFailed, events)] == ["the model gave no summary"]
        assert events[-1].outcome == "completed"  # its second step did not try again


async def test_a_summary_that_fails_for_the_moment_is_asked_for_again(tmp_path):
    busy = ProviderError("busy", kind="status", retryable=True, retry_after_ms=1)
    summaries = [Reply(fails=busy), Reply("They talked again.")]
    model = Forgetful(summaries=summaries)
    async with bench(model, tmp_path, context_window=WINDOW) as b:
        await fill(b, turns=2)
        model.scripts[""] = [Reply("done")]
        events = await b.finish("and now? " + "z" * 2_000)
        assert kinds(events, RetryScheduled, CompactionFinished) == ["RetryScheduled", "CompactionFinished"]
        assert of(CompactionFinished, events)[0].summary.endswith("They talked again.")


async def test_a_request_for_a_summary_that_is_too_long_itself_is_shortened(tmp_path):
    summaries = [Reply(fails=too_long()), Reply(fails=too_long()), Reply("short")]
    model = Forgetful(summaries=summaries, window=10**9)
    async with bench(model, tmp_path) as b:
        await fill(b, turns=10)
        model.window = WINDOW
        model.scripts[""] = [Reply("done")]
        assert (await b.finish("and now?"))[-1].text == "done"


async def test_a_stop_in_the_middle_of_it_leaves_the_history_as_it_was(tmp_path):
    model = Forgetful(summaries=[Reply("never", gate=trio.Event())])
    async with bench(model, tmp_path, context_window=WINDOW) as b:
        await fill(b, turns=2)
        before = b.session.history.messages()
        b.send(Prompt("and now? " + "z" * 2_000))
        await b.until(CompactionStarted)
        b.send(Stop())
        await b.server.idle()
        assert of(CompactionFailed, b.turn())[0].error == "stopped"
        assert b.turn()[-1].outcome == "cancelled"
        assert b.session.history.messages()[:-1] == before
        assert b.session.history.unfinished.compaction is None


async def test_in_the_middle_of_a_long_turn_the_request_is_kept_word_for_word(tmp_path):
    class Wordy(Probe):
        async def run(self, arguments, context):
            result = await super().run(arguments, context)
            result.output = "r" * 6_000
            return result

    calls = [Reply("", [Call("probe", {"n": n})]) for n in range(12)]
    model = Forgetful(*calls, Reply("done"))
    async with bench(model, tmp_path, tools=[Wordy("probe")], context_window=WINDOW, mode="yolo") as b:
        events = await b.finish("Find the needle.")
        assert events[-1].text == "done"
        finished = of(CompactionFinished, events)
        assert len(finished) > 1
        assert "Find the needle." in finished[0].summary
        for request in model.asked:
            check_messages(request.messages)
        assert sum(map(tokens_of, model.asked[-1].messages)) < WINDOW


async def test_a_subagents_history_is_its_own(tmp_path):
    policy = Policy("jan", delegates=True, shows_subagents=True)
    wordy = [calling("probe", {"n": "x" * 9_000}, usage=Usage()) for _ in range(8)]
    rest = [*wordy, Reply("worked")]

    def child(request):
        return Reply("so far so good") if request.system == INSTRUCTIONS else rest.pop(0)

    def main(request):
        return calling("dispatch_subagent", {"task": "work"}) if len(request.messages) == 1 else Reply("end")

    model = Model(scripts={"go": main, "": child})
    options = {"policy": policy, "tools": [Probe("probe")], "mode": "yolo", "subagents": True}
    async with bench(model, tmp_path, context_window=WINDOW, **options) as b:
        events = await b.finish()
        assert events[-1].outcome == "completed"
        origins = {bool(record.origin) for record in b.records() if isinstance(record.event, CompactionFinished)}
        assert origins == {True}
        assert not rest
        assert HEADING not in "".join(map(str, b.session.history.messages()))


# --- the parts ------------------------------------------------------------------------------------------------


def test_the_reserve():
    assert 200_000 - reserve(200_000, 0) == 167_000
    assert reserve(6_000, 0) == 1_000
    assert reserve(8_000, 100_000) == 4_000


TEXTS = st.integers(0, 3_000).map(lambda n: "t" * n)


@st.composite
def conversations(draw) -> list[Message]:
    messages: list[Message] = [UserMessage([Text(draw(TEXTS))])]
    number = 0
    for kind in draw(st.lists(st.sampled_from(["user", "answer", "calls"]), max_size=12)):
        if kind == "user":
            messages.append(UserMessage([Text(draw(TEXTS)), *draw(st.sampled_from([[], [Image("image/png", "aa")]]))]))
            continue
        calls = []
        for _ in range(draw(st.integers(1, 3)) if kind == "calls" else 0):
            number += 1
            calls.append(CallRef(f"c{number}", "probe", "{}"))
        items = draw(st.sampled_from([[], [Raw(b'{"type":"text"}')]]))
        messages.append(AssistantMessage(draw(TEXTS), calls=calls, items=items))
        messages += [ToolMessage(call.call_id, call.name, draw(TEXTS)) for call in calls]
    return messages


@settings(max_examples=200, deadline=None)
@given(messages=conversations(), budget=st.integers(0, 4_000))
def test_a_call_is_never_parted_from_its_results(messages, budget):
    cut = first_kept(messages, budget)
    assert 0 <= cut < len(messages)
    check_messages([UserMessage([Text("summary")]), *messages[cut:]])
    if cut and any(isinstance(message, UserMessage) for message in messages[cut:]):
        assert isinstance(messages[cut], UserMessage)  # whole turns, if any fit
    if cut and sum(map(tokens_of, messages[cut:])) > budget:
        # More than asked for stays only if it is one step, or one prompt.
        assert all(isinstance(message, ToolMessage) for message in messages[cut + 1 :])


@settings(max_examples=100, deadline=None)
@given(messages=conversations(), budget=st.integers(0, 4_000))
def test_the_fold_cuts_where_the_plan_says(messages, budget):
    history = History()
    history._messages = list(messages)
    cut = first_kept(messages, budget)
    history.feed(Record(1, 0, CompactionFinished("preflight", "summary", len(messages) - cut, cut)))
    kept = messages if not cut else [UserMessage([Text("summary")]), *messages[cut:]]
    if cut:
        assert history.messages() == kept
    assert history.counted == (0, 0)


@given(messages=conversations(), limit=st.integers(200, 20_000))
def test_what_is_summarised_fits(messages, limit):
    assert len(transcript(messages, limit)) <= limit + 60  # and the mark of what was cut


def test_the_last_request_is_kept_up_to_a_bound():
    assert LAST_REQUEST < WINDOW * 4
