"""The documentation as web pages: Sphinx makes it without a warning, and a browser shows it. Twenty CPU seconds."""

import functools
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser import PHONE, served_page

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
SCREEN = {"width": 1280, "height": 900}
pytestmark = pytest.mark.clients

PAGES = [
    "index.html",
    "start.html",
    "operators.html",
    "operators/conv2d.html",
    "reference/ms_ascend_ops.html",
    "performance_operators.html",
    "CHANGELOG.html",
]
BRIGHTNESS = """() => {
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number);
  return (r + g + b) / 3;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the pages, as a server has them."""
    for package in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, SITE / "stage.py", folder / "source"], check=True)
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-c", SITE]
    made = subprocess.run([*command, folder / "source", folder / "pages"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder / "pages"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("size", [SCREEN, PHONE], ids=["screen", "phone"])
def test_pages_fit_and_ask_nobody_else(site, name, size):
    with served_page(f"{site}/{name}", size, "light") as page:
        assert page.locator("h1").first.is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_equations_are_drawn(site):
    with served_page(f"{site}/operators/rms_norm.html", SCREEN, "light") as page:
        equation = page.locator("math").first
        box = equation.bounding_box()
        assert box["height"] > 40  # a fraction over a root, which is no text on one line
        assert page.locator("math msqrt").first.is_visible()
        assert page.locator("math mfrac").count() >= 2
        assert page.locator(".bars .bar").first.bounding_box()["width"] > 10


def test_colours_are_those_of_the_system(site):
    found = []
    for scheme in ("light", "dark"):
        with served_page(f"{site}/start.html", PHONE, scheme) as page:
            found.append(page.evaluate(BRIGHTNESS))
    assert found[0] > 200
    assert found[1] < 60


@pytest.mark.parametrize(
    ("words", "expected"), [("rotary_embedding", "operators/rotary_embedding.html"), ("bundle", "deployment.html")]
)
def test_search_finds(site, words, expected):
    with served_page(f"{site}/search.html?q={words}", SCREEN, "light") as page:
        page.wait_for_selector("#search-results li a")
        links = page.eval_on_selector_all("#search-results li a", "found => found.map(link => link.href)")
        assert any(link.partition("?")[0].partition("#")[0] == f"{site}/{expected}" for link in links)
