"""Noticing that a turn's calls fail again and again (aionrs protocol, section 2.9).

Three signs, each with a number at which the model is warned and one at which it gets no more tools: the same call with
the same arguments, rounds in which every call fails, and failing rounds that come round in a cycle. A success anywhere
starts the latter two anew, a success of the same call the first.
"""

from __future__ import annotations

SAME_CALL = (2, 3)
ROUNDS = (3, 8)
CYCLES = (2, 3)
PERIODS = (2, 3, 4)

SAME_CALL_WARNING = (
    "This call has failed before with the same arguments. Do not repeat it unchanged: change it, use another tool, or "
    "answer with what you have."
)
ROUNDS_WARNING = "Every call of the last {n} rounds has failed. Find out what stands in the way before you go on."
CYCLE_WARNING = "The same failing calls come round again and again. Try something else, or answer with what you have."

Key = tuple[str, str]


class FailureGuard:
    """The failures of one conversation in one turn. Tell it how every call ended."""

    __slots__ = ("_failures", "_round", "_rounds", "hopeless")

    def __init__(self) -> None:
        self.hopeless = False
        """The model should get no more tools in this turn."""
        self._failures: dict[Key, int] = {}
        self._rounds: list[tuple[Key, ...]] = []
        """The latest rounds, as far back as every call in them failed."""
        self._round: list[tuple[Key, bool]] = []

    def note(self, name: str, arguments: str, *, failed: bool, last: bool) -> str:
        """A call of this round has ended; ``last``: all of them have. What to warn the model of, or ``""``."""
        key = (name, arguments)
        self._round.append((key, failed))
        same = self._same(key, failed)
        rounds = self._round_over() if last else ""
        return same or rounds

    def _same(self, key: Key, failed: bool) -> str:
        if not failed:
            self._failures.pop(key, None)
            return ""
        times = self._failures[key] = self._failures.get(key, 0) + 1
        return self._judged(times, SAME_CALL, SAME_CALL_WARNING)

    def _round_over(self) -> str:
        calls, self._round = self._round, []
        if not all(failed for _, failed in calls):
            self._rounds.clear()
            return ""
        self._rounds.append(tuple(sorted(key for key, _ in calls)))
        count = len(self._rounds)
        cycle = self._judged(max(map(self._repetitions, PERIODS)), CYCLES, CYCLE_WARNING)
        return self._judged(count, ROUNDS, ROUNDS_WARNING.format(n=count)) or cycle

    def _repetitions(self, period: int) -> int:
        """How often the last ``period`` rounds stand at the end one after the other; rounds all alike are no cycle."""
        block = self._rounds[-period:]
        if len(block) < period or len(set(block)) == 1:
            return 0
        times, rounds = 0, list(self._rounds)
        while rounds[-period:] == block:
            times += 1
            del rounds[-period:]
        return times

    def _judged(self, times: int, thresholds: tuple[int, int], warning: str) -> str:
        warn, stop = thresholds
        self.hopeless = self.hopeless or times >= stop
        return warning if times >= warn else ""
