"""What the program says while it runs: on stderr, with bars only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def complain(message: object) -> None:
    """Print one line on stderr, whatever the message holds."""
    print(f"socratic-experiments: {' '.join(str(message).split())}", file=sys.stderr, flush=True)


class Bars:
    """A bar on stderr for each stage; a line for each where nobody watches."""

    def __init__(self) -> None:
        self._advance: Callable[[str], None] = lambda _: None

    @contextmanager
    def stage(self, what: str, total: int) -> Iterator[None]:
        """Show a stage of ``total`` steps while it lasts, then its time."""
        start = time.perf_counter()
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            with Progress(
                *columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True
            ) as bar:
                task = bar.add_task(what, total=total, note="")
                self._advance = lambda note: bar.update(task, advance=1, note=note)
                yield
        else:
            yield
        self._advance = lambda _: None
        complain(f"{what}, {time.perf_counter() - start:.1f} s")

    def step(self, note: str = "") -> None:
        """One step further."""
        self._advance(note)
