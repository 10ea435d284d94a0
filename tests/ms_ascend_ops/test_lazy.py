"""Names that are imported when they are used: what went wrong there is what the user reads."""

import sys
from types import ModuleType

import pytest

from ms_ascend_ops.lazy import lazy_attributes


@pytest.fixture
def package(monkeypatch, tmp_path):
    """A package of three modules, one of which uses a name that its library has not."""
    (tmp_path / "lazy_parts").mkdir()
    (tmp_path / "lazy_parts" / "good.py").write_text("value = 3\n")
    (tmp_path / "lazy_parts" / "broken.py").write_text("import math\nvalue = math.no_such_name\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = ModuleType("lazy_parts")
    made.__path__ = [str(tmp_path / "lazy_parts")]
    names = {"value": "lazy_parts.good", "good": "lazy_parts.good", "lost": "lazy_parts.broken"}
    made.__getattr__ = lazy_attributes("lazy_parts", names)
    for name in ("lazy_parts", "lazy_parts.good", "lazy_parts.broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "lazy_parts", made)
    return made


def test_names(package):
    assert package.value == package.good.value == 3
    assert vars(package)["value"] == 3  # found without asking the next time
    with pytest.raises(AttributeError, match="module 'lazy_parts' has no attribute 'other'"):
        _ = package.other


def test_what_was_really_wrong(package):
    with pytest.raises(ImportError, match=r"cannot import lost from lazy_parts: module 'math' has no .*no_such_name"):
        from lazy_parts import lost  # noqa: F401, PLC0415
