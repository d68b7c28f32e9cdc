"""The profile of a row: how likely each of its parts is, compared with the parts of familiar rows.

One density of the whole row is one-sided: what is emptier or smoother than anything seen is likely, and passes. In the
profile, the log-likelihoods of all regions of a circuit, it stands out: some regions are more likely than they ever
were, and regions that go together no longer do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from socratic.errors import ModelFileError, check_count
from socratic.inference.likelihood import log_likelihood
from socratic.inference.posterior import log_class_prior
from socratic.inference.queries.surprise import column_surprise, region_log_likelihood
from socratic.inference.rows import check_rows

if TYPE_CHECKING:
    from socratic.circuit.circuit import Circuit
    from socratic.circuit.graph import Graph

ClassPrior = Sequence[float] | Tensor | None
_MIN_COLUMNS, _SHARE, _MOST_REGIONS = 24, 32, 512
"""Which regions count by default: see :meth:`Profile.fit`."""
_MIN_ROWS = 2
N_FOLDS = 5
"""Folds that estimators cross profiles by."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Familiar log-likelihoods of a circuit's regions, and how they vary together.

    A row's unusualness is half its squared Mahalanobis distance from them, in nats. It has no units: a column measured
    in grams instead of kilograms changes nothing. A missing value takes as much off the log-likelihoods that are
    expected of its regions as it does on average.

    Attributes
    ----------
    min_columns : int
        Regions of at least so many columns count: Q of them.
    by_class : bool
        Whether a row is compared with those of the class that it most probably belongs to.
    column_mean : np.ndarray (V,)
        Mean log-likelihood of each column given all others.
    excess : np.ndarray (K, Q)
        By how much the mean log-likelihood of a region exceeds the sum over its columns, for each column; for all rows
        (K = 1), or for those of each class (K = C).
    precision : np.ndarray (Q, Q)
        Inverse of the covariance of the log-likelihoods, pooled over classes and shrunk by Ledoit and Wolf's rule.
    """

    min_columns: int
    by_class: bool
    column_mean: np.ndarray
    excess: np.ndarray
    precision: np.ndarray

    @classmethod
    def fit(
        cls,
        circuit: Circuit | Graph,
        x: Any,
        weights: np.ndarray | None = None,
        *,
        class_prior: ClassPrior = None,
        by_class: bool = False,
        min_columns: int | None = None,
    ) -> Profile:
        """From familiar rows that the circuit was not trained on.

        Parameters
        ----------
        circuit : Circuit or Graph
        x : array-like (N, V)
            NaN is a missing value.
        weights : np.ndarray (N,), optional
            Of the rows.
        class_prior : (C,), optional
            Class probabilities; uniform by default.
        by_class : bool
            Whether to compare rows within the class that they most probably belong to.
        min_columns : int, optional
            Regions of fewer columns are left out. By default regions of a 32nd of all columns count, of at least 2, and
            of 24 in any case; only the larger ones if those were more than 512.
        """
        familiar = _Familiar.of(circuit, x, weights, min_columns, class_prior, by_class)
        return familiar.profile(familiar.used)

    @classmethod
    def fit_crossed(
        cls,
        circuit: Circuit | Graph,
        x: Any,
        folds: np.ndarray,
        weights: np.ndarray | None = None,
        *,
        class_prior: ClassPrior = None,
        by_class: bool = False,
        min_columns: int | None = None,
    ) -> tuple[Profile, np.ndarray]:
        """The profile, and the scores (N,) of the rows themselves as they would be if they were new.

        A profile fits the rows it was made from better than others. So each row is scored by a profile of the rows of
        other folds.

        Parameters
        ----------
        folds : np.ndarray (N,) of int
            The fold of each row.
        circuit, x, weights, class_prior, by_class, min_columns
            As for :meth:`fit`.
        """
        familiar = _Familiar.of(circuit, x, weights, min_columns, class_prior, by_class)
        profile = familiar.profile(familiar.used)
        scores = np.empty(len(folds))
        for fold in np.unique(folds):
            these = folds == fold
            others = familiar.used & ~these
            crossed = familiar.profile(others) if others.sum() >= _MIN_ROWS else profile
            scores[these] = crossed._distance(familiar.parts.take(these))
        return profile, scores

    def score(self, circuit: Circuit | Graph, x: Any, *, class_prior: ClassPrior = None) -> np.ndarray:
        """Unusualness (N,) of rows (N, V): infinite where a row is impossible."""
        rows = check_rows(circuit, x)
        return self._distance(_Parts.of(circuit, rows, self.min_columns, class_prior, self.by_class))

    def _distance(self, parts: _Parts) -> np.ndarray:
        impossible = np.isneginf(parts.values).any(1)
        deviation = parts.deviation(self.column_mean, self.excess)
        deviation[impossible] = 0.0
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a row so far out that its distance is no number is infinitely far
            distance = np.einsum("nq,qp,np->n", deviation, self.precision, deviation, optimize=True)
        return np.where(impossible | np.isnan(distance), np.inf, 0.5 * distance)

    def check(self, circuit: Circuit | Graph) -> None:
        """Raise ``ValueError`` unless it is of the regions of this circuit."""
        empty = np.empty((0, circuit.n_features))
        n_regions = len(region_log_likelihood(circuit, empty, min_columns=self.min_columns).scopes)
        n_groups = circuit.n_classes if self.by_class else 1
        found = self.column_mean.shape, self.excess.shape, self.precision.shape
        if found != ((circuit.n_features,), (n_groups, n_regions), (n_regions, n_regions)):
            raise ValueError("its profile does not fit its circuit")
        if not all(np.isfinite(part).all() for part in (self.column_mean, self.excess, self.precision)):
            raise ValueError("its profile must hold finite numbers")

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data to rebuild the profile from."""
        arrays = {"column_mean": self.column_mean, "excess": self.excess, "precision": self.precision}
        return arrays, {"min_columns": self.min_columns, "by_class": self.by_class}

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Profile:
        """Rebuild the profile of :meth:`to_state`."""
        try:
            min_columns = check_count("min_columns", config["min_columns"])
            return cls(min_columns, bool(config["by_class"]), **dict(arrays))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the profile of the model cannot be read ({error}); save the model again") from error


