"""Conformal p-values that hold within every class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from socratic.uncertainty.conformal import Conformal, over_folds

OF_CLASS = 0.1
"""What a nat of improbability of a class counts beside a nat of unusualness.

With more, the rows of a class that look like another one are its most unusual ones, which that other class keeps from
being refused; with none, a class of unusual rows keeps those of all others.
"""
SMALLEST = 1e-9
_ALL = "all"


@dataclass(frozen=True, eq=False)
class ClassConformal:
    """Scores of calibration rows, class by class.

    A row might belong to any class. Taken as one of class c it is as unusual as it is, plus a tenth of -log p(c | x);
    its p-value in the class compares that with the same of the calibration rows that belong to c. Its p-value is the
    largest of these. That of its true class is among them, so that within every class it is at most alpha with a
    probability of at most alpha (or what :class:`Conformal` says of cross-fitted models), however bad the
    probabilities are. The more the classes overlap, the further below alpha it is.

    Attributes
    ----------
    classes : dict of Conformal
        By the number of the class.
    others : Conformal or None
        Scores of all rows, which rows are also compared with if there are classes that have too few of their own.
    """

    classes: dict[int, Conformal]
    others: Conformal | None

    @classmethod
    def fit(
        cls,
        scores: np.ndarray,
        probabilities: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        rate: float,
        folds: np.ndarray | None = None,
        twins: np.ndarray | None = None,
    ) -> ClassConformal:
        """From calibration rows.

        Parameters
        ----------
        scores : np.ndarray (n,)
        probabilities : np.ndarray (n, C)
            Of the classes, by the model of each row's fold.
        labels, weights : np.ndarray (n,)
            The number of each row's class, and how much it weighs.
        rate : float
            A class whose rows are too few for a p-value as small as this has none of its own.
        folds, twins : np.ndarray (n,), optional
            As for :meth:`Conformal.fit`.
        """
        fold = np.zeros(len(scores), dtype=np.int64) if folds is None else folds
        twin = np.arange(len(scores)) if twins is None else twins
        found = {}
        for number in range(probabilities.shape[1]):
            of = labels == number
            own = Conformal.fit(_as_class(scores, probabilities, number)[of], weights[of], fold[of], twin[of])
            if own.reaches(rate):
                found[number] = own
        complete = len(found) == probabilities.shape[1]
        return cls(found, None if complete else Conformal.fit(scores, weights, fold, twin))

    @property
    def worth(self) -> float:
        """How many independent rows a p-value compares with, in the smallest class."""
        return min(each.worth for each in self._each())

    @property
    def n_folds(self) -> int:
        """How many models the scores are by."""
        return max(each.n_folds for each in self._each())

    def p_value(self, scores: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        """P-values (N,) of rows, from their scores (K, N) and probabilities (K, N, C) by the model of each fold."""
        found = [
            each.p_value(over_folds(_as_class(scores, probabilities, number))) for number, each in self.classes.items()
        ]
        if self.others is not None:
            found.append(self.others.p_value(over_folds(scores)))
        return np.max(found, axis=0)

    def reaches(self, alpha: float) -> bool:
        """Whether the p-value of the most unusual row is at most ``alpha``: otherwise there are too few rows."""
        return all(each.reaches(alpha) for each in self._each())

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from."""
        parts = {str(number): each for number, each in self.classes.items()}
        if self.others is not None:
            parts[_ALL] = self.others
        return {f"{name}.{key}": array for name, each in parts.items() for key, array in each.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> ClassConformal:
        """Rebuild it from :meth:`to_arrays`."""
        parts: dict[str, dict[str, np.ndarray]] = {}
        for key, array in arrays.items():
            name, part = key.split(".")
            parts.setdefault(name, {})[part] = array
        found = {name: Conformal.from_arrays(some) for name, some in parts.items()}
        if not found:
            raise ValueError("there must be scores of a class")
        others = found.pop(_ALL, None)
        return cls({int(name): each for name, each in sorted(found.items())}, others)

    def check(self, n_classes: int) -> None:
        """Raise ``ValueError`` unless it is for so many classes."""
        if not set(self.classes) <= set(range(n_classes)) or (self.others is None and len(self.classes) < n_classes):
            raise ValueError(f"its scores by class do not fit {n_classes} classes")

    def _each(self) -> list[Conformal]:
        return [*self.classes.values(), *([] if self.others is None else [self.others])]


def _as_class(scores: np.ndarray, probabilities: np.ndarray, number: int) -> np.ndarray:
    """How unusual rows (..., N) are, taken as rows of a class, by the probabilities (..., N, C) of classes."""
    return scores - OF_CLASS * np.log(np.maximum(probabilities[..., number], SMALLEST))
