"""The work of ``socratic-experiments``: open the data, run, draw, and say what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from socratic_experiments.closeness import run_closeness
from socratic_experiments.console import Bars
from socratic_experiments.doubt import run_doubt
from socratic_experiments.ood import run_ood, run_sweep
from socratic_experiments.records import Records
from socratic_experiments.reporting.page import write_joint_report, write_report
from socratic_experiments.samples import save_samples
from socratic_experiments.settings import ExperimentSettings
from socratic_experiments.shifted import run_corruption, run_rotation
from socratic_experiments.workbench import Workbench, known_images

EXPERIMENTS: dict[str, Callable[..., None]] = {
    "ood": run_ood,
    "doubt": run_doubt,
    "sweep": run_sweep,
    "closeness": run_closeness,
    "rotation": run_rotation,
    "corruption": run_corruption,
}
PAPER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ood", {"train": "svhn"}),
    ("ood", {"train": "svhn", "normalise": "own"}),
    ("rotation", {"train": "mnist"}),
    ("corruption", {"train": "svhn"}),
    ("corruption", {"train": "svhn", "constants": "imagenet"}),
)
"""The evaluations of the TDI paper: what each is, and its options."""
_RUN = ("data", "output", "seeds", "models", "methods", "device", "report")
"""Options that do not decide what a figure is, but which are computed, where and from where."""


def choose_device(name: str) -> torch.device:
    """The device by name; "auto" takes a CUDA GPU if there is one."""
    found = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=found).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be 'auto', 'cpu', or one that is there; got {name!r} ({reason})") from None


def run_paper(options: Mapping[str, Any]) -> None:
    """All evaluations of the paper on its circuits, each in its folder, and one page for all."""
    for train in dict.fromkeys(own["train"] for _, own in PAPER):
        known_images(train, options.get("data"))  # a missing set is better found before hours of training
    folders = []
    for kind, own in PAPER:
        asked = {name: value for name, value in options.items() if kind == "ood" or name != "unknown"}
        folders.append(run_experiment(kind, {**asked, **own}, page=False))
    if options["report"]:
        print(f"Report: {write_joint_report(folders, options['output'] / 'paper')[-1]}")


def run_experiment(kind: str, options: Mapping[str, Any], *, page: bool = True) -> Path:
    """Run one experiment with checked names of options, write its folder, with a page of its own, and return it."""
    root: Path = options["output"]
    decisive = {name: value for name, value in options.items() if name not in _RUN}
    settings = ExperimentSettings(**{**decisive, "unknown": tuple(decisive.get("unknown", ()))})
    unusual = [value for value in (settings.normalise, settings.constants) if value not in ("train", "cifar")]
    train = Path(settings.train).name.replace(":", "-")  # a colon is no good in names of folders
    folder = root / "-".join([kind, train, *unusual])
    device = choose_device(options["device"])
    bench = Workbench.open(settings, options.get("data"), root / "models", device, Bars(), options.get("methods") or ())
    models = options.get("models")
    bench.plan(models, options["seeds"], circuits_only=kind in ("closeness", "sweep"))
    records = Records(folder, {**settings.to_dict(), "images": bench.digest})
    EXPERIMENTS[kind](bench, records, models, options["seeds"])
    if options["report"]:
        if kind in ("rotation", "corruption"):
            save_samples(kind, bench.test.images, bench.settings.constants, folder)
        if page:
            print(f"Report: {write_report(folder)[-1]}")
    return folder
