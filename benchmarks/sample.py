"""What is sent in all benchmarks: pieces of an answer as a model streams them, and the ids around them."""

from __future__ import annotations

from itertools import cycle, islice

MSG_ID = "b7c1f0de-5a3e"
"""A turn's id as hosts make them."""

_ANSWER = (
    "The| function| `|split|_lines|`| keeps| the| last| line| even| when| it| has| no| line| feed|,| so| a| file|"
    " that| ends| early| is| still| read| whole|.|\n\n|```|python|\n|for| line| in| split|_lines|(|data|):\n|   |"
    " print|(|f|\"|{|line|}|\"|)\n|```|\n\n|It| costs| one| copy| per| line| –| about| 40| ns|.| Would| you| like|"
    " me| to| change| it|?|"
)


PIECES: tuple[str, ...] = tuple(_ANSWER.rstrip("|").split("|"))
"""Mostly short words, some with what JSON has to escape, one that is not ASCII."""


def pieces(count: int) -> list[str]:
    """``count`` pieces, the answer over and over."""
    return list(islice(cycle(PIECES), count))
