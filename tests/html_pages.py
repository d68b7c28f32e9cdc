"""Checks of web pages that need nothing but themselves."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import zip_longest

HOSTILE = (
    "<script>alert(1)</script>",
    "</title></style><img src=x onerror=alert(1)>",
    "\"><svg onload='alert(1)'>",
    "a' onmouseover='alert(1)\n<b>two lines</b>",
    "--><iframe src=//x></iframe><!--",
    "]]>&lt;i&gt;&#x3c;u&#x3e;${1+1}{{7*7}}",
)
"""Names that would become elements or attributes, were they not shown as text."""


PLAIN = tuple(f"name\n{place}" if "\n" in name else f"name {place}" for place, name in enumerate(HOSTILE))
"""As many names, of as many lines, that mean nothing."""


class Page(HTMLParser):
    """What a page is made of; ``structure`` is each element and the names of its attributes, in their order."""

    LOADING = ("src", "href", "xlink:href", "srcset", "data", "poster", "action")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.structure: list[tuple[str, ...]] = []
        self.ids: list[str] = []
        self.unnamed: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.structure.append((tag, *(name for name, _ in attrs)))
        self.loaded += [given[name] for name in self.LOADING if name in given]
        self.ids += [given["id"]] if "id" in given else []
        if (tag == "img" and not given.get("alt")) or (tag == "svg" and not given.get("aria-label")):
            self.unnamed.append(tag)


def check_alone(text: str) -> Page:
    """Nothing is loaded, nothing runs, every picture has words, and no name is used twice."""
    found = Page(text)
    assert [target for target in found.loaded if not target.startswith(("data:", "#"))] == []
    assert [target for target in found.loaded if target.startswith("#") and target[1:] not in found.ids] == []
    assert [name for name in re.findall(r"url\(#([^)]*)\)", text) if name not in found.ids] == []
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert not {"script", "link", "iframe"} & set(found.tags)
    assert not found.unnamed
    assert len(set(found.ids)) == len(found.ids)
    return found


def check_same_structure(hostile: str, plain: str) -> Page:
    """Pages that differ in names have the same elements and attributes: no name became one."""
    found, expected = Page(hostile), Page(plain).structure
    others = [pair for pair in zip_longest(found.structure, expected) if pair[0] != pair[1]]
    assert others[:1] == []
    return found
