"""Checks of web pages that need nothing but themselves."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Page(HTMLParser):
    """What a page is made of."""

    LOADING = ("src", "href", "xlink:href", "srcset", "data", "poster", "action")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.unnamed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
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
