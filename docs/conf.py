"""How Sphinx makes the site from these pages, which are written for reading on GitHub as well."""

from __future__ import annotations

import re
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

SECTION = re.compile(r"^### (?P<title>.+)\n(?P<body>(?:(?!^#).*\n)*)", re.MULTILINE)
PAGE = re.compile(r"^\| \[[^\]]+\]\((?P<page>[\w./-]+)\.(?:md|rst)\)", re.MULTILINE)
RESULT = re.compile(r"\]\(\.\./benchmarks/results/(?P<name>[\w-]+)\.md\)")


def navigation(index: str) -> str:
    """The side bar: the pages in the tables of the index, under its headings."""
    trees = []
    for section in SECTION.finditer(index):
        pages = "\n".join(match["page"] for match in PAGE.finditer(section["body"]))
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {section['title']}\n\n{pages}\n```\n")
    return "\n" + "\n".join(trees)


def measurements() -> str:
    """The tables that benchmarks have written, each with a name to link to."""
    tables = sorted(path for path in RESULTS.glob("*.md") if path.name != "images.md")  # a note to results.md
    return "".join(
        f"\n({table.stem}-measured)=\n```{{include}} ../benchmarks/results/{table.name}\n:heading-offset: 1\n```\n"
        for table in tables
    )


def changes() -> str:
    """The changelog without its title; its links start outside of this folder."""
    text = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.partition("\n")[2].replace("](docs/", "](")


def complete(_app: Any, page: str, source: list[str]) -> None:
    """Add what a site has and a folder has not: a side bar, and what lies outside of the folder."""
    source[0] = RESULT.sub(r"](#\g<name>-measured)", source[0])
    if page == "index":
        source[0] += navigation(source[0])
    elif page == "measurements":
        source[0] += measurements()
    elif page == "changelog":
        source[0] += changes()


def is_foreign(_app: Any, _kind: str, _name: str, value: Any, skip: bool, _options: Any) -> bool | None:
    """Leave out what scikit-learn adds to estimators."""
    return True if str(getattr(value, "__module__", "")).startswith("sklearn.") else skip or None


def setup(app: Any) -> None:
    """Register the above."""
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", is_foreign)
