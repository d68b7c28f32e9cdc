"""Rows with missing cells are refused as often as others.

Of familiar rows that had no part in a fit, how many are refused at 5 % with none, 20, 50 and 80 % of their cells hidden
at random (rows of which nothing is left, which are never refused, do not count); and how well rows whose columns are
shuffled are told from them with half of the cells of both hidden (AUROC). Models have default settings. Of a table at
most 1,000 rows are fitted, and a third at most is asked. In brackets: standard errors over seeds; of the mean of all
tables, too. *correlated* and *one column* are made up: ten columns made of three, and one of long tails beside three of
counts that are hardly ever above 0.

Means over the tables when p-values compared rows by the mean and the variance of their scores alone (rows of which
nothing is left counted): outlier detectors 4.9, 4.7, 4.8 and 3.4 % (AUROC .733), classifiers 5.0, 7.5, 10.5 and 9.8 %
(.735), guards 4.2, 4.6, 6.9 and 7.2 % (.713).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.promises._tables import MODELS, fitted, names, p_value, samples
from socratic.uncertainty import auroc

SEEDS = 4
HIDDEN = (0.0, 0.2, 0.5, 0.8)
HEADER = ["model", "table", *(f"{share:.0%} hidden" for share in HIDDEN), "AUROC, 50 % hidden"]


def hide(rows: pd.DataFrame, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Rows with a share of their cells hidden at random, but for those of which nothing is left."""
    left = rows.mask(rng.random(rows.shape) < share)
    return left[left.notna().any(axis=1)]


def shuffled(rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every column in an order of its own."""
    return pd.DataFrame({name: rows[name].iloc[rng.permutation(len(rows))].to_numpy() for name in rows})


def outcome(model: str, name: str, data: Path | None, seeds: int) -> np.ndarray:
    """Refused shares and the AUROC of each seed: (seeds, 5)."""
    found = []
    for seed, rows in samples(name, data, seeds):
        rng = np.random.default_rng(seed)
        judge = fitted(model, rows, seed)
        refused = [float((p_value(judge, hide(rows.asked, share, rng)) <= 0.05).mean()) for share in HIDDEN]
        familiar, other = (p_value(judge, hide(some, 0.5, rng)) for some in (rows.asked, shuffled(rows.asked, rng)))
        found.append([*refused, float(auroc(-familiar, -other))])
    return np.array(found)


def row(model: str, name: str, found: np.ndarray) -> list[str]:
    """A line of the table, from the numbers of each seed (seeds, 5)."""
    mean, error = found.mean(0), found.std(0) / np.sqrt(max(len(found) - 1, 1))
    shares = [f"{100 * m:.1f} % ({100 * e:.1f})" for m, e in zip(mean[:-1], error[:-1], strict=True)]
    return [model, name, *shares, f"{mean[-1]:.3f} ({error[-1]:.3f})"]


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """One row for each model and table, and one for the mean of the tables."""
    for model in MODELS:
        every = []
        for name in names(data):
            every.append(outcome(model, name, data, seeds))
            yield row(model, name, every[-1])
        yield row(model, "mean", np.mean(every, axis=0))
