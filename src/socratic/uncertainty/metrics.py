"""Measures of uncertainty: how well it tells known from unknown, how honest it is, how well it finds errors.

Scores of unusualness are higher for more unusual rows, and unknown rows are the positives. They may be infinite
(the negative log-likelihood of an impossible row is), which is why these are not scikit-learn's functions: those
refuse infinite scores. On finite ones they agree. No result depends on the order of rows.

Arguments may be anything that ``numpy.asarray`` takes. N: rows, C: classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socratic.errors import check_count
from socratic.notebook import table_of_facts

_SUM_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """The error among the rows that are answered, as ever more rows are, the most certain first.

    Attributes
    ----------
    coverage : np.ndarray (N,)
        Shares of rows answered: 1/N, 2/N, ..., 1.
    risk : np.ndarray (N,)
        Share of errors among the rows answered.
    area : float
        Mean of ``risk``, the area under the curve (AURC); lower is better.
    generalised_area : float
        Mean of ``coverage * risk`` (AUGRC, Traub et al., 2024): how likely an answered row is an error, at a coverage
        taken at random. Lower is better; unlike ``area`` it does not weigh the first few rows most.
    """

    coverage: np.ndarray
    risk: np.ndarray
    area: float
    generalised_area: float

    def _repr_html_(self) -> str:
        tenths = np.linspace(0.1, 1.0, 10)
        risks = self.risk[np.clip(np.searchsorted(self.coverage, tenths - 1e-9), 0, len(self.risk) - 1)]
        facts = {f"{share:.0%} answered": f"{risk:.1%}" for share, risk in zip(tenths, risks, strict=True)}
        areas = f"Area {self.area:.3g}, generalised {self.generalised_area:.3g}."
        return table_of_facts(facts, f"Errors among the rows that are answered, the most certain first. {areas}")


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often answers are right, by how sure they are: rows binned by the probability of the predicted class.

    Bins without rows are left out.

    Attributes
    ----------
    confidence : np.ndarray (B,)
        Mean probability of the predicted class in each bin.
    accuracy : np.ndarray (B,)
        Share of its rows that are right.
    n_rows : np.ndarray (B,)
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    n_rows: np.ndarray

    @property
    def error(self) -> float:
        """Mean distance between confidence and accuracy over rows (ECE); 0 is best."""
        return float(self.n_rows @ np.abs(self.confidence - self.accuracy) / self.n_rows.sum())

    def _repr_html_(self) -> str:
        bins = zip(self.confidence, self.accuracy, self.n_rows, strict=True)
        facts = {f"{sure:.1%} sure": f"{right:.1%} of {n_rows:,.0f} rows right" for sure, right, n_rows in bins}
        return table_of_facts(facts, f"How often answers are right, by how sure they are. Error {self.error:.3g}.")


def auroc(known: ArrayLike, unknown: ArrayLike) -> float:
    """Area under the ROC curve: how often an unknown row scores above a known one; a tie counts half.

    Parameters
    ----------
    known : array (N,)
        Unusualness of rows like the training data.
    unknown : array (M,)
        Unusualness of rows from elsewhere.
    """
    reference, scores = np.sort(_scores("known", known)), _scores("unknown", unknown)
    below = np.searchsorted(reference, scores, side="left")
    below_or_tied = np.searchsorted(reference, scores, side="right")
    return float((below.sum() + below_or_tied.sum()) / (2 * reference.size * scores.size))


def aupr(known: ArrayLike, unknown: ArrayLike) -> float:
    """Area under the precision-recall curve, as average precision: precision weighted by the recall it adds.

    Depends on how many rows there are of each kind; scores that tell nothing reach M / (N + M).

    Parameters
    ----------
    known : array (N,)
        Unusualness of rows like the training data.
    unknown : array (M,)
        Unusualness of rows from elsewhere, the positives.
    """
    negatives, positives = np.sort(_scores("known", known)), np.sort(_scores("unknown", unknown))
    thresholds, hits = np.unique(positives, return_counts=True)
    # Recall grows only at the scores of positives, so the other thresholds add nothing.
    flagged_positives = positives.size - np.searchsorted(positives, thresholds, side="left")
    flagged_negatives = negatives.size - np.searchsorted(negatives, thresholds, side="left")
    precision = flagged_positives / (flagged_positives + flagged_negatives)
    return float(precision @ hits / positives.size)


def fpr_at_95(known: ArrayLike, unknown: ArrayLike) -> float:
    """Share of known rows flagged at the highest threshold that flags at least 95 % of the unknown rows.

    Rows are flagged at scores of at least the threshold. Lower is better.

    Parameters
    ----------
    known : array (N,)
        Unusualness of rows like the training data.
    unknown : array (M,)
        Unusualness of rows from elsewhere.
    """
    negatives, positives = _scores("known", known), np.sort(_scores("unknown", unknown))
    n_missed = positives.size // 20  # in whole numbers: 0.95 M may round to the wrong side
    return float(np.mean(negatives >= positives[n_missed]))


def accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose most probable class is the label; of tied classes the first counts.

    Parameters
    ----------
    probabilities : array (N, C)
        Class probabilities; rows sum to 1.
    labels : array (N,)
        Classes, whole numbers from 0 to C - 1.
    """
    shares, classes = _predictions(probabilities, labels)
    return float(np.mean(shares.argmax(axis=1) == classes))


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Squared distance of the probabilities from the one-hot label, summed over classes: 0 (best) to 2.

    The mean over rows. For two classes it is twice the score that looks at one of them alone.

    Parameters
    ----------
    probabilities : array (N, C)
        Class probabilities; rows sum to 1.
    labels : array (N,)
        Classes, whole numbers from 0 to C - 1.
    """
    shares, classes = _predictions(probabilities, labels)
    distance = shares - np.eye(shares.shape[1])[classes]  # (N, C)
    return float(np.mean((distance**2).sum(axis=1)))


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike, n_bins: int = 15) -> float:
    """Mean distance between confidence and accuracy, over rows binned by confidence.

    Confidence is the largest class probability; of tied classes the first counts as predicted.

    Parameters
    ----------
    probabilities : array (N, C)
        Class probabilities; rows sum to 1.
    labels : array (N,)
        Classes, whole numbers from 0 to C - 1.
    n_bins : int
        Bins of equal width in (0, 1], each with its upper edge. Empty bins count nothing.
    """
    return reliability(probabilities, labels, n_bins).error


def reliability(probabilities: ArrayLike, labels: ArrayLike, n_bins: int = 15) -> Reliability:
    """Confidence and accuracy of rows binned by confidence; arguments as for :func:`expected_calibration_error`."""
    shares, classes = _predictions(probabilities, labels)
    n_bins = check_count("n_bins", n_bins)
    confidence, correct = shares.max(axis=1), shares.argmax(axis=1) == classes
    inner_edges = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    bins = np.searchsorted(inner_edges, confidence, side="left")
    _, groups, n_rows = np.unique(bins, return_inverse=True, return_counts=True)
    return Reliability(np.bincount(groups, confidence) / n_rows, np.bincount(groups, correct) / n_rows, n_rows)


def confusion_matrix(probabilities: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """Rows of each class (in the first axis) by the class predicted for them (in the second): (C, C) counts.

    Of tied classes the first counts as predicted. Arguments as for :func:`accuracy`.
    """
    shares, classes = _predictions(probabilities, labels)
    n_classes = shares.shape[1]
    places = classes.astype(np.int64) * n_classes + shares.argmax(axis=1)
    return np.bincount(places, minlength=n_classes**2).reshape(n_classes, n_classes)


def class_aurocs(probabilities: ArrayLike, labels: ArrayLike) -> np.ndarray:
    """How well its probability tells each class from all others, as AUROC: (C,); their mean is one-vs-rest AUC.

    NaN for classes that no row has, and if all rows are of one class. Arguments as for :func:`accuracy`.
    """
    shares, classes = _predictions(probabilities, labels)
    found = np.full(shares.shape[1], np.nan)
    present = np.unique(classes)
    for number in present if len(present) > 1 else []:
        own = classes == number
        found[number] = auroc(shares[~own, number], shares[own, number])
    return found


def risk_coverage(uncertainty: ArrayLike, correct: ArrayLike) -> RiskCoverage:
    """Risk among the rows that are answered, for every number of them.

    Rows are answered from the most certain to the least. Equally uncertain rows share their errors evenly: the
    curve is the mean over all orders in which they could be answered.

    Parameters
    ----------
    uncertainty : array (N,)
        Higher is less certain; may be infinite.
    correct : array (N,) of bool
        Whether the answer to each row is right.
    """
    doubts, right = _scores("uncertainty", uncertainty), np.asarray(correct)
    if right.dtype != np.bool_:
        raise ValueError(f"correct must hold booleans (predicted == labels); got {right.dtype}")
    if right.shape != doubts.shape:
        raise ValueError(f"correct must have the shape {doubts.shape}, like uncertainty; got {right.shape}")
    _, groups, sizes = np.unique(doubts, return_inverse=True, return_counts=True)
    errors = np.bincount(groups, weights=~right)  # of each group of tied rows, the most certain first
    answered = np.arange(1, right.size + 1)
    risk = np.cumsum(np.repeat(errors / sizes, sizes)) / answered
    coverage = answered / right.size
    return RiskCoverage(coverage, risk, float(risk.mean()), float((coverage * risk).mean()))


def _numbers(name: str, value: ArrayLike, n_dimensions: int) -> np.ndarray:
    """``value`` as a float64 array that is not empty and holds no NaN."""
    shape = {1: "(N,)", 2: "(N, C)"}[n_dimensions]
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, of shape {shape}; got {type(value).__name__}: {error}") from None
    if array.ndim != n_dimensions:
        raise ValueError(f"{name} must have the shape {shape}; got {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one row; got the shape {array.shape}")
    n_missing = int(np.isnan(array).sum())
    if n_missing:
        raise ValueError(f"{name} must hold no NaN; got {n_missing} among {array.size} numbers")
    return array


def _scores(name: str, value: ArrayLike) -> np.ndarray:
    return _numbers(name, value, 1)


def _predictions(probabilities: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Checked class probabilities (N, C) and labels (N,)."""
    shares = _numbers("probabilities", probabilities, 2)
    if shares.min() < -_SUM_TOLERANCE:
        raise ValueError(
            f"probabilities must be at least 0 (take the exponential of log-probabilities); got {shares.min():g}"
        )
    sums = shares.sum(axis=1)
    worst = float(sums[np.abs(sums - 1.0).argmax()])
    if not abs(worst - 1.0) <= _SUM_TOLERANCE:
        raise ValueError(f"probabilities must sum to 1 in each row; got a sum of {worst:g}")
    classes = np.asarray(labels)
    if classes.shape != (len(shares),):
        raise ValueError(f"labels must have the shape ({len(shares)},), like probabilities; got {classes.shape}")
    if classes.dtype.kind not in "iu":
        raise ValueError(f"labels must hold whole numbers; got {classes.dtype}")
    n_classes = shares.shape[1]
    if classes.min() < 0 or classes.max() >= n_classes:
        wrong = classes[(classes < 0) | (classes >= n_classes)][0]
        raise ValueError(f"labels must lie in 0 to {n_classes - 1}, a class of probabilities each; got {wrong}")
    return shares, classes
