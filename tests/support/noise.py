"""What no peer should send and some do: valid lines with a few bytes wrong, and JSON that means nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from strategies import texts

BITS = (b'"', b"{", b"}", b"[", b",", b":", b"\\", b"\\ud800", b"null", b"1e9", b"\xff")


@st.composite
def mutated(draw: Callable[[st.SearchStrategy[Any]], Any], lines: Sequence[bytes]) -> bytes:
    """A valid line with a few bytes changed, dropped, doubled or added."""
    line = bytearray(draw(st.sampled_from(lines)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        what = draw(st.integers(0, 3))
        if what == 0:
            line[at:at] = draw(st.sampled_from(BITS))
        elif what == 1:
            del line[at : at + draw(st.integers(1, 5))]
        elif what == 2:
            line[at : at + 1] = draw(st.binary(min_size=1, max_size=2))
        else:
            line += line[at:]
    return bytes(line).replace(b"\n", b" ")


def any_json(keys: Sequence[str], words: Sequence[str]) -> st.SearchStrategy[Any]:
    """JSON values in which the keys and words of a wire turn up in places that are not theirs."""
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(words),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=5),
        max_leaves=8,
    )


def json_lines(keys: Sequence[str], words: Sequence[str]) -> st.SearchStrategy[bytes]:
    """The same as lines; NaN and infinities as Python writes them."""
    return any_json(keys, words).map(lambda value: json.dumps(value).encode())