class _Parts(NamedTuple):
    """The regions of some rows."""

    values: np.ndarray  # (N, Q), log-likelihoods; NaN where a class has no such region
    classes: np.ndarray  # (N,), 0 for all rows if classes are mixed
    observed: np.ndarray  # (N, V), 1 for values that are there and 0 for missing ones
    members: np.ndarray  # (Q, V), 1 for the columns of each region

    @classmethod
    def of(
        cls, circuit: Circuit | Graph, rows: Tensor, min_columns: int, class_prior: ClassPrior, by_class: bool
    ) -> _Parts:
        given: dict[str, Any] = {"class_prior": class_prior}
        classes = np.zeros(len(rows), dtype=np.int64)
        if by_class:
            values = log_likelihood(circuit, rows).detach()
            best = (values + log_class_prior(class_prior, circuit.n_classes, values)).argmax(1)
            classes, given = best.cpu().numpy(), {"class_index": best}
        regions = region_log_likelihood(circuit, rows, min_columns=min_columns, **given)
        members = np.zeros((len(regions.scopes), rows.shape[1]))
        for number, scope in enumerate(regions.scopes):
            members[number, list(scope)] = 1.0
        observed = (~rows.isnan()).double().cpu().numpy()
        return cls(regions.values.double().cpu().numpy(), classes, observed, members)

    def take(self, rows: np.ndarray) -> _Parts:
        return self._replace(values=self.values[rows], classes=self.classes[rows], observed=self.observed[rows])

    def mean_excess(self, column_mean: np.ndarray, weights: np.ndarray, n_classes: int) -> np.ndarray:
        """What :attr:`Profile.excess` is, (K, Q). The mean of a class leans on that of all as if on one more row."""
        excess = self.values - self.observed @ (self.members * column_mean).T
        known = ~np.isnan(excess)
        counts = (self.observed @ self.members.T) * known * weights[:, None]
        totals = np.where(known, excess, 0.0) * weights[:, None]
        overall = totals.sum(0) / np.maximum(counts.sum(0), 1e-300)
        one_row = self.members.sum(1) if n_classes > 1 else np.full(len(self.members), 1e-300)
        found = []
        for number in range(n_classes):
            mine = self.classes == number
            found.append((totals[mine].sum(0) + one_row * overall) / (counts[mine].sum(0) + one_row))
        return np.array(found)

    def deviation(self, column_mean: np.ndarray, excess: np.ndarray) -> np.ndarray:
        """By how much the log-likelihoods are above what was to be expected: (N, Q), 0 where there are none."""
        expected = self.observed @ (self.members * column_mean).T
        expected += (self.observed @ self.members.T) * excess[self.classes]
        return np.nan_to_num(self.values - expected, nan=0.0, posinf=np.inf, neginf=-np.inf)


