"""Log-moment propagation: ``python -m benchmarks.log_moments cost`` and ``... sweep``.

``cost`` compares times within one run, with denormals flushed: the plain forward, one pass of Monte Carlo dropout,
log-moments for both kinds of masks, and what a sharp row takes. ``sweep`` shows what each constant is worth: errors
against many passes on trained circuits as it varies, the others as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import socratic
from benchmarks.peers.models import rat_spn
from benchmarks.peers.points import Point
from benchmarks.peers.queries import DROPOUT
from benchmarks.timing import machine, median_seconds, peak_memory_mb
from socratic.inference import posterior_methods
from socratic.inference.layered.log_moments import masks as mask_module
from socratic.inference.layered.log_moments import root as root_module
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.closeness import ERRORS, equivalent_passes, errors
from socratic_experiments.settings import ExperimentSettings
from socratic_experiments.workbench import Workbench

N_PASSES = 30
LADDER = (10, 30, 100, 300)
N_REFERENCE = 2000
SWEPT: dict[str, tuple[ModuleType, tuple[float, ...]]] = {
    "N_CONDITIONED": (mask_module, (1, 2, 3, 4)),
    "N_SHARES": (mask_module, (8, 12, 16, 24)),
    "N_POINTS": (root_module, (64, 128, 256, 512)),
    "SHARP_CURVATURE": (posterior_methods, (0.25, 0.5, 1.0, 2.0)),
    "N_SHARP_PASSES": (posterior_methods, (31, 73, 101)),
}
"""Constants, where they are, and the values that are tried."""


@torch.no_grad()
def cost(device: torch.device, batches: Sequence[int]) -> list[str]:
    """Times as multiples of a plain forward, and peak memory on a GPU."""
    circuit = rat_spn(Point()).to(device)
    memory = device.type == "cuda"
    lines = ["| batch | what | ms | forwards |" + (" MB |" if memory else "")]
    lines.append("| --: | --- | --: | --: |" + (" --: |" if memory else ""))
    for batch in batches:
        x = torch.randn(batch, 784, generator=torch.Generator().manual_seed(0)).to(device)
        calls: dict[str, Callable[[], Any]] = {"plain forward": partial(circuit.log_likelihood, x)}
        for kind in ("unit", "edge"):
            settings: dict[str, Any] = {"dropout": DROPOUT, "masks": kind}
            calls[f"log moments, {kind} masks"] = partial(
                socratic.dropout_posterior, circuit, x, method="log-moments", **settings
            )
            calls[f"{N_PASSES} passes, {kind} masks"] = partial(
                socratic.monte_carlo_dropout, circuit, x, n_passes=N_PASSES, **settings
            )
            calls[f"sharp rows, {kind} masks: log moments and {posterior_methods.N_SHARP_PASSES} balanced passes"] = (
                partial(_all_sharp, circuit, x, settings)
            )
        plain = 0.0
        for name, call in calls.items():
            seconds = median_seconds(call, device, repeats=3 if "passes" in name else 9, warm_up=1)
            plain = plain or seconds
            line = f"| {batch} | {name} | {1e3 * seconds:.1f} | {seconds / plain:.1f} |"
            if memory:
                line += f" {peak_memory_mb(call, device):.0f} |"
            lines.append(line)
            print(line, flush=True)
    return lines


def _all_sharp(circuit: socratic.Circuit, x: Tensor, settings: dict[str, Any]) -> None:
    with constant(posterior_methods, "SHARP_CURVATURE", -1.0):
        socratic.dropout_posterior(circuit, x, **settings)


@contextmanager
def constant(module: ModuleType, name: str, value: float) -> Iterator[None]:
    """A constant of the package at another value, for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def sweep(bench: Workbench, models: Sequence[str] | None, dropout: float, n_rows: int) -> list[str]:
    """Passes that Monte Carlo dropout needs to be as close, over the values of each constant."""
    lines = ["| model | masks | constant | value | N, mean | N, entropy | N, std | N, information |"]
    lines.append("| --- | --- | --- | --: " + "| --: " * len(ERRORS) + "|")
    for task, model, _ in bench.models(bench.plan(models, [0], circuits_only=True)):
        assert isinstance(model, CircuitModel)
        rows = _rows(bench, model, n_rows)
        for kind in ("unit", "edge"):
            lines += _sweep_masks(task.model, model, rows, kind, dropout)
    return lines


@torch.no_grad()
def _sweep_masks(name: str, model: CircuitModel, rows: Tensor, kind: str, dropout: float) -> list[str]:
    """The rows of one model and kind of masks."""
    lines = []
    asked = model.with_rate(dropout)
    sampled = partial(asked.monte_carlo, rows, masks=kind)
    reference = sampled(n_passes=N_REFERENCE, seed=0)
    ladder = {n: errors(sampled(n_passes=n, seed=n), reference) for n in LADDER}
    for swept, (module, values) in SWEPT.items():
        for value in values:
            with constant(module, swept, value):
                found = errors(asked.dropout_posterior(rows, masks=kind), reference)
            passes = [f"{equivalent_passes(found[error], ladder, error):.0f}" for error in ERRORS]
            chosen = " (chosen)" if value == getattr(module, swept) else ""
            lines.append(f"| {name} | {kind} | {swept} | {value:g}{chosen} | " + " | ".join(passes) + " |")
            print(lines[-1], flush=True)
    return lines


def _rows(bench: Workbench, model: CircuitModel, n_rows: int) -> Tensor:
    """Rows (N, V), known and unknown images in equal shares."""
    sets = [bench.test, *bench.unknown]
    parts = [images.take(np.linspace(0, len(images) - 1, n_rows // len(sets)).astype(int)) for images in sets]
    return torch.cat([model.rows(part.images) for part in parts])


def main() -> None:
    """Measure, print and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["cost", "sweep"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[200, 2048])
    parser.add_argument("--train", default="digits", help="the training set of the swept circuits")
    parser.add_argument("--unknown", nargs="*", default=[], help="sets of unknown images")
    parser.add_argument("--data", type=Path, help="the folder of all sets")
    parser.add_argument("--models", nargs="+", help="default: all circuits")
    parser.add_argument("--dropout", type=float, default=DROPOUT)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where trained models are kept")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
    if arguments.what == "cost":
        title = f"Cost of log moments: {machine(arguments.device)}"
        lines = cost(device, arguments.batches)
    else:
        title = f"Constants of log moments, {arguments.train}, dropout {arguments.dropout:g}"
        settings = ExperimentSettings(train=arguments.train, unknown=tuple(arguments.unknown))
        bench = Workbench.open(settings, arguments.data, arguments.folder, device)
        lines = sweep(bench, arguments.models, arguments.dropout, arguments.rows)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("\n".join([f"# {title}", "", *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
