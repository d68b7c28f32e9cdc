"""Rows with a category that training never saw are refused.

At 5 %, by models with default settings: of familiar rows that had no part in a fit, as they are, how many are refused;
and of the same rows with the value of one column replaced by one that no training row holds, on average over the
columns of text. Of a table at most 1,000 rows are fitted, and a third at most is asked. In brackets: standard errors
over seeds. *three kinds* is made up: three columns of three, five and twelve categories that have to do with one
another, and two of numbers.

When an unseen category counted as the rarest one of its column, and no more, outlier detectors refused 49 % of such
rows on the mean of the tables, at the same share of rows as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.promises._tables import MODELS, fitted, p_value, samples
from benchmarks.tables import TARGETS

SEEDS = 2
HEADER = ["model", "table", "columns of text", "refused as they are", "refused with an unseen category"]


def outcome(model: str, name: str, data: Path | None, seeds: int) -> np.ndarray:
    """Number of columns, and both refused shares, of each seed: (seeds, 3)."""
    found = []
    for seed, rows in samples(name, data, seeds):
        judge = fitted(model, rows, seed)
        table = getattr(judge, "density_", judge).table_
        text = [
            column.name
            for column in table.columns
            if column.left_out is None and column.rarest and not pd.api.types.is_numeric_dtype(rows.x[column.name])
        ]
        refused = [(p_value(judge, rows.asked.assign(**{column: "never seen"})) <= 0.05).mean() for column in text]
        found.append([len(text), (p_value(judge, rows.asked) <= 0.05).mean(), np.mean(refused)])
    return np.array(found)


def row(model: str, name: str, found: np.ndarray) -> list[str]:
    """A line of the table, from the numbers of each seed (seeds, 3)."""
    mean, error = found.mean(0), found.std(0) / np.sqrt(max(len(found) - 1, 1))
    shares = [f"{100 * m:.1f} % ({100 * e:.1f})" for m, e in zip(mean[1:], error[1:], strict=True)]
    return [model, name, f"{mean[0]:.0f}", *shares]


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """One row for each model and table, and one for the mean of the tables."""
    for model in MODELS:
        every = []
        for name in ["three kinds", *(TARGETS if data else ())]:
            every.append(outcome(model, name, data, seeds))
            yield row(model, name, every[-1])
        yield row(model, "mean", np.mean(every, axis=0))