class _Familiar(NamedTuple):
    """Familiar rows, to make profiles of some of them."""

    circuit: Circuit | Graph
    min_columns: int
    by_class: bool
    parts: _Parts
    given_others: np.ndarray  # (N, V), log-likelihood of each column given all others
    weights: np.ndarray  # (N,)
    used: np.ndarray  # (N,) of bool: rows that are possible and have a weight

    @classmethod
    def of(
        cls,
        circuit: Circuit | Graph,
        x: Any,
        weights: np.ndarray | None,
        min_columns: int | None,
        class_prior: ClassPrior,
        by_class: bool,
    ) -> _Familiar:
        rows = check_rows(circuit, x)
        weights = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        if min_columns is None:
            min_columns = _enough_columns(circuit)
        parts = _Parts.of(circuit, rows, min_columns, class_prior, by_class)
        used = (weights > 0.0) & ~np.isneginf(parts.values).any(1)
        if used.sum() < _MIN_ROWS:
            raise ValueError(
                f"x must hold at least {_MIN_ROWS} rows that are possible and have a weight; got {used.sum()}"
            )
        given_others = -column_surprise(circuit, rows, class_prior=class_prior).double().cpu().numpy()
        return cls(circuit, min_columns, by_class, parts, given_others, weights, used)

    def profile(self, used: np.ndarray) -> Profile:
        """The profile of the rows that are ``used`` (N,)."""
        from sklearn.covariance import LedoitWolf

        parts, weights = self.parts.take(used), self.weights[used] / self.weights[used].mean()
        column_mean = _column_means(self.given_others[used], weights)
        excess = parts.mean_excess(column_mean, weights, self.circuit.n_classes if self.by_class else 1)
        # Rows scaled by the root of their weights have the weighted covariance.
        deviation = parts.deviation(column_mean, excess) * np.sqrt(weights)[:, None]
        covariance = LedoitWolf(assume_centered=True).fit(deviation)
        return Profile(self.min_columns, self.by_class, column_mean, excess, np.asarray(covariance.precision_))


def _enough_columns(circuit: Circuit | Graph) -> int:
    """Columns that regions must have by default."""
    n_features = circuit.n_features
    enough = min(n_features, max(2, min(_MIN_COLUMNS, n_features // _SHARE)))
    regions = region_log_likelihood(circuit, np.empty((0, n_features)), min_columns=enough)
    sizes = sorted(map(len, regions.scopes), reverse=True)
    return enough if len(sizes) <= _MOST_REGIONS else sizes[_MOST_REGIONS] + 1


def _column_means(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted means (V,) of the finite ones of values (N, V); 0 where there are none."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).T @ weights
    return total / np.maximum(known.T @ weights, 1e-300)
