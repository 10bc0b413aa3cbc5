"""The page: whole, self-contained, and deaf to what a recording would have it do."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from timed_recordings import CONVERSATION, EVIL, READY, RECORDINGS, text, write, write_journal

from agentwire.timeline import open_source, page
from agentwire.timeline.page import embedded, write_page

VOID = {"meta", "input", "link", "br"}


class Reader(HTMLParser):
    """Reads a page as a browser takes it apart, and checks that every element is closed where it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def read(found: bytes) -> Reader:
    reader = Reader()
    reader.feed(found.decode())
    reader.close()
    assert reader.open == []
    return reader


def data_of(found: bytes) -> Any:
    return json.loads(read(found).texts["script"][0])


def made(path: Path) -> bytes:
    return write_page(open_source(path))


def test_the_page_is_whole_and_holds_the_data(tmp_path: Path) -> None:
    data = data_of(made(write(tmp_path / "r", CONVERSATION)))
    assert data["wire"] == "aionrs"
    assert data["timed"]
    assert data["totals"]["turns"] == {"completed": 1, "failed": 1}
    assert data["left_out"] == []
    item = next(item for item in data["items"] if item["kind"] == "text")
    assert item["title"] == "Let me look."
    assert json.loads(data["lines"]["3"][2])["text"] == "Let me "
    ((source, joined, event),) = item["facts"]
    assert (source, joined) == (3, 2)
    assert json.loads(event)["event"] == {"type": "text_delta", "text": "Let me look."}
    turn = next(item for item in data["items"] if item["kind"] == "turn")
    assert turn["waits"] == {"person": 1_100_000, "tools": 500_000, "model": 600_000}


def test_every_line_that_something_came_from_is_there(tmp_path: Path) -> None:
    data = data_of(made(write(tmp_path / "r", CONVERSATION)))
    assert sorted(map(int, data["lines"])) == list(range(len(CONVERSATION)))


def test_nothing_in_a_recording_is_markup(tmp_path: Path) -> None:
    found = made(write(tmp_path / "r", CONVERSATION))
    reader = read(found)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert "img" not in [tag for tag, _ in reader.tags]
    assert EVIL.encode() not in found
    assert "\u2028" not in reader.texts["script"][0]
    titles = [item["title"] for item in json.loads(reader.texts["script"][0])["items"]]
    assert any(title.startswith("</script><script>") for title in titles)


def test_the_name_of_the_file_is_no_markup_either(tmp_path: Path) -> None:
    reader = read(made(write(tmp_path / "<script>x&'\"", CONVERSATION)))
    assert "<script>x&'\"" in "".join(reader.texts["title"])


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028\u2029", "&lt;", "\x7f\x85", "{{data}}"])
def test_embedded_json_means_the_same(text: str) -> None:
    json_text = json.dumps({"key": text}, ensure_ascii=False)
    assert json.loads(embedded(json_text)) == {"key": text}
    assert not re.search("[<>&\u2028\u2029]", embedded(json_text))


def test_a_placeholder_in_a_recording_stays_a_text(tmp_path: Path) -> None:
    lines = [
        (0, "agent", READY),
        (1, "agent", {"type": "stream_start", "msg_id": "m"}),
        (2, "agent", text("{{script}}")),
    ]
    data = data_of(made(write(tmp_path / "r", lines)))
    assert "{{script}}" in [item["title"] for item in data["items"]]


def test_the_page_needs_nothing_and_allows_nothing_else(tmp_path: Path) -> None:
    found = made(write(tmp_path / "r", CONVERSATION))
    reader = read(found)
    for tag, attributes in reader.tags:
        assert "src" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in ("link", "base", "iframe", "object"), tag
    policy = next(a["content"] for _, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for tag, number in (("script", 1), ("style", 0)):
        digest = base64.b64encode(hashlib.sha256(reader.texts[tag][number].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for code in (reader.texts["script"][1], reader.texts["style"][0]):
        assert not re.search(r"https?:|url\(|@import|innerHTML|insertAdjacentHTML|document\.write|eval\(", code)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_any_recording_has_a_page(path: Path) -> None:
    data = data_of(made(path))
    assert len(data["items"]) == len(open_source(path).timeline().items)
    assert not data["timed"]


def test_a_journals_records_are_its_lines(tmp_path: Path) -> None:
    data = data_of(made(write_journal(tmp_path / "s1.jsonl", "s1")))
    assert data["wire"] == "journal"
    assert data["lines"] == {}
    retry = next(item for item in data["items"] if item["kind"] == "retry")
    assert json.loads(retry["facts"][0][2])["event"]["type"] == "retry_scheduled"


def test_too_much_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ITEMS", 12)
    monkeypatch.setattr(page, "BUDGET", 900)
    monkeypatch.setattr(page, "PIECE", 120)
    data = data_of(made(write(tmp_path / "r", CONVERSATION)))
    assert len(data["items"]) <= 12
    said = "; ".join(data["left_out"])
    assert "of kind text" in said
    assert re.search(r"the text of \d+ events; the text of \d+ lines", said)
    kinds = {item["kind"] for item in data["items"]}
    assert {"turn", "call", "error_raised"} <= kinds
    assert sum(len(line[2]) for line in data["lines"].values()) <= 900
    assert any("more characters are not in this page" in line[2] for line in data["lines"].values())
    assert data["totals"]["steps"] == 3
