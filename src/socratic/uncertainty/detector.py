"""Detection of unknown rows from several scores of unusualness: their combination, made conformal.

Each score of a row is turned into its surprise: -log of the share of reference rows at least as unusual. The combined
score is the weighted sum of the surprises. A score weighs what it is worth: by how much the area under its ROC curve
exceeds one half, on average over synthetic shifts of the reference rows, plus the standard error of such an area, so
that chance decides nothing. Scores that rise and fall together share their weight, so that nothing counts twice.
P-values compare the combined score with that of calibration rows, which had no part in any of this: that makes them
exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from socratic.errors import ModelFileError, check_choice
from socratic.uncertainty.conformal import Conformal, check_weighted
from socratic.uncertainty.scores import SCORES, Scores

COMBINED = "combined"
"""The detector that uses all scores; any other is called by the one score it uses."""
DETECTORS = (COMBINED, *SCORES)
MIN_REFERENCE = 20
"""With fewer reference rows than this, scores weigh the same."""
_TAIL = 0.25
_LARGEST = 1e100  # in place of infinity: a finite number can be interpolated


@dataclass(frozen=True, eq=False)
class Surprise:
    """The surprise of a score, increasing in it: -log of the share of reference rows at least as unusual.

    Linear between the scores of reference rows. Above them it goes on rising as an exponential tail would, with the
    mean excess of the upper quarter, so that the most unusual rows are still told apart. Without reference rows it is
    the score itself.

    Attributes
    ----------
    knots, values : np.ndarray (K,)
        The distinct scores of the reference rows, ascending, and their surprises.
    top, slope : float
        Surprise just above all reference rows, and its rise from there.
    """

    knots: np.ndarray
    values: np.ndarray
    top: float
    slope: float

    @classmethod
    def fit(cls, scores: np.ndarray, weights: np.ndarray) -> Surprise:
        """From the scores (n,) of reference rows and their weights (n,)."""
        scores = _finite(scores[weights > 0.0])
        weights = weights[weights > 0.0]
        if not len(scores):
            return cls(np.empty(0), np.empty(0), 0.0, 0.0)
        reference = Conformal.fit(scores, weights)
        knots = np.unique(scores)
        below = np.cumsum(reference.weights)
        quantile = reference.scores[np.searchsorted(below, (1.0 - _TAIL) * below[-1])]
        tail = scores > quantile
        # Where the rows say nothing of the tail, a nat of the score, which all scores are in, is a nat of surprise.
        slope = 1.0 / np.average(scores[tail] - quantile, weights=weights[tail]) if tail.any() else 1.0
        return cls(knots, -np.log(reference.p_value(knots)), math.log1p(below[-1]), float(slope))

    def __call__(self, scores: ArrayLike) -> np.ndarray:
        """Surprises (N,) of scores (N,)."""
        finite = _finite(np.asarray(scores, dtype=np.float64))
        if not len(self.knots):
            return finite
        excess = finite - self.knots[-1]
        return np.where(excess > 0.0, self.top + self.slope * excess, np.interp(finite, self.knots, self.values))


@dataclass(frozen=True, eq=False)
class Detector:
    """One score of unusualness made of several, and its p-values.

    Attributes
    ----------
    kind : str
        ``"combined"``, or the name of the one score that is used as it is.
    worth : dict of float
        What each score is worth, by name: its AUROC - 0.5, at least 0, on average over the synthetic shifts. There may
        be other scores today than when it was fitted.
    weights : dict of float
        The weight of each score; they sum to 1.
    surprises : dict of Surprise
        How each score is scaled before it is combined.
    calibration : Conformal
        The scores of the calibration rows.
    """

    kind: str
    worth: dict[str, float]
    weights: dict[str, float]
    surprises: dict[str, Surprise]
    calibration: Conformal

    def score(self, scores: Scores) -> np.ndarray:
        """Unusualness (N,) of rows, from their scores; higher is more unusual."""
        _check_names("scores", scores, tuple(self.weights) if self.kind == COMBINED else (self.kind,))
        if self.kind != COMBINED:
            return np.asarray(scores[self.kind], dtype=np.float64)
        parts = [weight * self.surprises[name](scores[name]) for name, weight in self.weights.items()]
        return np.sum(parts, axis=0)

    def p_value(self, scores: Scores) -> np.ndarray:
        """P-values (N,) of rows: rejecting those of at most alpha rejects at most alpha of known rows."""
        return self.calibration.p_value(self.score(scores))

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data to rebuild the detector from."""
        arrays = {"calibration.scores": self.calibration.scores, "calibration.weights": self.calibration.weights}
        for name, surprise in self.surprises.items():
            arrays |= {f"{name}.knots": surprise.knots, f"{name}.values": surprise.values}
        tails = {name: [surprise.top, surprise.slope] for name, surprise in self.surprises.items()}
        config = {"kind": self.kind, "worth": dict(self.worth), "weights": dict(self.weights), "tails": tails}
        return arrays, config

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Detector:
        """Rebuild the detector of :meth:`to_state`."""
        try:
            weights = {str(name): float(weight) for name, weight in config["weights"].items()}
            check_choice("kind", config["kind"], (COMBINED, *weights))
            worth = {name: float(config["worth"][name]) for name in weights}
            surprises = {
                name: Surprise(arrays[f"{name}.knots"], arrays[f"{name}.values"], *map(float, config["tails"][name]))
                for name in weights
            }
            calibration = Conformal.fit(arrays["calibration.scores"], arrays["calibration.weights"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the detector of the model cannot be read ({error}); save the model again") from error
        return cls(config["kind"], worth, weights, surprises, calibration)


def fit_detector(
    kind: str,
    reference: Scores,
    shifted: Sequence[Scores],
    calibration: Scores,
    reference_weight: np.ndarray,
    calibration_weight: np.ndarray,
) -> Detector:
    """Choose the weights of the scores and calibrate their combination.

    Parameters
    ----------
    kind : str
        ``"combined"``, or the name of a score.
    reference : Scores (n,)
        Of held-out rows, to scale and weigh the scores by.
    shifted : sequence of Scores
        Of synthetic shifts of the reference rows, one for each, by the same names.
    calibration : Scores (m,)
        Of other held-out rows, to compare with.
    reference_weight, calibration_weight : np.ndarray (n,), (m,)
        As in :meth:`Conformal.fit`.
    """
    names = tuple(reference)
    check_choice("kind", kind, (COMBINED, *names))
    for label, scores in (("calibration", calibration), *(("shifted", s) for s in shifted)):
        _check_names(label, scores, names)
    checked = {name: check_weighted(f"reference[{name!r}]", reference[name], reference_weight) for name in names}
    surprises = {name: Surprise.fit(*checked[name]) for name in names}
    sets = [scores for scores in shifted if len(scores[names[0]])]
    total = float(checked[names[0]][1].sum())
    worth = dict.fromkeys(names, 0.0)
    if total > 0.0 and sets:
        for name, (values, counts) in checked.items():
            areas = [_area(values, counts, np.asarray(other[name], dtype=np.float64)) for other in sets]
            worth[name] = float(np.mean(np.maximum(np.array(areas) - 0.5, 0.0)))
    weights = _weights(kind, worth, total, [len(scores[names[0]]) for scores in sets])
    if kind == COMBINED and total >= MIN_REFERENCE and sets:
        weights = _shared(weights, {name: surprises[name](checked[name][0]) for name in names}, checked[names[0]][1])
    detector = Detector(kind, worth, weights, surprises, Conformal.fit([]))
    return replace(detector, calibration=Conformal.fit(detector.score(calibration), calibration_weight))


def _weights(kind: str, worth: Mapping[str, float], n_reference: float, sizes: Sequence[int]) -> dict[str, float]:
    """Weights of the scores, which sum to 1."""
    if kind != COMBINED:
        return {name: float(name == kind) for name in worth}
    if n_reference < MIN_REFERENCE or not sizes:
        return dict.fromkeys(worth, 1.0 / len(worth))
    n_shifted = float(np.mean(sizes))
    # Of the area under the ROC curve of a score that tells nothing.
    error = math.sqrt((n_reference + n_shifted + 1.0) / (12.0 * n_reference * n_shifted))
    whole = sum(worth.values()) + len(worth) * error
    return {name: (value + error) / whole for name, value in worth.items()}


def _shared(weights: Mapping[str, float], surprises: Mapping[str, np.ndarray], counts: np.ndarray) -> dict[str, float]:
    """Weights of scores, each divided by how many scores say the same: the sum of its correlations with all of them."""
    covariance = np.atleast_2d(np.cov(np.stack(list(surprises.values())), aweights=counts))
    deviation = np.sqrt(covariance.diagonal())
    scale = np.outer(deviation, deviation)
    correlation = np.abs(np.divide(covariance, scale, out=np.eye(len(weights)), where=scale > 0.0))
    shared = {name: weights[name] / same for name, same in zip(surprises, correlation.sum(1), strict=True)}
    whole = sum(shared.values())
    return {name: float(weight / whole) for name, weight in shared.items()}


def _area(known: np.ndarray, weights: np.ndarray, unknown: np.ndarray) -> float:
    """Area under the ROC curve of weighted known rows against unknown ones; a tie counts half."""
    order = np.argsort(known)
    below = np.append(0.0, np.cumsum(weights[order]))
    first, last = (below[np.searchsorted(known[order], unknown, side=side)] for side in ("left", "right"))
    return float(np.mean(first + last) / (2.0 * below[-1]))


def _finite(scores: np.ndarray) -> np.ndarray:
    return np.clip(scores, -_LARGEST, _LARGEST)


def _check_names(label: str, scores: Scores, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in scores]
    if missing:
        raise ValueError(f"{label} must hold scores named {', '.join(map(repr, names))}; {missing[0]!r} is missing")
