"""Measurements that are kept as they come, so that a run that was killed goes on where it was; and tables of them."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Names = Mapping[str, str | int]
Measures = dict[str, float]
Result = TypeVar("Result")


class Records:
    """Measurements in a file of JSON lines, each under the names of what was measured.

    Parameters
    ----------
    path : Path
        Made with the first measurement. Of several under the same names the last counts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        if lines and not lines[-1].endswith("\n"):  # a run was killed while it wrote: what it wrote is measured again
            path.write_text("".join(lines[:-1]), encoding="utf-8")
            del lines[-1]
        records = [json.loads(line) for line in lines]
        self._known: dict[str, Measures] = {_key(record["names"]): record["measures"] for record in records}

    def get(self, names: Names) -> Measures | None:
        """What was measured under these names, if anything."""
        return self._known.get(_key(names))

    def __iter__(self) -> Iterator[tuple[dict[str, str | int], Measures]]:
        """All names, and what was measured under them, in the order in which they came first."""
        return ((json.loads(key), measures) for key, measures in self._known.items())

    def add(self, names: Names, measures: Measures) -> None:
        """Keep what was measured."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"names": dict(names), "measures": measures}) + "\n")
        self._known[_key(names)] = measures


def _key(names: Names) -> str:
    return json.dumps(names, sort_keys=True)


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """What ``call`` returns, and the seconds of the process that it takes, however busy the machine is."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and the libraries below NumPy and scikit-learn use one thread, so that times can be compared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def options(description: str | None, results: Path, most_rows: int) -> argparse.ArgumentParser:
    """A parser of what such benchmarks are asked for."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data are")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--sets", nargs="+", help="only these files, without their endings")
    parser.add_argument("--methods", nargs="+", help="measure only these")
    parser.add_argument("--structure", nargs="+", default=[], help="circuits of these structures, too")
    parser.add_argument("--most-rows", type=int, default=most_rows)
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    parser.add_argument("--results", type=Path, default=results, help="the file that keeps what was measured")
    return parser


def wanted_methods(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, methods: Collection[str]
) -> list[str]:
    """The methods asked for, all if none are; stops if there is none of that name."""
    wanted = arguments.methods or list(methods)
    if unknown := sorted(set(wanted) - set(methods)):
        parser.error(f"--methods does not know {', '.join(unknown)}; choose from {', '.join(methods)}")
    return wanted


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return ["| " + " | ".join(row) + " |" for row in (header, ("---",) * len(header), *rows)] + [""]
