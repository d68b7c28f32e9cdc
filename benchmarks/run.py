"""All benchmarks in one command: ``python -m benchmarks.run`` prints a table and writes it to a file.

Times are medians of one run on one machine, on a CPU those of the process; ratios compare within that run, and are
refused when the compared outputs disagree. The paper's size: S = I = 20, D = R = 5, C = 10, batch 200, float32;
normalising the parameters is inside the clock.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import multiprocessing
import platform
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import socratic
from benchmarks.graphs import graph_rows
from benchmarks.timing import as_graph, median_seconds, peak_memory_mb, ratio, seconds_in_turn

PAPER_SIZE: dict[str, Any] = {"n_classes": 10, "n_sums": 20, "n_leaves": 20, "depth": 5, "n_repetitions": 5}
DROPOUT = 0.2
N_PASSES = 100
BATCH = 200

Row = tuple[str, str]


def spflow_rows(n_features: int) -> list[Row]:
    """Plain forward against SPFlow's Einet with the same weights, SPFlow also at its best chunk size."""
    from benchmarks.spflow_einet import matched_pair

    device = torch.device("cpu")
    x = torch.randn(BATCH, n_features)
    circuit, _ = matched_pair(n_features, **PAPER_SIZE)
    ours = median_seconds(lambda: circuit.log_likelihood(x), device, repeats=15)
    rows = [(f"forward, {n_features} variables", f"{ours * 1e3:.1f} ms")]
    for chunk_size in (None, 25):
        _, theirs = matched_pair(n_features, **PAPER_SIZE, chunk_size=chunk_size)
        difference = float((circuit.log_likelihood(x) - theirs(x)).abs().max())
        seconds = median_seconds(lambda call=theirs: call(x), device, repeats=7)  # type: ignore[misc]
        name = "SPFlow 1.1 Einet (einsum), " + ("one call" if chunk_size is None else f"{chunk_size} rows a call")
        rows.append((name, f"{seconds * 1e3:.1f} ms, {ratio(seconds, ours, difference, 0.01)} ours"))
    return rows


def covariance_rows(circuit: socratic.Circuit, x: Tensor) -> list[Row]:
    """TDI without and with covariances beside the plain forward, taken in turn; all must agree on the means."""
    variants: dict[str, Callable[[], socratic.Moments]] = {
        "independent TDI (copy-paste)": lambda: socratic.tdi(circuit, x, dropout=DROPOUT, covariance="independent"),
        "exact TDI": lambda: socratic.tdi(circuit, x, dropout=DROPOUT),
    }
    plain, *others = seconds_in_turn([lambda: circuit.log_likelihood(x), *variants.values()], circuit.device, 15)
    rows = [("in turn: forward", f"{statistics.median(plain) * 1e3:.1f} ms")]
    for (name, call), times in zip(variants.items(), others, strict=True):
        shift = call().log_mean - circuit.log_likelihood(x)  # by log q for each sum that a row meets: a constant
        slower = statistics.median(own / forward for own, forward in zip(times, plain, strict=True))
        compared = ratio(slower, 1.0, float(shift.max() - shift.min()), 0.01)
        rows.append((f"in turn: {name}", f"{statistics.median(times) * 1e3:.1f} ms, {compared} forward"))
    return rows


def dropout_rows(circuit: socratic.Circuit, x: Tensor, masks: str) -> list[Row]:
    """Exact TDI against Monte Carlo dropout; both must agree on the mean likelihood within sampling error."""
    device = circuit.device

    def moments() -> socratic.Moments:
        return socratic.tdi(circuit, x, dropout=DROPOUT, masks=masks)  # type: ignore[arg-type]

    def sampling() -> socratic.Posterior:
        return socratic.monte_carlo_dropout(circuit, x, dropout=DROPOUT, masks=masks, n_passes=N_PASSES)  # type: ignore[arg-type]

    exact = median_seconds(moments, device, repeats=5)
    sampled = median_seconds(sampling, device, repeats=1, warm_up=0)
    score = mean_score(circuit, x, masks, moments())
    return [
        (f"exact TDI, {masks} masks", f"{exact * 1e3:.1f} ms"),
        (
            f"{N_PASSES} Monte Carlo passes, {masks} masks",
            f"{sampled * 1e3:.0f} ms, {ratio(sampled, exact, score, 4.0)} exact TDI",
        ),
    ]


def mean_score(circuit: socratic.Circuit, x: Tensor, masks: str, moments: socratic.Moments) -> float:
    """Median |z| of the sampled mean likelihoods under the exact moments: about 0.7 if they agree."""
    passes = socratic.sample_log_likelihoods(circuit, x, dropout=DROPOUT, masks=masks, n_passes=N_PASSES)  # type: ignore[arg-type]
    relative = torch.stack([torch.exp(value - moments.log_mean) for value in passes]).mean(0)
    deviation = torch.sqrt(moments.relative_variance / N_PASSES)
    return float(((relative - 1.0) / deviation).abs().median())


