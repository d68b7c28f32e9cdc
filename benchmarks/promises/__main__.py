"""``python -m benchmarks.promises NAME [--data FOLDER] [--seeds N]`` measures a promise, and writes its page.

A promise is a module of this package. Its docstring is the heading of the page and what it says of the table below;
``HEADER`` names the columns, ``SEEDS`` is how many seeds are asked for by default, and ``measure(data, seeds)`` yields
the rows, those of real data only if there is a folder of them. The page is ``benchmarks/results/NAME.md``.
"""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module
from pathlib import Path

import benchmarks.promises
from benchmarks.records import one_thread, table

RESULTS = Path(__file__).parent.parent / "results"


def names() -> list[str]:
    """The promises that can be measured."""
    return sorted(module.name for module in pkgutil.iter_modules(benchmarks.promises.__path__) if module.name[0] != "_")


def main() -> None:
    """Measure one promise, row by row, and write its page."""
    parser = argparse.ArgumentParser(description="Measure a promise of the documentation.")
    parser.add_argument("name", choices=names())
    parser.add_argument("--data", type=Path, help="a folder of data sets, for promises about real ones")
    parser.add_argument("--seeds", type=int, help="how many")
    arguments = parser.parse_args()
    module = import_module(f"benchmarks.promises.{arguments.name}")
    heading, _, rest = (module.__doc__ or "").strip().partition("\n")
    rows = []
    with one_thread():
        for row in module.measure(arguments.data, arguments.seeds or module.SEEDS):
            print(" | ".join(row), flush=True)
            rows.append(row)
    command = f"`python -m benchmarks.promises {arguments.name}{' --data FOLDER' if arguments.data else ''}`"
    lines = [f"# {heading.rstrip('.')}", "", f"{command}: {rest.strip()}", "", *table(module.HEADER, rows)]
    (RESULTS / f"{arguments.name}.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
