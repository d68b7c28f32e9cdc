"""Detection of unknown rows from several scores of unusualness: their combination, made conformal.

Each score of a row is turned into its surprise: -log of the share of reference rows at least as unusual. The combined
score is the weighted sum of the surprises. The weights are learnt: for each of some synthetic shifts of the reference
rows, those that tell the two apart best, by logistic regression, none of them negative; then their mean over the
shifts. So a score weighs by how many shifts it helps with and how much, and one that only adds noise weighs little.
P-values compare the combined score with that of calibration rows, which had no part in any of this: that makes them
exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from socratic.errors import ModelFileError, check_choice
from socratic.uncertainty.conformal import Conformal, check_weighted
from socratic.uncertainty.scores import SCORES, TWO_SIDED, Scores
from socratic.uncertainty.surprise import Surprise

COMBINED = "combined"
"""The detector that uses all scores; any other is called by the one score it uses."""
DETECTORS = (COMBINED, *SCORES)
MIN_REFERENCE = 20
"""With fewer reference rows than this nothing is learnt: the ``_FIRST`` scores weigh the same."""
_FIRST = ("log_likelihood", "entropy")
_START, _START_OF_TWO_SIDED = 0.3, 1.0
"""Weights before anything is learnt. Two-sided scores are 0 for nearly all familiar rows, and can weigh more."""
_PULL = 0.03
"""How strongly weights are pulled back to that: by the square of how far they are, and more if there are few rows."""
CLEAR = math.log(100.0)
"""Two-sided scores count from this surprise on: of the most unusual hundredth of familiar rows on either side."""
_MOST = 50.0
"""Nats of surprise beyond which a row is no clearer a case."""
_CALIBRATION = "calibration."


@dataclass(frozen=True, eq=False)
class Detector:
    """One score of unusualness made of several, and its p-values.

    Attributes
    ----------
    kind : str
        ``"combined"``, or the name of the one score that is used.
    weights : dict of float
        The weight of each score, by name; they sum to 1. There may be other scores today than when it was fitted.
    surprises : dict of Surprise
        How each score is scaled before it is combined. Of a two-sided score there are two, by ``NAME`` and ``-NAME``.
    calibration : Conformal
        The scores of the calibration rows.
    """

    kind: str
    weights: dict[str, float]
    surprises: dict[str, Surprise]
    calibration: Conformal

    def score(self, scores: Scores) -> np.ndarray:
        """Unusualness (N,) of rows, from their scores; higher is more unusual."""
        used = [name for name, weight in self.weights.items() if weight > 0.0]
        _check_names("scores", scores, used)
        if self.kind != COMBINED and self.kind not in TWO_SIDED:
            return np.asarray(scores[self.kind], dtype=np.float64)
        if self.kind != COMBINED:
            return _two_sided(self.surprises, self.kind, scores)
        return np.sum([self.weights[name] * _surprise(self.surprises, name, scores) for name in used], axis=0)

    def p_value(self, scores: Scores) -> np.ndarray:
        """P-values (N,) of rows: rejecting those of at most alpha rejects at most alpha of known rows."""
        return self.calibration.p_value(self.score(scores))

    def compared_with(self, calibration: Conformal) -> Detector:
        """The same score, whose p-values compare with other calibration rows."""
        return replace(self, calibration=calibration)

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data to rebuild the detector from."""
        arrays = {f"{_CALIBRATION}{key}": array for key, array in self.calibration.to_arrays().items()}
        for name, surprise in self.surprises.items():
            arrays |= {f"{name}.{key}": array for key, array in surprise.to_arrays().items()}
        return arrays, {"kind": self.kind, "weights": dict(self.weights)}

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Detector:
        """Rebuild the detector of :meth:`to_state`."""
        try:
            weights = {str(name): float(weight) for name, weight in config["weights"].items()}
            check_choice("kind", config["kind"], (COMBINED, *weights))
            sided = [*weights, *(f"-{name}" for name in weights if name in TWO_SIDED)]
            surprises = {
                name: Surprise.from_arrays({key: arrays[f"{name}.{key}"] for key in ("knots", "values", "tail")})
                for name in sided
            }
            compared = {key.removeprefix(_CALIBRATION): arrays[key] for key in arrays if key.startswith(_CALIBRATION)}
            calibration = Conformal.from_arrays(compared)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"the detector of the model cannot be read ({error}); save the model again") from error
        return cls(config["kind"], weights, surprises, calibration)


