"""A page in the Chromium of the system, headless, driven by playwright. Tests skip where there is none."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE = {"width": 360, "height": 740}

# Words of plots that stand beyond their picture.
CLIPPED = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
  }).map(text => text.textContent);
})"""

# Columns of tables that a window shows only to those who scroll.
HIDDEN = """() => [...document.querySelectorAll('table')].flatMap(table => {
  const right = Math.min(table.parentElement.getBoundingClientRect().right, innerWidth);
  return [...table.querySelectorAll('th')].filter(head => head.getBoundingClientRect().right > right + 1)
    .map(head => head.textContent);
})"""


@contextmanager
def _browser():
    """Chromium, and a list of what its pages say that they should not."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        pytest.skip(f"there is no Chromium here: {', '.join(NAMES)}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(path, size):
    """The page, and what its console and its requests said."""
    with _browser() as browser:
        context = browser.new_context(viewport=size, offline=True)
        page, heard = context.new_page(), []
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("console", lambda message: heard.append(f"console: {message.text}"))
        page.on("request", lambda request: heard.append(f"request: {request.url}"))
        page.goto(path.as_uri(), wait_until="load")
        heard.remove(f"request: {path.as_uri()}")
        yield page, heard
        assert heard == [], "a page asks for nothing and has nothing to complain of"


@contextmanager
def served_page(url, size, scheme):
    """A page of a server, in the colours "light" or "dark". It asks this server only, and no script of it fails."""
    with _browser() as browser:
        page, heard = browser.new_context(viewport=size, color_scheme=scheme).new_page(), []
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        origin = url[: url.index("/", 8)]
        page.on("request", lambda request: request.url.startswith(f"{origin}/") or heard.append(request.url))
        page.goto(url, wait_until="load")
        yield page
        assert heard == []


def check_in_browser(path, tables, plots, search):
    """On a screen and on a phone: tables with rows, plots that are drawn, nothing wider than the screen.

    `search` is a text of some rows, but not of all: the search field leaves those.
    """
    for size in ({"width": 1280, "height": 900}, PHONE):
        with opened(path, size) as (page, _):
            assert page.locator("h1").is_visible()
            assert size is PHONE or page.evaluate(HIDDEN) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            for part in page.locator("details").all():
                part.evaluate("part => { part.open = true }")
            assert page.locator("table").count() >= tables
            for table in page.locator("table").all():
                assert table.is_visible()
                assert table.locator("tbody tr").count() >= 1
            assert page.locator("svg").count() >= plots
            for plot in page.locator("svg").all():
                box = plot.bounding_box()
                assert box["width"] > 200
                assert box["height"] > 20
            assert page.evaluate(CLIPPED) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], "with all parts open"
            rows = page.locator("tbody tr")
            before = rows.count()
            page.locator("input[type=search]").fill(search)
            left = [row for row in rows.all() if row.is_visible()]
            assert 0 < len(left) < before
            assert all(search.lower() in row.text_content().lower() for row in left)
            page.locator("input[type=search]").fill("")
            assert all(row.is_visible() for row in rows.all())
