"""Where output goes: results on stdout, progress and warnings on stderr, bars only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from socratic.tables.reading import Chunk, Source


def output(quiet: bool = False) -> Console:
    """The console for results; wide when nobody's terminal limits it, so that nothing is cut in a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120, highlight=False, quiet=quiet)


def short(text: str, width: int = 40) -> str:
    """Text of at most so many letters, cut off if need be."""
    return text if len(text) <= width else text[: width - 3] + "..."


def on_terminal() -> bool:
    """Whether somebody is watching stderr."""
    return sys.stderr.isatty()


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """A spinner on stderr while something takes its time."""
    if quiet or not on_terminal():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} ..."):
        yield


def watched(source: Source, what: str, quiet: bool = False) -> Iterable[Chunk]:
    """The chunks of a table, with a bar on stderr for how much of the file has been read."""
    if quiet or not on_terminal():
        yield from source.chunks()
        return
    with bar(what, source.size) as advance:
        for chunk in source.chunks():
            yield chunk
            advance(chunk.position)


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar on stderr, which is told how much of a total is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda position: bar.update(task, completed=position)
