"""The pages in a browser, as somebody uses them: by mouse and keyboard, light and dark, on a screen and on a phone."""

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from ms_ascend_ops.serving import Settings, web
from tests.browser import PHONE, served_page
from tests.pages import Page
from tests.serving.conftest import Served
from tests.waiting import wait

SCREEN = {"width": 1280, "height": 900}
KEY = "a key of the page"


@contextlib.contextmanager
def listening(settings):
    """A server on a port; uvicorn in the loop of the service."""
    import uvicorn  # noqa: PLC0415 - may be missing

    one = Served(settings)
    config = uvicorn.Config(one.app, port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    running = asyncio.run_coroutine_threadsafe(server._serve(), one.loop)
    wait(lambda: server.started)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", one
    server.should_exit = True
    running.result(30)
    one.close()


@pytest.fixture(scope="module")
def address(language_file):
    with listening(Settings(models={"tiny": language_file}, api_keys=(KEY,))) as (url, one):
        yield url, one


@pytest.mark.parametrize("name", ["index.html", "docs.html"])
def test_files(name):
    """Closed tags, a title, nothing of another host, no script within."""
    text = (Path(web.__file__).parent / "pages" / name).read_text("utf-8")
    page = Page(text)
    assert page.count("h1") == page.count("title") == 1
    labels = [attributes["for"] for tag, attributes in page.tags if tag == "label" and "for" in attributes]
    fields = [attributes["id"] for tag, attributes in page.tags if tag in ("input", "textarea")]
    assert set(labels) <= set(fields)
    for tag, attributes in page.tags:
        assert not any(key.startswith("on") or key == "style" for key in attributes), tag
        for key in ("src", "href"):
            assert "//" not in attributes.get(key, "")


def test_answers(address):
    url, one = address
    for path, kind in (("/", "text/html"), ("/docs", "text/html"), ("/pages/index.js", "text/javascript")):
        answer = one.get(path)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    for path in ("/pages/web.py", "/pages/..%2Fweb.py", "/pages/%2e%2e%2fweb.py", "/pages/"):
        assert one.get(path).status_code in (401, 404), path
    assert one.get("/metrics").status_code == 401
    described = one.get("/openapi.json").json()["paths"]
    for path in ("/v1/chat/completions", "/v1/embeddings", "/v2/models/{name}/config", "/v2/models/stats"):
        assert path in described
    schema = described["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"messages", "tools", "response_format", "logprobs", "top_logprobs"} <= set(schema["properties"])
    assert url


def enter(page):
    """A key is wanted; it is typed by keyboard alone."""
    page.wait_for_selector("#key-form:not([hidden])")
    page.locator("#key").focus()
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("#conversation:not([hidden])")
    assert not page.locator("#key-form").is_visible()


def luminance(page, selector, name):
    """Of a colour of an element, from 0 to 1."""
    text = page.eval_on_selector(selector, f"one => getComputedStyle(one).{name}")
    parts = [int(part) / 255 for part in text[text.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("size", "scheme"), [(SCREEN, "light"), (PHONE, "dark")])
def test_home(address, size, scheme):
    url, one = address
    with served_page(f"{url}/", size, scheme) as page:
        enter(page)
        cells = page.locator("#models tbody tr").first.locator("td").all_text_contents()
        assert cells[:4] == ["tiny", "1", "ready", "language model"]
        figures = dict(zip(*(page.locator(f"#figures {tag}").all_text_contents() for tag in ("dt", "dd")), strict=True))
        assert {"Requests", "Waiting", "Latency, half", "Memory"} <= set(figures)
        assert figures["Memory"].endswith("MiB")
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        # Contrast of at least 4.5 between text and what is behind it, in both schemes.
        behind = luminance(page, "body", "backgroundColor")
        assert (behind < 0.1) == (scheme == "dark")
        for selector in ("h1", "label", "#models th", "a"):
            light, dark = sorted((luminance(page, selector, "color"), behind), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, selector
        # Every control can be reached by the keyboard.
        reached = set()
        page.locator("h1").click()
        for _ in range(25):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id"))
        assert {"model", "temperature", "most", "system", "said", "question", "send", "clear"} <= reached
        # A conversation, by the keyboard: two lines, then the answer, as the model says it.
        page.locator("#temperature").fill("0")
        page.locator("#most").fill("12")
        page.locator("#question").focus()
        page.keyboard.type("hello <b>")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("world")
        page.keyboard.press("Enter")
        wait(
            lambda: page.locator("#send").is_enabled() and "tokens/s" in page.locator("#speed").text_content(), "answer"
        )
        question, answer = page.locator("#said p:not(.who)").all_text_contents()
        assert question == "hello <b>\nworld"
        asked = {
            "model": "tiny",
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_tokens": 12,
        }
        known = one.post("/v1/chat/completions", asked, headers={"Authorization": f"Bearer {KEY}"}).json()
        assert answer == known["choices"][0]["message"]["content"]
        assert page.locator("#speed").text_content().startswith(f"{known['usage']['completion_tokens']} tokens, ")
        assert "the context is full" in page.locator("#speed").text_content()
        assert page.evaluate("document.activeElement.id") == "question"
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        wait(lambda: int(page.locator("#figures dd").first.text_content()) >= 1, "the figures go on")
        page.locator("#clear").click()
        assert page.locator("#said p").count() == 0


@pytest.fixture
def may_go_on(monkeypatch):
    """An event: until it is set, the model makes no step more when an answer has its first words."""
    from ms_ascend_ops.llm.scheduler import Scheduler  # noqa: PLC0415

    step, event = Scheduler.step, threading.Event()

    def held(self):
        if any(sequence.request.text for sequence in self._running):
            assert event.wait(60)
        step(self)

    monkeypatch.setattr(Scheduler, "step", held)
    yield event
    event.set()


def test_stop_and_errors(address, may_go_on):
    """Escape and the button stop an answer, whose place is free then; an error is shown, and the next answer comes."""
    url, one = address
    running = 'ms_ascend_ops_serving_running_sequences{model="tiny",version="1"}'
    with served_page(f"{url}/", SCREEN, "light") as page:
        enter(page)
        said = page.locator("#said p:not(.who)")
        page.locator("#temperature").fill("0")
        for answers, stop in enumerate(
            (lambda: page.keyboard.press("Escape"), lambda: page.locator("#stop").click()), 1
        ):
            may_go_on.clear()
            page.locator("#most").fill("200")
            page.locator("#question").fill("hello")
            page.keyboard.press("Enter")
            wait(lambda n=2 * answers: said.count() == n and said.last.text_content() != "", "the first words")
            assert not page.locator("#send").is_enabled()
            stop()
            wait(lambda: page.locator("#send").is_enabled(), "stopped")
            assert "stopped" in page.locator("#speed").text_content()
            may_go_on.set()
            wait(lambda: one.metrics()[running] == 0, "free")
        page.locator("#clear").click()
        page.locator("#most").fill("9999")
        page.locator("#question").fill("hello")
        page.locator("#send").click()
        wait(lambda: page.locator("#said .problem").count() == 1, "an error")
        assert "max_tokens is 9999: the context of tiny is 256 tokens" in page.locator("#said .problem").text_content()
        page.locator("#most").fill("4")
        page.locator("#question").fill("hello")
        page.locator("#send").click()
        wait(lambda: page.locator("#send").is_enabled() and said.count() == 4, "goes on")


def test_docs(address):
    url, _ = address
    for size, scheme in ((SCREEN, "dark"), (PHONE, "light")):
        with served_page(f"{url}/docs", size, scheme) as page:
            page.wait_for_selector("#routes h3")
            text = page.locator("#routes").text_content()
            for part in ("POST /v1/chat/completions", "response_format", "GET /v2/models/{name}/config", "Prometheus"):
                assert part in text
            assert f"curl -X POST {url}/v1/embeddings -d" in text
            assert f"curl {url}/v2/models/NAME/stats" in text
            assert "`" not in text
            assert page.evaluate(
                "[...document.querySelectorAll('#routes pre')].every((one) => one.scrollWidth <= one.clientWidth)"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
