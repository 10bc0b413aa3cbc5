"""What is sent in all benchmarks: pieces of an answer as a model streams them, and the ids around them."""

from __future__ import annotations

import re
from itertools import cycle, islice

MSG_ID = "b7c1f0de-5a3e"
"""A turn's id as hosts make them."""

_ANSWER = """\
The function `split_lines` keeps the last line even when it has no line feed, so a file that ends early is still read \
whole.

```python
for line in split_lines(data):
    print(f"{line}")
```

It costs one copy per line – about 40 ns. Would you like me to change it?
"""

PIECES: tuple[str, ...] = tuple(re.findall(r" ?\w+|\s+|.", _ANSWER))
"""Mostly short words, some with what JSON has to escape, one that is not ASCII."""


def pieces(count: int) -> list[str]:
    """``count`` pieces, the answer over and over."""
    return list(islice(cycle(PIECES), count))


class NoSessions:
    """A view of a server without sessions, for an agent side that reads lines."""

    def has_session(self, session: str) -> bool:
        """No."""
        return False

    def turn_active(self, session: str = "") -> bool:
        """No."""
        return False

    def pending(self, request: str, session: str = "") -> bool:
        """No."""
        return False

    def active_session(self) -> str:
        """None."""
        return ""

    def is_directory(self, path: str) -> bool:
        """No."""
        return False
