"""What is wrong with a request, in words for whoever sent it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_COMPARED = 200
"""Letters of a name that does not exist, and names that do: to compare more takes longer than it is worth."""


class RequestError(ValueError):
    """A request that cannot be answered as it is: the message names the field, what was found and the remedy.

    Attributes
    ----------
    status : int
        The HTTP status that says so.
    """

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


def listed(names: Sequence[str], most: int = 8) -> str:
    """Some names in words."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def unknown_name(where: str, what: str, name: str, names: Iterable[str]) -> RequestError:
    """The error for a name that does not exist, with those that do."""
    known = list(names)
    alike = difflib.get_close_matches(name[:_COMPARED], known[:_COMPARED], n=1, cutoff=0.7)
    hint = f"did you mean {alike[0]!r}?" if alike else f"known are {listed(known)}"
    return RequestError(f"{where}there is no {what} {shortened(name)}; {hint}")


def shortened(value: object, most: int = 60) -> str:
    """A value as a message shows it: one line of bounded length, whatever it holds."""
    text = ascii(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def problem(found: Mapping[str, Any]) -> str:
    """One thing that pydantic finds wrong with a request, without what the request holds."""
    place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    return f"{shortened(place)[1:-1]}: {found['msg']}" if place else str(found["msg"])
