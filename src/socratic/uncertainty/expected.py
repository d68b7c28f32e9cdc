"""What scores to expect of familiar rows, by which of their cells are there: scores of rows with holes, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from socratic.uncertainty.scores import Scores

_RATES = (0.0, 0.1, 0.25, 0.5, 0.75)
"""Shares of the cells of a familiar row that are hidden, each as often as the others."""
_ROWS_PER_CELL, _FEWEST_ROWS, _MOST_ROWS = 30, 400, 2000
"""Rows with hidden cells that scores are learnt from: so many for each cell of a row, within these bounds."""
_MOST_COPIES = 8
"""Of a familiar row."""
_EVEN = 10
"""As if so many more rows said that every cell counts the same: a few rows cannot tell many cells apart."""
_CLIPPED = (0.01, 0.99)
"""Quantiles that scores are learnt between: a wild row must not bend what is expected of the others."""


@dataclass(frozen=True, eq=False)
class ExpectedScores:
    """Mean and variance of the scores of familiar rows, by which cells are there.

    A row with fewer cells has another likelihood, another entropy and other distances for that reason alone. The mean
    of each score, and the logarithm of its variance, are taken as linear in the cells that are there, in their number k
    of V, and in k (V - k); and learnt from familiar rows with cells hidden at random.

    Attributes
    ----------
    mean, log_variance : dict of np.ndarray (V + 3,)
        For each score the coefficients of 1, k / V, k (V - k) / V^2 and every cell.
    """

    mean: dict[str, np.ndarray]
    log_variance: dict[str, np.ndarray]

    @classmethod
    def fit(cls, scores: Scores, observed: np.ndarray, n_rows: int) -> ExpectedScores:
        """From familiar rows with hidden cells.

        Parameters
        ----------
        scores : Scores (n,)
        observed : np.ndarray (n, V) of bool
            Which cells are there.
        n_rows : int
            Different rows among them.
        """
        features = _features(observed)
        prior = _EVEN * max(1.0, len(observed) / max(n_rows, 1))
        clipped = np.column_stack([_clip(values) for values in scores.values()])
        mean = _least_squares(features, clipped, prior)
        squares = (clipped - features @ mean) ** 2
        # The logarithm of a square that happens to be almost 0 says little of the variance.
        floor = np.maximum(1e-3 * squares.mean(0), 1e-12)
        log_variance = _least_squares(features, np.log(squares + floor), prior)
        # Laid out as a file gives them back: otherwise products are rounded differently.
        found = (np.ascontiguousarray(coefficients.T) for coefficients in (mean, log_variance))
        return cls(*(dict(zip(scores, each, strict=True)) for each in found))

    def comparable(self, scores: Scores, observed: np.ndarray) -> Scores:
        """Scores (N,) that are as unusual for complete rows as the given ones are for rows with these cells (N, V).

        Those of complete rows, and those that are not known here, stay what they are.
        """
        complete = observed.all(1)
        if complete.all():
            return scores
        features, whole = _features(observed), _features(np.ones((1, observed.shape[1]), dtype=bool))
        found = dict(scores)
        for name in self.mean.keys() & scores.keys():
            spread = np.exp(0.5 * (whole - features) @ self.log_variance[name])
            moved = whole @ self.mean[name] + (scores[name] - features @ self.mean[name]) * spread
            found[name] = np.where(complete, scores[name], moved)
        return found

    def to_state(self) -> tuple[dict[str, np.ndarray], list[str]]:
        """Arrays and the names of the scores, to rebuild it from."""
        arrays = {f"{name}.{kind}": found for kind, each in self._kinds().items() for name, found in each.items()}
        return arrays, list(self.mean)

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], names: list[str]) -> ExpectedScores:
        """Rebuild it from :meth:`to_state`."""
        mean, log_variance = ({name: arrays[f"{name}.{kind}"] for name in names} for kind in ("mean", "log_variance"))
        return cls(mean, log_variance)

    def check(self, n_columns: int) -> None:
        """Raise ``ValueError`` unless it is for rows of so many columns."""
        shapes = {found.shape for each in self._kinds().values() for found in each.values()}
        if shapes - {(n_columns + 3,)}:
            raise ValueError("its expected scores do not fit its columns")

    def _kinds(self) -> dict[str, dict[str, np.ndarray]]:
        return {"mean": self.mean, "log_variance": self.log_variance}


def hide_cells(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Some copies of familiar rows (n, V) with cells hidden at random, in the type of ``x``: NaN (m, V)."""
    wanted = min(max(_ROWS_PER_CELL * x.shape[1], _FEWEST_ROWS), _MOST_ROWS)
    copies = min(_MOST_COPIES, max(1, wanted // max(1, len(x))))
    rows = np.tile(x[rng.permutation(len(x))[:wanted]], (copies, 1))
    hidden = rng.random(rows.shape) < rng.choice(_RATES, size=(len(rows), 1))
    return np.where(hidden, np.nan, rows).astype(x.dtype)


def _features(observed: np.ndarray) -> np.ndarray:
    """What is expected of scores is linear in these: (n, V + 3)."""
    share = observed.mean(1, keepdims=True, dtype=np.float64)
    return np.concatenate([np.ones_like(share), share, share * (1.0 - share), observed], 1)


def _clip(values: np.ndarray) -> np.ndarray:
    """Scores (n,) between quantiles of those that are finite; all 0 if there are none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros_like(values)
    lowest, highest = np.quantile(known, _CLIPPED)
    return np.clip(np.where(np.isnan(values), lowest, values), lowest, highest)


def _least_squares(features: np.ndarray, targets: np.ndarray, prior: float) -> np.ndarray:
    """Coefficients (V + 3, K) for targets (n, K), those of single cells drawn to 0 as by ``prior`` more rows."""
    n_cells = features.shape[1] - 3
    if n_cells <= len(features):
        pull = np.sqrt(prior) * np.eye(n_cells + 3)[3:]
        rows = np.vstack([features, pull])
        return np.linalg.lstsq(rows, np.vstack([targets, np.zeros((n_cells, targets.shape[1]))]), rcond=None)[0]
    # More cells than rows: what single cells leave to explain is as correlated as the rows have cells in common.
    common, cells = features[:, :3], features[:, 3:]
    whitened = cho_solve(cho_factor(cells @ cells.T + prior * np.eye(len(cells))), np.concatenate([common, targets], 1))
    first = np.linalg.lstsq(common.T @ whitened[:, :3], common.T @ whitened[:, 3:], rcond=None)[0]
    return np.concatenate([first, cells.T @ (whitened[:, 3:] - whitened[:, :3] @ first)])
