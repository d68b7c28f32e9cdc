"""The page of the documentation, from what was measured on every device."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.figures import draw, file_name
from benchmarks.peers.points import AXES, MIDDLE, PAPER_SIZES, SWEEP, TASKS, Point, all_points, along
from benchmarks.peers.queries import QUERIES
from benchmarks.peers.results import Result, Results, exponent
from benchmarks.records import table

TITLES = {"cpu": "One CPU thread", "cuda": "A GPU"}
OLDER = " \\*"
"""Stands behind points that were measured with another version of this library than the latest ones."""
INTRODUCTION = """# Benchmarks

How fast this library is beside others that evaluate the same circuits. This page is written by

```sh
python -m benchmarks.peers --device cpu   # or cuda
```

from what it measured (`benchmarks/results`). A run that was stopped goes on where it was; `--again` measures anew.

- **What is compared.** RAT-SPNs with Gaussian leaves and all pairs as products, as many leaves as sums, 10 classes,
  float32. The other library builds the circuit, and this library reads it with its parameters: SPFlow's `Einet`
  with einsum layers, and `libcirkit`'s random binary trees with Tucker layers, folded and optimised. Log-likelihoods
  and gradients of both are compared before there is a ratio. PyJuice, which needs a GPU, cannot represent that circuit:
  it has one of the same depth and repetitions with as many parameters as nearly as its blocks allow, one root, and
  steps of expectation maximisation; while its leaves are standard normal it has to find that density, whatever its
  weights are. It has its own CUDA kernels, which `nvcc` and the package `nvidia-cutlass` compile on first use (one to
  three minutes, before anything is timed), beside those in Triton, and takes whichever it
  prefers. simple-einet is not to be had from PyPI and is not among them.
  On a CPU this library takes its kernels, which a compiler built when it was installed.
- **Forward** is the log-likelihood of every class without gradients, normalising the weights included. SPFlow keeps its
  normalised weights from the first call on. **A training step** is the gradient of the mean log-likelihood of the rows'
  classes and a step of Adam; on a GPU this library's is the recorded one that training takes.
- **Times** are the best of several calls, each library in a process of its own with one thread, and the two in turn.
  On a CPU they are those of its thread, which other programs disturb least; ratios are of these. Those of the clock
  stand beside them: where they are several times as long, other programs had the machine, and both libraries were
  slower than they need be. Every library, this one too, takes the batch in pieces of 25, 100 or all rows (at most
  2,048), whichever is fastest; gradients of pieces are added up.
- **Memory** is the peak of a call, besides what the process held before it.
- **The floor** is the larger of two times: operations over those a second of a product of two large matrices, on a CPU
  by torch or by this library's kernel, whichever is faster, and bytes that must be read or written once over those a
  second of a copy, both measured in the same run.
- **Growth** is the slope of log-time over the logarithm of the three largest values of an axis.

Libraries whose requirements conflict can each have an interpreter of their own, which also needs this library:

