"""Published numbers and targets that results are set beside."""

from __future__ import annotations

from dataclasses import dataclass

from socratic_experiments.reporting.summaries import NOTHING, Stat, is_alone

CITATION = "Ventola et al., Probabilistic Circuits That Know What They Don't Know, UAI 2023"
PAPER_SETS = ("CIFAR-100", "CINIC", "LSUN")
PAPER_AUC: dict[str, tuple[float, float, float]] = {
    "PC": (29.3, 29.9, 30.3),
    "PC + TDI": (64.6, 66.1, 81.8),
    "PC + MCD": (68.5, 70.0, 84.9),
    "MLP": (56.0, 58.1, 55.9),
    "MLP + MCD": (80.8, 95.9, 80.5),
    "LeNet": (17.1, 15.6, 2.6),
    "LeNet + MCD": (43.4, 92.9, 29.5),
}
"""Table 1 of the paper, trained on SVHN: the paper's AUC for each of ``PAPER_SETS``."""
STANDS_FOR = {"cifar10": "CIFAR-100", "cifar100": "CIFAR-100", "cinic": "CINIC", "lsun": "LSUN", "scenes": "LSUN"}
"""Unknown sets, and the paper's that they are or take the place of."""


@dataclass(frozen=True)
class Quoted:
    """An operating point that the paper quotes for LSUN: a method, a threshold without a unit, and two errors."""

    method: str
    threshold: float
    known_error: float
    unknown_error: float


QUOTED = (Quoted("PC", 0.05, 28.7, 21.8), Quoted("PC + TDI", 0.6, 13.2, 10.2))
QUOTED_DETECTION = {"PC": 24.0}
"""Percent of LSUN that the paper detects while 95 % of SVHN are kept as known."""

CORRUPTION_TARGET = 12
"""Of 15 corruptions, those whose severity the mean entropy should follow."""

AUROC_TARGETS = {("mnist", "notmnist"): 0.995, ("svhn", "cifar10"): 0.95, ("svhn", "scenes"): 0.95}
ACCURACY_TARGETS = {"mnist": 0.98, "svhn": 0.85}
_MODELS = (("paper's circuit", "PC"), ("mlp", "MLP"), ("lenet", "LeNet"))


def paper_row(model: str, method: str) -> str | None:
    """The row of the paper's Table 1 that a model and method belong to, if any: only circuits of its structure do."""
    start = next((name for word, name in _MODELS if word in model.lower() and "ensemble" not in model.lower()), None)
    if start is None:
        return None
    if is_alone(method):
        return start
    ending = " + TDI" if method.startswith("TDI") else " + MCD" if method.startswith("Monte Carlo") else None
    row = f"{start}{ending}"
    return row if row in PAPER_AUC else None


def verdict(value: Stat | None, target: float | None, digits: int = 3, scale: float = 1.0) -> str:
    """Whether the mean reaches a target, and by how much it fails to."""
    if value is None or target is None:
        return NOTHING
    missing = scale * (target - value.mean)
    if missing <= 0:
        return "met"
    least = 10.0**-digits
    return f"missed by {missing:.{digits}f}" if missing >= least else f"missed by less than {least:g}"
