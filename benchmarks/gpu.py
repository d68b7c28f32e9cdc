"""Shortcuts on a CUDA GPU: ``python -m benchmarks.gpu`` prints what queries take without and with them.

Plain calls of the paper's size in float32, normalising the parameters included: medians by the GPU's own clock. Before
a time is printed, its result is compared with float64 on the same GPU.
"""

from __future__ import annotations

import argparse
import copy
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import socratic
from benchmarks.peers.models import rat_spn
from benchmarks.peers.points import Point
from benchmarks.peers.queries import DROPOUT
from benchmarks.timing import machine, peak_memory_mb


class Way(NamedTuple):
    """Which shortcuts are taken, and how matrices are multiplied."""

    graphs: bool
    kernels: bool
    precision: str = "highest"


WAYS = {
    "plain PyTorch": Way(graphs=False, kernels=False),
    "graphs": Way(graphs=True, kernels=False),
    "kernels": Way(graphs=False, kernels=True),
    "both, which is the default": Way(graphs=True, kernels=True),
    "both, fewer digits": Way(graphs=True, kernels=True, precision="high"),
}
QUERIES: dict[str, Callable[[socratic.Circuit, Tensor], Tensor]] = {
    "forward": lambda circuit, x: circuit.log_likelihood(x),
    "exact TDI, edge masks": lambda circuit, x: socratic.tdi(circuit, x, dropout=DROPOUT).relative_variance,
    "exact TDI, unit masks": lambda circuit, x: (
        socratic.tdi(circuit, x, dropout=DROPOUT, masks="unit").relative_variance
    ),
}


def median_ms(call: Callable[[], Any], repeats: int = 51, warm_up: int = 4) -> float:
    """Median time between two events of the GPU, one before and one after the call."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(repeats):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def error(found: Tensor, exact: Tensor) -> float:
    """Largest difference relative to the exact value."""
    return float(((found.double() - exact) / exact).abs().max())


def lines(n_features: int, batches: list[int]) -> list[str]:
    """One row of the table for each query and batch."""
    circuit = rat_spn(Point(n_features)).to("cuda")
    wide = copy.deepcopy(circuit).double()
    found = []
    for name, query in QUERIES.items():
        for batch in batches:
            x = torch.randn(batch, n_features, device="cuda")
            with socratic.acceleration(graphs=False, kernels=False):
                exact = query(wide, x[:64].double())
            cells = []
            for way in WAYS.values():
                torch.set_float32_matmul_precision(way.precision)
                with socratic.acceleration(graphs=way.graphs, kernels=way.kernels):
                    milliseconds = median_ms(lambda query=query, x=x: query(circuit, x))  # type: ignore[misc]
                    memory = peak_memory_mb(lambda query=query, x=x: query(circuit, x), circuit.device)  # type: ignore[misc]
                    cells.append(f"{milliseconds:.2f} ms, {memory:.0f} MB, {error(query(circuit, x)[:64], exact):.0e}")
            torch.set_float32_matmul_precision("highest")
            row = f"| {name}, {n_features} variables, batch {batch} | {' | '.join(cells)} |"
            print(row, flush=True)
            found.append(row)
            del x
            torch.cuda.empty_cache()
    return found


@torch.no_grad()
def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "gpu.md")
    parser.add_argument("--features", type=int, nargs="+", default=[784, 3072])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 200, 2048, 8192])
    arguments = parser.parse_args()
    torch.manual_seed(0)
    table = [
        f"# Shortcuts on a GPU: {machine('cuda')}",
        "",
        "Median time of a plain call, memory besides that of recordings, and the largest error relative to float64.",
        "",
        f"| what | {' | '.join(WAYS)} |",
        "| --- |" + " --- |" * len(WAYS),
    ]
    table += [line for n_features in arguments.features for line in lines(n_features, arguments.batches)]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("\n".join(table) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
