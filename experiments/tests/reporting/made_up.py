"""Records made by hand, whose tables can be checked by head."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

from socratic_experiments.reporting.summaries import Record

TOP = log(10)
ALONE, EXACT = "circuit alone", "TDI exact, unit masks"
SAMPLED = "Monte Carlo dropout, 100 passes"
PAPERS = "paper's circuit"


def falling(share: float) -> list[float]:
    """Shares flagged that fall in a straight line from ``share`` to none: (101,)."""
    return [share * (1 - step / 100) for step in range(101)]


def ood(model: str, method: str, seed: int, auroc: float, **more: Any) -> list[Record]:
    """A known and an unknown set; ``more`` is of both."""
    base = {"experiment": "ood", "train": "svhn", "model": model, "method": method, "seed": seed, "max_entropy": TOP}
    counts = {"entropy_counts": [0.025] * 40, "std_counts": [0.025] * 40}
    known = {
        "set": "svhn",
        "role": "known",
        "accuracy": 0.9,
        "flagged": falling(0.5),
        "entropy": 0.5,
        "std": 0.1,
        "paper_auc": 20.0,
    }
    unknown = {
        **{"set": "scenes", "role": "unknown", "accuracy": None, "flagged": falling(1.0), "entropy": 1.0, "std": 0.2},
        **{"auroc": auroc, "aupr": 0.9, "fpr95": 0.25, "paper_auc": 40.0, "seconds_per_1000": 0.5},
    }
    return [{**base, **counts, **known, **more}, {**base, **counts, **unknown, **more}]


def shifted(
    experiment: str, shift: str, method: str, entropies: list[float | None], step: int, **more: Any
) -> list[Record]:
    """Levels of a shift, with accuracy that falls by a tenth each."""
    names = {"experiment": experiment, "train": "svhn", "model": "circuit", "method": method, "seed": 0, **more}
    return [
        {
            **names,
            **{"shift": shift, "level": step * place, "accuracy": None if entropy is None else 0.9 - place / 10},
            **{"entropy": entropy, "std": None if method == ALONE else 0.1, "refused": place / 10, "auroc": 0.6},
        }
        for place, entropy in enumerate(entropies)
    ]


def closeness(method: str, error: float, **more: Any) -> Record:
    """One estimate."""
    base = {"experiment": "closeness", "train": "svhn", "model": "circuit", "method": method, "seed": 0}
    errors = {"error_mean": error, "error_entropy": 2 * error, "error_std": error / 2, "reference_passes": 10_000}
    return {**base, **errors, "masks": "edge", "seconds_per_1000": 1.0, **more}


def papers() -> list[Record]:
    """The paper's circuit: its AUC doubles by sampling alone, for known images as well."""
    edge = "TDI exact, edge masks"
    records = []
    for seed in (0, 1):
        records += ood(PAPERS, ALONE, seed, 0.70, detected_at_5=0.2, paper_auc=35.0)
        records += ood(PAPERS, edge, seed, 0.70 + 0.02 * seed, paper_auc=50.0)
        records += ood(PAPERS, SAMPLED, seed, 0.70, paper_auc=71.0)
        records += ood(PAPERS, edge, seed, 0.6, paper_auc=60.0, variant="own")
        records += ood("paper's circuit with dropout", ALONE, seed, 0.8, paper_auc=78.0)
    for method, last in ((ALONE, 0.4), (edge, 0.9)):
        turned = [last * step / 18 for step in range(19)]
        records += shifted("rotation", "rotation", method, list(turned), 5, model=PAPERS, train="mnist")
        for name in ("elastic_transform", "gaussian_noise", "zoom_blur", "pixelate", "jpeg_compression"):
            records += shifted("corruption", name, method, [last * step for step in range(6)], 1, model=PAPERS)
    return records


def made_up() -> list[Record]:
    """A little of everything: two seeds, nulls, a model with one seed, a method nobody has heard of."""
    silent = dict.fromkeys(("flagged", "entropy_counts", "std_counts", "entropy", "std", "accuracy"))
    training = {"experiment": "training", "train": "svhn", "model": "circuit", "device": "a fast one", "n_epochs": 5}
    records = [
        {**training, "method": "training", "seed": 0, "accuracy": 0.84, "seconds": 60.0, "n_parameters": 1234},
        {**training, "method": "training", "seed": 1, "accuracy": 0.82, "seconds": 120.0, "n_parameters": 1234},
    ]
    for seed in (0, 1):
        records += ood("circuit", ALONE, seed, 0.90 + 0.02 * seed)
        records += ood("circuit", EXACT, seed, 0.93 + 0.02 * seed, paper_auc=90.0)
        records += ood("circuit", SAMPLED, seed, 0.94)
        records += ood("circuit", "log-likelihood", seed, 0.25, **silent, paper_auc=None)
        records += ood("LeNet-5", "network alone", seed, 0.97)
    records += ood("circuit without dropout", ALONE, 0, 0.80)
    records += ood("circuit without dropout", EXACT, 0, 0.82)
    records += ood("circuit", "crystal ball", 0, 0.96)
    records += shifted("rotation", "rotation", ALONE, [0.1, 0.2, 0.3, 0.25, 0.5, 0.5, 0.6], 15)
    records += shifted("rotation", "rotation", EXACT, [0.1, 0.3, 0.4, 0.5, 0.6, 0.6, 0.5], 15)
    for name, last in (("fog", 0.9), ("frost", 0.0), ("brightness", None)):
        rising = [0.1, 0.2, 0.3, 0.4, 0.5, last] if last is not None else [0.1] * 6
        records += shifted("corruption", name, EXACT, rising, 1)
        records += shifted("corruption", name, "log-likelihood", [None] * 6, 1)
    records += [closeness(f"Monte Carlo, {n} passes", n**-0.5, n_passes=n) for n in (1, 10, 100)]
    records += [closeness("TDI exact", 0.2, equivalent_mean=25.0, equivalent_entropy=None)]
    sweep = {"experiment": "sweep", "train": "svhn", "model": "circuit", "method": EXACT, "seed": 0, "set": "scenes"}
    records += [{**sweep, "role": "unknown", "dropout": rate, "auroc": 0.9 + rate / 10} for rate in (0.1, 0.3)]
    return [*records, {**sweep, "set": "svhn", "role": "known", "dropout": 0.1, "auroc": None, "accuracy": 0.9}]


def write_results(folder: Path, records: list[Record], ending: str = "") -> Path:
    """A folder of results, whose last line may be torn."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "records.jsonl").write_text(lines + ending, encoding="utf-8")
    settings = {"train": "svhn", "folder": "/somewhere/else/sets", "unknown": ["scenes"], "recipe": {"dropout": 0.1}}
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
