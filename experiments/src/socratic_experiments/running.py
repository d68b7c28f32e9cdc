"""The work of ``socratic-experiments``: open the data, run, draw, and say what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from socratic_experiments.closeness import run_closeness
from socratic_experiments.console import Bars
from socratic_experiments.ood import run_ood, run_sweep
from socratic_experiments.records import Records
from socratic_experiments.reporting.page import PAGE, write_report
from socratic_experiments.samples import save_samples
from socratic_experiments.settings import ExperimentSettings
from socratic_experiments.shifted import run_corruption, run_rotation
from socratic_experiments.workbench import Workbench

EXPERIMENTS: dict[str, Callable[..., None]] = {
    "ood": run_ood,
    "sweep": run_sweep,
    "closeness": run_closeness,
    "rotation": run_rotation,
    "corruption": run_corruption,
}
_RUN = ("data", "output", "seeds", "models", "device", "report")
"""Options that do not decide what a figure is, but which are computed, where and from where."""


def choose_device(name: str) -> torch.device:
    """The device by name; "auto" takes a CUDA GPU if there is one."""
    found = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=found).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be 'auto', 'cpu', or one that is there; got {name!r} ({reason})") from None


def run_experiment(kind: str, options: Mapping[str, Any]) -> None:
    """Run one experiment with checked names of options and write its folder."""
    root: Path = options["output"]
    decisive = {name: value for name, value in options.items() if name not in _RUN}
    settings = ExperimentSettings(**{**decisive, "unknown": tuple(decisive.get("unknown", ()))})
    unusual = [value for value in (settings.normalise, settings.constants) if value not in ("train", "cifar")]
    folder = root / "-".join([kind, Path(settings.train).name, *unusual])
    device = choose_device(options["device"])
    bench = Workbench.open(settings, options.get("data"), root / "models", device, Bars())
    models = options.get("models")
    bench.plan(models, options["seeds"], circuits_only=kind in ("closeness", "sweep"))
    records = Records(folder, {**settings.to_dict(), "images": bench.digest})
    EXPERIMENTS[kind](bench, records, models, options["seeds"])
    if options["report"]:
        print(f"Report: {draw(kind, bench, folder)}")


def draw(kind: str, bench: Workbench, folder: Path) -> Path:
    """The figures and the page of an experiment."""
    if kind in ("rotation", "corruption"):
        save_samples(kind, bench.test.images, bench.settings.constants, folder)
    write_report(folder)
    return folder / PAGE
