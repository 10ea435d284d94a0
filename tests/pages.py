"""What holds for every web page that this library writes."""

import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Tags, their attributes and the text; fails where they are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def check_page(path):
    """A single file, for phones too, that asks for nothing from elsewhere."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    for tag, attributes in page.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
    assert not re.search(r"https?://|@import|url\(", text)
    assert page.count("h1") == 1
    return page
