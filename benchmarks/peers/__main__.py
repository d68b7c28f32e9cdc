"""Speed beside other libraries: ``python -m benchmarks.peers --device cpu``; on a GPU ``--device cuda``.

Each library has a process of its own, which can have its own interpreter (``--python cirkit=PATH``). What was measured
is kept as it comes: a run that was stopped goes on where it was. When all is measured, the page of the documentation is
written from all that was kept.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from dataclasses import asdict

from benchmarks.peers.measure import ROOT, Library, measure_pair, measure_queries
from benchmarks.peers.models import PEERS
from benchmarks.peers.page import write
from benchmarks.peers.points import PAPER_SIZES, TASKS, all_points
from benchmarks.peers.queries import QUERIES
from benchmarks.records import Measures, Names, Records
from benchmarks.timing import machine

RESULTS = ROOT / "benchmarks" / "results"
LIMITS = {"cpu": 30.0, "cuda": 150.0}
"""Seconds for an answer: libraries that compile kernels do so in the first one."""


class Run:
    """Measures what is not known yet."""

    def __init__(self, records: Records, *, again: bool) -> None:
        self.records, self.again = records, again
        self.start = time.perf_counter()
        self.stamp = {"run": float(round(time.time())), "version": version()}

    def needs(self, what: str, *keys: Names) -> bool:
        """Whether anything of this has to be measured; says so if it has."""
        if not self.again and all(self.records.get(key) is not None for key in keys):
            return False
        print(f"{time.perf_counter() - self.start:6.0f} s  {what}", flush=True)
        return True

    def keep(self, names: Names, measures: Measures) -> None:
        """Keep what was measured, in which run, and of which version of this library."""
        self.records.add(names, {**measures, **self.stamp})

    def measure(self, ours: Library, theirs: dict[str, Library], device: str) -> None:
        """Measure the device, this library beside others, and what it computes alone."""
        ceilings = {"what": "ceilings", "machine": machine(device)}
        if self.needs("ceilings", ceilings):
            self.keep(ceilings, ours.ask("ceilings"))
        for peer, library in theirs.items():
            self.keep({"what": "version", "peer": peer, "version": library.ask("version")}, {})
        for point in all_points():
            for peer, library in theirs.items():
                keys = {task: {"what": task, "peer": peer, **asdict(point)} for task in TASKS}
                if self.needs(f"{peer}, {point}", *keys.values()):
                    for task, measures in measure_pair(library, ours, point, TASKS).items():
                        self.keep(keys[task], measures)
        for point in PAPER_SIZES:
            if self.needs(f"own queries, {point}", *({"what": name, **asdict(point)} for name in QUERIES)):
                for name, measures in measure_queries(ours, point).items():
                    self.keep({"what": name, **asdict(point)}, measures)


def version() -> float:
    """A number for the sources of this library: a run that goes on measures the same as before, or it does not."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src" / "socratic").rglob("*")):
        if path.suffix in {".py", ".cpp", ".h", ".cu"}:
            digest.update(path.read_bytes())
    return float(int(digest.hexdigest()[:12], 16))


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--peers", nargs="+", choices=PEERS["cuda"], help="by default all that run on the device")
    parser.add_argument("--python", nargs="+", default=[], metavar="LIBRARY=PATH", help="interpreters of libraries")
    parser.add_argument(
        "--limit",
        type=float,
        help="seconds for each answer: by default 30, on a CPU those of the process, on a GPU 150",
    )
    parser.add_argument("--again", action="store_true", help="measure again what is known")
    parser.add_argument("--page", action="store_true", help="only write the page from what is known")
    arguments = parser.parse_args()
    device = arguments.device
    records = Records(RESULTS / f"peers-{device}.jsonl")
    if not arguments.page:
        pythons = dict(pair.split("=", 1) for pair in arguments.python)
        names = ["socratic", *(arguments.peers or PEERS[device])]
        limit = arguments.limit or LIMITS[device]
        libraries = {name: Library(name, device, pythons.get(name), limit) for name in names}
        try:
            peers = {name: library for name, library in libraries.items() if name != "socratic"}
            Run(records, again=arguments.again).measure(libraries["socratic"], peers, device)
        finally:
            for library in libraries.values():
                library.close()
    write(ROOT / "docs" / "benchmarks.md", RESULTS)


if __name__ == "__main__":
    main()