```sh
python -m venv ~/cirkit && ~/cirkit/bin/pip install -e . libcirkit
python -m benchmarks.peers --device cpu --python cirkit=$HOME/cirkit/bin/python
```
"""


def write(page: Path, folder: Path) -> None:
    """Write the page and its figures from the results in a folder."""
    found = read_all(folder)
    for results in found:
        draw(results, page.parent / "images")
    page.write_text(text(found), encoding="utf-8")


def read_all(folder: Path) -> list[Results]:
    """The results of every device that has some."""
    paths = {device: folder / f"peers-{device}.jsonl" for device in TITLES}
    return [Results.read(path, device) for device, path in paths.items() if path.exists()]


def text(found: list[Results]) -> str:
    """The page, with a section for every device."""
    return "\n".join([INTRODUCTION, *(section(results) for results in found)])


def section(results: Results) -> str:
    """What is said of one device."""
    ceilings = results.ceilings
    sides = {
        f"{label} {getattr(point, axis):,}": point
        for axis, label in AXES.items()
        for point in along(axis)
        if point != MIDDLE
    }
    lines = [
        f"## {TITLES[results.device]}",
        "",
        f"{results.machine}. A product of matrices reaches {ceilings['flops'] / 1e9:,.0f} GFLOP/s, "
        f"a copy {ceilings['bytes'] / 1e9:,.1f} GB/s. "
        f"Beside it: {', '.join(f'{peer} {results.versions[peer]}' for peer in results.peers)}.",
        "",
        *verdict(results),
        "### The paper's size",
        "",
        f"{PAPER_SIZES[0].n_sums} sums and leaves, depth {PAPER_SIZES[0].depth}, {PAPER_SIZES[0].n_repetitions} "
        f"repetitions, batches of {PAPER_SIZES[0].batch}.",
        "",
        *peer_table(results, {f"{point.n_features:,} variables": point for point in PAPER_SIZES}),
        "What only this library computes, in turn with its forward:",
        "",
        *query_table(results),
        "### Over sums, depth, repetitions and rows",
        "",
        f"From {MIDDLE} on, one of them varied at a time.",
        "",
        f"![Times over sums, depth, repetitions and batch](images/{file_name(results)})",
        "",
        *growth_table(results),
        *peer_table(results, {"the middle": MIDDLE} | sides),
    ]
    return "\n".join(lines).rstrip() + "\n"


def verdict(results: Results) -> list[str]:
    """At how many points this library is faster, which are lost, and whether some are still to be measured."""
    points, known = all_points(), {result.point for result in results.compared}
    lines = [] if known.issuperset(points) else [f"Measured so far: {len(known)} of {len(points)} points.", ""]
    for task in TASKS:
        for peer in results.peers:
            of_peer = [r for r in results.compared if (r.what, r.peer) == (task, peer)]
            ratios = [r.ratio for r in of_peer if r.ratio is not None]
            if not ratios:
                lines.append(f"- {task} beside {peer}: nothing could be compared.")
                continue
            lost = [str(r.point) for r in of_peer if r.ratio is not None and r.ratio <= 1.0]
            missing = len(of_peer) - len(ratios)
            lines.append(
                f"- {task} beside {peer}: {min(ratios):.1f} to {max(ratios):.1f} times as fast at {len(ratios)} points"
                + (f"; {missing} where {peer} has no result" if missing else "")
                + (f"; slower at {'; '.join(lost)}." if lost else "; slower at none.")
            )
    older = {result.point for result in results.compared if results.is_older(result)}
    if older:
        lines.append(
            f"- Points marked{OLDER}, {len(older)} of them, were measured with an earlier version of this library."
        )
    return [*lines, ""]


def peer_table(results: Results, points: dict[str, Point]) -> list[str]:
    """One row for each point, task and peer; points by what they are called."""
    header = ["what", "at", "ms", "clock", "floor", "MB", "beside", "ms", "clock", "MB", "rows", "parameters", "ratio"]
    rows = [
        [task, marked, *_own_cells(results, result), str(result.peer), *_peer_cells(result)]
        for name, point in points.items()
        for task in TASKS
        for result in results.of(task, point)
        for marked in [name + OLDER if results.is_older(result) else name]
    ]
    return table(header, rows)


def _own_cells(results: Results, result: Result) -> list[str]:
    measures = result.measures
    floor = results.floor(result)
    return [_ms(measures["seconds"]), _ms(measures["wall"]), _ms(floor), f"{measures['memory']:.0f}"]


def _peer_cells(result: Result) -> list[str]:
    measures = result.measures
    if result.ratio is None:
        return ["", "", "", "", f"{measures['parameters']:,.0f}", result.no_ratio()]
    parameters = f"{measures['parameters']:,.0f} / {measures['peer_parameters']:,.0f}"
    times = [_ms(measures["peer_seconds"]), _ms(measures["peer_wall"])]
    return [
        *times,
        f"{measures['peer_memory']:.0f}",
        f"{measures['piece']:.0f} / {measures['peer_piece']:.0f}",
        parameters,
        f"{result.ratio:.1f}",
    ]


def query_table(results: Results) -> list[str]:
    """What only this library computes, at the paper's sizes."""
    header = ["what", "variables", "ms", "clock", "floor", "MB", "forwards"]
    rows = []
    for point in PAPER_SIZES:
        for result in (result for name in QUERIES for result in results.of(name, point)):
            times = result.measures["seconds"] / result.measures["forward"]
            compared = f"{times:.1f}" if result.agrees else "refused: wrong by more than is allowed"
            rows.append([result.what, f"{point.n_features:,}", *_own_cells(results, result), compared])
    return table(header, rows)


def growth_table(results: Results) -> list[str]:
    """Exponents of growth along all axes."""
    rows = []
    for task in TASKS:
        for axis, label in AXES.items():
            times = results.times(task, axis)
            if len(times.get("socratic", [])) < len(SWEEP[axis]):
                continue  # still to be measured
            if len({results.is_older(result) for point in along(axis) for result in results.of(task, point)}) > 1:
                continue  # what changed between two versions is not growth
            found = [exponent(times.get(library, [])) for library in ("socratic", *results.peers)]
            rows.append([task, label, *("" if value is None else f"{value:.2f}" for value in found)])
    return table(["growth of", "over", "socratic", *results.peers], rows) if rows else []


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:,.0f}"
