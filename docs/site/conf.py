"""Sphinx's configuration; `bash build.sh docs` runs it on the pages that stage.py has prepared."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mathematics import add_math

ROOT = Path(__file__).parents[2]

project = "ms_ascend_ops"
author = copyright = "The ms_ascend_ops authors"
version_line = (ROOT / "ms_ascend_ops/version.py").read_text(encoding="utf-8").strip().splitlines()[-1]
release = version = version_line.partition("=")[2].strip().strip('"')

extensions = ["myst_parser"]
myst_heading_anchors = 4  # links to headings, as on the pages where the sources are shown
suppress_warnings = ["myst.header"]  # the README's examples begin with smaller headings
# Single backticks of docstrings: a link where the name is one of the reference, code otherwise.
default_role = "py:obj"
python_use_unqualified_type_names = True
add_module_names = False
smartquotes = False

html_theme = "furo"
html_title = f"ms_ascend_ops {release}"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
# Furo's fonts are those of the reader's system.


def setup(app):
    """Draw equations by MathML, which needs no script and no other host."""
    add_math(app)
