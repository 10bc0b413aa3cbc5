"""The page in a real browser: it loads without a complaint or a request, and can be searched, clicked and steered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Page, browser, find
from timed_recordings import CONVERSATION, EVIL, write

from agentwire.timeline import open_source
from agentwire.timeline.page import write_page

PROGRAM = find()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed"),
]

ROWS = "[...document.querySelectorAll('#events [role=option]')].map((row) => row.textContent)"
CHOSEN = "document.querySelector('#events [aria-selected=true] .title')?.textContent"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    assert PROGRAM is not None
    out = tmp_path / "page.html"
    out.write_bytes(write_page(open_source(write(tmp_path / "r", CONVERSATION))))
    with browser(PROGRAM, tmp_path / "profile") as found:
        found.open(out.as_uri())
        found.wait_for("document.documentElement?.dataset.ready === 'yes'")
        yield found
        assert found.problems == []
        assert [url for url in found.requests if not url.startswith("file:")] == []


def test_what_was_recorded_is_shown_and_never_run(page: Page) -> None:
    assert page.evaluate("document.querySelector('#totals').textContent").startswith("Turns2")
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.title").endswith("agentwire")
    page.evaluate(f"document.getElementById('search').value = {EVIL.split()[0]!r}")
    page.evaluate("document.getElementById('search').dispatchEvent(new Event('input'))")
    page.wait_for("document.getElementById('count').textContent.includes(' of ')")
    found = page.evaluate(ROWS)
    assert any("</script><script>" in row for row in found)


def test_search_finds_what_stands_in_lines_and_fields(page: Page) -> None:
    everything = page.evaluate("document.getElementById('count').textContent")
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.order("Input.insertText", text="not today status:denied")
    page.wait_for(f"document.getElementById('count').textContent !== {everything!r}")
    found = page.evaluate(ROWS)
    assert len(found) == 2
    assert all("denied" in row for row in found)
    assert page.evaluate("location.hash").startswith("#q=not+today")


def test_the_keyboard_leads_to_the_raw_lines(page: Page) -> None:
    page.evaluate("document.getElementById('events').focus()")
    for _ in range(5):
        page.press("ArrowDown")
    assert page.evaluate(CHOSEN) == "Let me look."
    shown = page.evaluate("document.getElementById('details').textContent")
    assert "On the wire" in shown
    assert '"text_delta"' in shown
    assert "2 pieces, joined" in shown


def test_a_click_in_the_picture_selects(page: Page) -> None:
    x, y = page.evaluate(
        "(() => { const box = document.getElementById('lanes').getBoundingClientRect();"
        " return [box.left, box.top]; })()"
    )
    found = ""
    for row in range(24, 300, 8):  # down through the lanes, where the first question is open
        page.click(x + 92 + 0.22 * (page.evaluate("document.getElementById('lanes').clientWidth") - 102), y + row)
        found = page.evaluate("document.querySelector('#events [aria-selected=true] .kind')?.textContent")
        if found == "approval":
            break
    assert found == "approval"
    assert "tool_approve" in page.evaluate("document.getElementById('details').textContent")


def test_zoom_and_pan_by_keys_and_back(page: Page) -> None:
    picture = "document.getElementById('lanes').toDataURL()"
    page.evaluate("document.getElementById('lanes').focus()")
    drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
    page.evaluate(drawn)
    whole = page.evaluate(picture)
    page.press("+", "+")
    page.evaluate(drawn)
    closer = page.evaluate(picture)
    assert closer != whole
    page.press("ArrowRight")
    page.evaluate(drawn)
    assert page.evaluate(picture) != closer
    page.press("0", "0")
    page.evaluate(drawn)
    assert page.evaluate(picture) == whole


def test_it_fits_a_narrow_screen_and_the_dark(page: Page) -> None:
    page.order("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
    page.order("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.wait_for("document.documentElement.dataset.theme === 'dark'")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
