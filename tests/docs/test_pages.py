"""The pages and docstrings that the documentation is made of, without Sphinx. `bash build.sh docs` is as strict."""

import re
import sys
from pathlib import Path

import pytest

from ms_ascend_ops.device.aclnn_table import rows

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "site"
pytestmark = pytest.mark.skipif(not SITE.is_dir(), reason="needs the source tree")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.fixture(scope="module")
def names():
    sys.path.insert(0, str(SITE))
    try:
        import names  # noqa: PLC0415 - of docs/site, which is no package

        yield names
    finally:
        sys.path.remove(str(SITE))


@pytest.fixture(scope="module")
def figures(names):
    import figures  # noqa: PLC0415 - as above

    return figures


def anchors(text):
    """The anchors of the headings, as the places that show the sources make them."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(f"{anchor}-{found.count(anchor)}" if anchor in found else anchor)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    text = page.read_text(encoding="utf-8")
    dead = []
    for link, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = page.parent / link if link else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(f"{link}#{anchor}")
    assert dead == []


LONGEST_SENTENCE = 30  # words; a span of code is one


def sentences(text):
    """The sentences of a page, without code, tables, headings and the targets of links."""
    text = re.sub(r"^ *```.*?^ *```|<!--.*?-->|^ *[|#].*?$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:-|\d+\.) )", text):
        yield from re.split(r"(?<=[.!?])[\"*)]*\s+", " ".join(paragraph.split()))


def long_sentences(text):
    return [one for one in sentences(text) if len(re.findall(r"\S*\w\S*", one)) > LONGEST_SENTENCE]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_sentences_are_short(page):
    assert long_sentences(page.read_text(encoding="utf-8")) == []


def test_long_sentences_are_found():
    """In paragraphs and lists; headings, tables and blocks of code do not count, and a span of code is one word."""
    heading, row, code = f"# {'heading ' * 40}\n", f"| {'cell ' * 40}|\n", f"```\n{'code ' * 40}\n```\n"
    short, long = f"{'word ' * 28}`some code` it.", f"{'word ' * 28}`some code` is it."
    page = "\n".join([heading, f"{short} {long}", "", row, code, f"- {short}", f"- {long}"])
    assert [one.count("word") for one in long_sentences(page)] == [28, 28]


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    pages = [page.name for page in PAGES if page.parent.name == "docs" and page.name != "index.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_public_name_is_documented(names):
    assert names.faults() == []
    assert len({one.full_name for one in names.public_names()}) > 150


def faults(names, tmp_path, monkeypatch, source):
    """Those of a module that holds one function or class."""
    monkeypatch.setattr(names, "ROOT", tmp_path)
    path = tmp_path / f"module{len(list(tmp_path.iterdir()))}.py"
    path.write_text(source, encoding="utf-8")
    (node,) = names.ast.parse(source).body
    if isinstance(node, names.ast.ClassDef):
        one = names._class("public", "ms_ascend_ops", path, node)
    else:
        one = names._function("public", path, node, "function")
    return [fault.partition(": ")[2] for fault in names._faults(one)]


FUNCTION = '''def f(a, b, *, c=1):
    """Do with `b`.

    Args:
        a: one.
        d: two.
    """
'''
CLASS = '''class A:
    """Be."""

    def __init__(self, x):
        pass

    async def run(self):
        pass
'''


def test_what_is_missing_is_found(names, tmp_path, monkeypatch):
    monkeypatch.setattr(names, "_bases", lambda *_: iter(()))
    found = [faults(names, tmp_path, monkeypatch, source) for source in ("def f(a):\n    pass\n", FUNCTION, CLASS)]
    assert found == [
        ["public.f has no docstring"],
        [
            "public.f: the parameter b has no line in the docstring",
            "public.f: the parameter c has no line in the docstring",
            "public.f: the docstring has a line for d, which is no parameter",
        ],
        ["public.A: the parameter x has no line in the docstring", "public.A.run has no docstring"],
    ]


def test_figures_are_those_of_the_pages(figures):
    page, cases = figures.cases("rms_norm")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert 0 < len(cases) <= 4
    for case in cases:
        name, dtype = case.name.split(", ")
        factor = f"{case.others['PyTorch eager'] / case.ours:.2f}"
        assert re.search(rf"^\| {re.escape(name)} \| {dtype} \| {case.ours:,} \|.* {factor} \|", text, re.MULTILINE)
    assert "ms" in {case.unit for case in figures.cases("conv2d")[1]}


def test_every_operator_with_columns_has_figures(figures):
    """A page whose table is gone, or has other columns, is found here."""
    for operator in figures._COLUMNS:
        _, cases = figures.cases(operator)
        assert cases, operator
        assert not [case.name for case in cases if ": ," in case.name or "*" in case.name]


def test_operators_of_the_device_are_those_of_its_table(figures):
    import stage  # noqa: PLC0415 - as above

    listed = re.findall(r"`(\w+)`", stage._device_operators())
    assert sorted(listed) == sorted(rows())