def _memory_of_tdi(masks: str) -> tuple[float, float]:
    torch.set_num_threads(1)
    device = torch.device("cpu")
    circuit = socratic.rat_spn(784, **PAPER_SIZE)
    x = torch.randn(BATCH, 784)
    with torch.no_grad():
        before = peak_memory_mb(lambda: None, device)
        peak = peak_memory_mb(lambda: socratic.tdi(circuit, x, dropout=DROPOUT, masks=masks), device)  # type: ignore[arg-type]
    return before, peak


def memory_rows() -> list[Row]:
    """Peak memory of a fresh process that runs exact TDI once."""
    rows = []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for masks in ("edge", "unit"):
            before, peak = pool.apply(_memory_of_tdi, (masks,))
            rows.append((f"peak memory of exact TDI, {masks} masks", f"{peak:.0f} MB, {before:.0f} MB before it"))
    return rows


def cpu_rows() -> list[Row]:
    """One thread, denormals flushed."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows: list[Row] = []
    if importlib.util.find_spec("spflow") is None:
        rows.append(("SPFlow", "not installed: make benchmark installs it"))
    else:
        rows += spflow_rows(784)
    circuit = socratic.rat_spn(784, **PAPER_SIZE)
    x = torch.randn(BATCH, 784)
    rows += covariance_rows(circuit, x)
    for masks in ("edge", "unit"):
        rows += dropout_rows(circuit, x, masks)
    return rows + memory_rows() + graph_rows()


def cuda_rows() -> list[Row]:
    """Forward and exact TDI over batch sizes, eager and as a CUDA graph, with peak memory."""
    device = torch.device("cuda")
    rows: list[Row] = []
    for n_features in (784, 3072):
        circuit = socratic.rat_spn(n_features, **PAPER_SIZE).to(device)
        rows.append(agreement_row(circuit))
        for batch in (200, 2048, 8192):
            x = torch.randn(batch, n_features, device=device)
            calls: dict[str, Callable[[], Any]] = {
                "forward": lambda c=circuit, x=x: c.log_likelihood(x),  # type: ignore[misc]
                "exact TDI, edge masks": lambda c=circuit, x=x: socratic.tdi(c, x, dropout=DROPOUT),  # type: ignore[misc]
                "exact TDI, unit masks": lambda c=circuit, x=x: socratic.tdi(c, x, dropout=DROPOUT, masks="unit"),  # type: ignore[misc]
            }
            for name, call in calls.items():
                eager = median_seconds(call, device, repeats=15)
                replay = median_seconds(as_graph(call), device, repeats=15)
                memory = peak_memory_mb(call, device)
                rows.append(
                    (
                        f"{name}, {n_features} variables, batch {batch}",
                        f"{eager * 1e3:.2f} ms, {replay * 1e3:.2f} ms as a CUDA graph, {memory:.0f} MB",
                    )
                )
                torch.cuda.empty_cache()
        x = torch.randn(BATCH, n_features, device=device)
        rows += covariance_rows(circuit, x)
        for masks in ("edge", "unit"):
            rows += dropout_rows(circuit, x, masks)
    return rows


def agreement_row(circuit: socratic.Circuit) -> Row:
    """How far the device's float32 moments are from float64 on the CPU."""
    x = torch.randn(16, circuit.n_features)
    found = socratic.tdi(circuit, x.to(circuit.device), dropout=DROPOUT)
    reference = socratic.tdi(copy.deepcopy(circuit).cpu().double(), x, dropout=DROPOUT)
    shift = float((found.log_mean.cpu() - reference.log_mean).abs().max())
    spread = float((found.relative_variance.cpu() / reference.relative_variance - 1).abs().max())
    return (
        f"against float64 on the CPU, {circuit.n_features} variables",
        f"log-mean within {shift:.1g} nats, variance within {spread:.1g} of itself",
    )


def machine(device: str) -> str:
    """What the figures were measured on."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()} CPU, one thread"
    return f"{name}; torch {torch.__version__}, Python {platform.python_version()}, socratic {socratic.__version__}"


@torch.no_grad()
def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/DEVICE.md")
    arguments = parser.parse_args()
    output = arguments.output or Path(__file__).parent / "results" / f"{arguments.device}.md"
    torch.manual_seed(0)
    rows = cpu_rows() if arguments.device == "cpu" else cuda_rows()
    lines = [f"# Benchmarks: {machine(arguments.device)}", "", "| what | measured |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    text = "\n".join(lines) + "\n"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
