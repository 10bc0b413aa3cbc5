"""Post-processing of tool output (aionrs protocol, section 4.0)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentwire.text import scrub
from agentwire.tools.output import Excerpt, clean, compact, post_process, truncate

TEXTS = st.text(st.sampled_from('ab \t\n\r\x1b[31m{}",:é😀\0\ud83d\ude00'), max_size=80)


@pytest.mark.parametrize(
    ("given_text", "scrubbed"),
    [
        ("plain", "plain"),
        ("grün 😀", "grün 😀"),
        ("half \ud83d end", "half \ufffd end"),
        ("half \udc00", "half \ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("caf\udce9.txt", "caf\ufffd.txt"),
    ],
)
def test_scrub(given_text: str, scrubbed: str) -> None:
    assert scrub(given_text) == scrubbed


@given(st.text(st.characters(exclude_categories=[])))
def test_what_is_scrubbed_can_be_written_anywhere(text: str) -> None:
    scrubbed = scrub(text)
    assert scrubbed.encode().decode() == scrubbed
    assert scrub(scrubbed) == scrubbed


def test_text_without_surrogates_is_not_copied() -> None:
    for text in ("ascii", "größer"):
        assert scrub(text) is text


def test_nul_becomes_visible() -> None:
    assert clean("a\0b") == "a\ufffdb"


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefgh", 6, "abc\n\n... [truncated 2 chars] ...\n\nfgh"),
        ("abcdefgh", 7, "abc\n\n... [truncated 1 chars] ...\n\nfgh"),
        ("ééééé", 4, "éé\n\n... [truncated 1 chars] ...\n\néé"),
        ("😀" * 9, 2, "😀\n\n... [truncated 7 chars] ...\n\n😀"),
    ],
)
def test_truncation_counts_characters(text: str, limit: int, cut: str) -> None:
    assert truncate(text, limit) == cut
    assert truncate(cut, limit) == cut


@pytest.mark.parametrize(
    ("raw", "tidy"),
    [
        ("Exit code: 0\nSTDOUT:\n\nSTDERR:\n", "Exit code: 0\nSTDOUT:\n\nSTDERR:"),
        ("Exit code: 0\nSTDOUT:\nhi\n\nSTDERR:\n", "Exit code: 0\nSTDOUT:\nhi\n\nSTDERR:"),
        ("\x1b[31mError\x1b[0m: x", "Error: x"),
        ("\x1b[2K\x1b[1G> prompt", "> prompt"),
        ("\x1b]0;title\x07x \x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "x link"),
        ("\x1bPdata\x1b\\y\x1b(Bz\x1bc", "yz"),
        ("10%\r50%\r100%\nDone.", "100%\nDone."),
        ("message\r\nnext\r\n", "message\nnext"),
        ("10%\r100%\r\nDone\r\n", "100%\nDone"),
        ("\n \n\nfirst", "first"),
        ("hello   \nworld\t\t\nfoo", "hello\nworld\nfoo"),
        ("a\n\n\n   \n\nb", "a\n\nb"),
        ("     1\ta\n     2\t\n     3\tb", "     1\ta\n     2\n     3\tb"),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_safe_compaction(raw: str, tidy: str) -> None:
    assert compact(raw, "safe") == tidy
    assert compact(raw, "off") == raw


@pytest.mark.parametrize(
    ("raw", "folded"),
    [
        ("ok\nok\nok\nok\nok\ndone", "ok\n[... 3 identical lines]\nok\ndone"),
        ("apple\nbanana\ncherry", "apple\nbanana\ncherry"),
        ("Compiling a\nCompiling b\ndone", "Compiling a\nCompiling b\ndone"),
        (
            "\n".join(f"Compiling crate-{n} v0.1.0" for n in range(10)),
            "Compiling crate-0 v0.1.0\n[... 8 similar lines]\nCompiling crate-9 v0.1.0",
        ),
        ("abcx\nabyy\nabzz", "abcx\n[... 1 similar lines]\nabzz"),
        ("abcde\nabxyz\nab123", "abcde\nabxyz\nab123"),
        ('{\n  "b": 1,\n  "a": [1, 2.50]\n}\n', '{"b":1,"a":[1,2.50]}'),
        ("Done:\n[\n  1,\n  1,\n  1\n]", "Done:\n[1,1,1]"),
        ("[1]\n[1]\n[1]", "[1]\n[... 1 identical lines]\n[1]"),
        ("{not json\n}", "{not json\n}"),
    ],
)
def test_full_compaction(raw: str, folded: str) -> None:
    assert compact(raw, "full") == folded


def test_truncation_comes_before_compaction() -> None:
    text = "a" * 10 + " " * 100 + "b" * 10
    assert post_process(text, 40, "safe") == "a" * 10 + "\n\n... [truncated 80 chars] ...\n\n" + " " * 10 + "b" * 10


@given(TEXTS)
def test_safe_compaction_of_compacted_text_changes_nothing(text: str) -> None:
    once = compact(text, "safe")
    assert compact(once, "safe") == once
    assert not any(line != line.rstrip() for line in once.split("\n"))
    assert "\n\n\n" not in once


@given(TEXTS, st.integers(0, 60), st.sampled_from(["off", "safe", "full"]))
def test_processed_output_is_clean_and_short(text: str, limit: int, level: str) -> None:
    done = post_process(text, limit, level)  # type: ignore[arg-type]
    assert done.encode().decode() == done
    assert "\0" not in done
    assert len(done) <= limit + 50
    if level == "off" and len(text) <= limit:
        assert done == clean(text)


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(0, 60))
def test_an_excerpt_is_the_truncated_text(pieces: list[str], limit: int) -> None:
    excerpt = Excerpt(limit)
    for piece in pieces:
        excerpt.add(piece)
    whole = "".join(pieces)
    assert excerpt.total == len(whole)
    assert excerpt.text() == truncate(whole, limit)
    assert truncate(excerpt.text(), limit) == excerpt.text()


@given(st.lists(st.lists(st.text(max_size=30), max_size=6), max_size=5), st.integers(0, 60))
def test_excerpts_can_be_joined(groups: list[list[str]], limit: int) -> None:
    joined = Excerpt(limit)
    for group in groups:
        part = Excerpt(limit)
        for piece in group:
            part.add(piece)
        joined.extend(part)
        joined.add("|")
    assert joined.text() == truncate("".join("".join(group) + "|" for group in groups), limit)


def test_excerpts_of_different_limits_do_not_mix() -> None:
    with pytest.raises(ValueError, match="different limits"):
        Excerpt(10).extend(Excerpt(11))


def test_an_excerpt_of_very_many_pieces_stays_small() -> None:
    excerpt = Excerpt(1000)
    for _ in range(200_000):
        excerpt.add("0123456789")
    assert excerpt.text() == truncate("0123456789" * 200_000, 1000)
    assert sum(map(len, excerpt._tail)) <= 1000