def fit_detector(
    kind: str,
    reference: Scores,
    shifted: Sequence[Scores],
    calibration: Scores | None = None,
    reference_weight: np.ndarray | None = None,
    calibration_weight: np.ndarray | None = None,
) -> Detector:
    """Learn the weights of the scores and calibrate their combination.

    Parameters
    ----------
    kind : str
        ``"combined"``, or the name of a score.
    reference : Scores (n,)
        Of held-out rows, to scale and weigh the scores by.
    shifted : sequence of Scores
        Of synthetic shifts of the reference rows, one for each, by the same names.
    calibration : Scores (m,), optional
        Of other held-out rows, to compare with; without them all p-values are 1, until :meth:`Detector.compared_with`.
    reference_weight, calibration_weight : np.ndarray (n,), (m,), optional
        As in :meth:`Conformal.fit`.
    """
    names = tuple(reference)
    check_choice("kind", kind, (COMBINED, *names))
    for label, scores in (("calibration", calibration or reference), *(("shifted", s) for s in shifted)):
        _check_names(label, scores, names)
    checked = {name: check_weighted(f"reference[{name!r}]", reference[name], reference_weight) for name in names}
    counts = checked[names[0]][1]
    surprises = {name: Surprise.fit(values, counts) for name, (values, _) in checked.items()}
    surprises |= {f"-{name}": Surprise.fit(-checked[name][0], counts) for name in names if name in TWO_SIDED}

    def table(scores: Scores) -> np.ndarray:
        return np.stack([np.minimum(_surprise(surprises, name, scores), _MOST) for name in names], 1)

    sets = [table(scores) for scores in shifted if len(scores[names[0]])]
    if kind != COMBINED:
        weights = {name: float(name == kind) for name in names}
    elif sets and counts.sum() >= MIN_REFERENCE:
        start = np.array([_START_OF_TWO_SIDED if name in TWO_SIDED else _START for name in names])
        weights = dict(zip(names, _learn(table(reference), counts, sets, start).tolist(), strict=True))
    else:
        first = [name for name in names if name in _FIRST] or names
        weights = {name: float(name in first) / len(first) for name in names}
    detector = Detector(kind, weights, surprises, Conformal.fit([]))
    if calibration is None:
        return detector
    return detector.compared_with(Conformal.fit(detector.score(calibration), calibration_weight))


def _surprise(surprises: Mapping[str, Surprise], name: str, scores: Scores) -> np.ndarray:
    """What a score adds to the combination, before it is weighted: (N,)."""
    if name in TWO_SIDED:
        return np.maximum(_two_sided(surprises, name, scores) - CLEAR, 0.0)
    return surprises[name](scores[name])


def _two_sided(surprises: Mapping[str, Surprise], name: str, scores: Scores) -> np.ndarray:
    """The surprise of scores that are too high, or too low: (N,)."""
    values = np.asarray(scores[name], dtype=np.float64)
    return np.maximum(surprises[name](values), surprises[f"-{name}"](-values))


def _learn(known: np.ndarray, counts: np.ndarray, shifted: Sequence[np.ndarray], start: np.ndarray) -> np.ndarray:
    """Weights (K,) of scores that tell known rows (n, K) from some shifts (m, K) of them; ``start`` is (K,)."""
    found = np.mean([_learn_one(known, counts, rows, start) for rows in shifted], axis=0)
    found = found if found.sum() > 0.0 else start  # no score helps with any shift
    return found / found.sum()


def _learn_one(known: np.ndarray, counts: np.ndarray, rows: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The same for one shift: logistic regression with weights that are not negative."""
    from scipy.optimize import minimize
    from scipy.special import expit

    pull = _PULL + 1.0 / counts.sum()
    sides = ((-1.0, known, counts / counts.sum()), (1.0, rows, np.full(len(rows), 1.0 / len(rows))))

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        weights, offset = point[:-1], point[-1]
        value = pull * float(((weights - start) ** 2).sum())
        slope = np.append(2.0 * pull * (weights - start), 0.0)
        for sign, some, each in sides:
            margin = sign * (some @ weights - offset)
            value += float(each @ np.logaddexp(0.0, -margin))
            wrong = sign * each * expit(-margin)
            slope += np.append(-wrong @ some, wrong.sum())
        return value, slope

    bounds = [(0.0, None)] * len(start) + [(None, None)]
    return minimize(loss, np.append(start, start.sum()), jac=True, method="L-BFGS-B", bounds=bounds).x[:-1]


def _check_names(label: str, scores: Scores, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in scores]
    if missing:
        raise ValueError(f"{label} must hold scores named {', '.join(map(repr, names))}; {missing[0]!r} is missing")
