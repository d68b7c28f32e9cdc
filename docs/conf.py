"""How Sphinx makes the site from these pages, which are written for reading on GitHub as well."""

from __future__ import annotations

import atexit
import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import socratic

HERE = Path(__file__).parent
RESULTS = HERE.parent / "benchmarks" / "results"

project = "socratic"
author = "the authors of socratic"
release = version = socratic.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(torch|numpy|sklearn|abc|pathlib|collections|typing)\..*")]

html_theme = "furo"
html_title = f"socratic {release}"
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["live.css"]

myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # Up to, and without, what other libraries bring.
    "inherited-members": "BaseEstimator, Module, Exception, UserWarning, tuple",
}
autodoc_typehints = "none"  # the docstrings say what arguments are, and of which shape
numpydoc_show_class_members = False

OUTSIDE = {"changelog": "CHANGELOG.md", "security": "SECURITY.md"}
"""Pages that show a file beside this folder."""

SECTION = re.compile(r"^### (?P<title>.+)\n(?P<body>(?:(?!^#).*\n)*)", re.MULTILINE)
PAGE = re.compile(r"^\| \[[^\]]+\]\((?P<page>[\w./-]+)\.(?:md|rst)\)", re.MULTILINE)
LIVE = re.compile(r"^!\[[^\]]+\]\(images/live\.png\)$", re.MULTILINE)
ROOT_LINK = re.compile(r"\]\((?!https?:|#)")
RESULT = re.compile(r"\]\(\.\./benchmarks/results/(?P<name>[\w-]+)\.md\)")


def navigation(index: str) -> str:
    """The side bar: the pages in the tables of the index, under its headings."""
    trees = []
    for section in SECTION.finditer(index):
        pages = "\n".join(match["page"] for match in PAGE.finditer(section["body"]))
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {section['title']}\n\n{pages}\n```\n")
    return "\n" + "\n".join(trees)


def embedded(index: str, site: Path) -> str:
    """The index with the live page in place of its picture, if the site has one (see live/build.py)."""
    if not (site / "live" / "index.html").exists():
        return index
    frame = '<iframe class="live" src="live/index.html" title="Draw a digit, then a letter"></iframe>'
    return LIVE.sub(lambda picture: f"{frame}\n<noscript>\n\n{picture[0]}\n\n</noscript>", index)


def measurements() -> str:
    """The tables that benchmarks have written, each with a name to link to."""
    tables = sorted(path for path in RESULTS.glob("*.md") if path.name != "images.md")  # a note to results.md
    return "".join(
        f"\n({table.stem}-measured)=\n```{{include}} ../benchmarks/results/{table.name}\n:heading-offset: 1\n```\n"
        for table in tables
    )


def outside(file: str) -> str:
    """A page beside this folder, without its title; its links start there."""
    text = (HERE.parent / file).read_text(encoding="utf-8")
    return ROOT_LINK.sub("](../", text.partition("\n")[2]).replace("](../docs/", "](")


def complete(app: Any, page: str, source: list[str]) -> None:
    """Add what a site has and a folder has not: a side bar, the live page, and what lies outside of the folder."""
    if page == "index":
        source[0] = embedded(source[0], Path(app.outdir)) + navigation(source[0])
    elif page == "measurements":
        source[0] += measurements()
    elif page in OUTSIDE:
        source[0] += outside(OUTSIDE[page])
    source[0] = RESULT.sub(r"](#\g<name>-measured)", source[0])
    for name, file in OUTSIDE.items():
        source[0] = source[0].replace(f"](../{file}", f"]({name}.md")


def is_foreign(_app: Any, _kind: str, _name: str, value: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn adds to estimators."""
    return True if str(getattr(value, "__module__", "")).startswith("sklearn.") else skip or None


def quieten_kernels() -> None:
    """Run notebooks the same whatever profile of IPython a user has, without its notes on the terminal."""
    folder = tempfile.TemporaryDirectory(prefix="socratic-docs-")
    atexit.register(folder.cleanup)
    profile = Path(folder.name, "profile_default")
    profile.mkdir()
    (profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 40\n", encoding="utf-8")
    os.environ["IPYTHONDIR"] = folder.name
    logging.getLogger("traitlets").setLevel(logging.WARNING)


def setup(app: Any) -> None:
    """Register the above."""
    quieten_kernels()
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", is_foreign)
