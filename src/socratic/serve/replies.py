"""Replies as JSON that every client can read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from anyio import to_thread
from fastapi import Response

_Made = TypeVar("_Made")
_FEW = 10_000
"""Values that are read or written in less time than it takes to be noticed by other requests."""
_AT_ONCE = 1_000
"""Values of a long list that are written in one go."""


class Json(Response):
    """A reply in ASCII, without the words for infinity that JSON does not know."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of some content."""
        return content if isinstance(content, bytes) else _dumped(content).encode()


async def aside(n_values: int, make: Callable[..., _Made], *given: Any) -> _Made:
    """What ``make`` makes of what is given; in another thread if these are many values, so that others do not wait."""
    return make(*given) if n_values <= _FEW else await to_thread.run_sync(make, *given)


async def json_of(content: Any, n_values: int) -> Json:
    """A reply that holds that many values; if these are many, it is written beside other requests."""
    return Json(content if n_values <= _FEW else await to_thread.run_sync(_written, content))


def _written(content: Any) -> bytes:
    """Long content as JSON, in pieces: other threads have their turn between these."""
    return "".join(_pieces(content)).encode()


def _pieces(content: Any) -> Iterator[str]:
    if isinstance(content, dict) and content:
        for place, (name, value) in enumerate(content.items()):
            yield f"{',' if place else '{'}{_dumped(name)}:"
            yield from _pieces(value)
        yield "}"
    elif isinstance(content, list) and content and isinstance(content[0], dict | list):
        for place, value in enumerate(content):
            yield "," if place else "["
            yield from _pieces(value)
        yield "]"
    elif isinstance(content, list) and len(content) > _AT_ONCE:
        for first in range(0, len(content), _AT_ONCE):
            yield f"{',' if first else '['}{_dumped(content[first : first + _AT_ONCE])[1:-1]}"
        yield "]"
    else:
        yield _dumped(content)


def _dumped(content: Any) -> str:
    return json.dumps(content, allow_nan=False, separators=(",", ":"))


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> Json:
    """A reply that says why there is no answer."""
    return Json({"error": message}, status, headers)
