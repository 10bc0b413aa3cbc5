"""How fast a recording passes: as it did, faster, at once, or one piece after another as a person asks for them."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Says how long to wait before something that happened at a time of the recording.

    ``speed`` is a factor; 0 is at once. Times count from the first that is asked for, or from :meth:`restart`.
    """

    def __init__(self, speed: float = 1.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._speed = speed
        self._clock = clock
        self._from: tuple[int, float] | None = None

    @property
    def instant(self) -> bool:
        """Nothing is waited for."""
        return not self._speed

    def delay(self, at: int) -> float:
        """Seconds from now until ``at`` (microseconds of the recording); 0 if that is over."""
        if not self._speed:
            return 0.0
        if self._from is None:
            self._from = at, self._clock()
            return 0.0
        began, started = self._from
        return max(0.0, started + (at - began) / 1e6 / self._speed - self._clock())

    def restart(self, at: int) -> None:
        """Count from ``at``, which is now: somebody was waited for."""
        self._from = at, self._clock()
