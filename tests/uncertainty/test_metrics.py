from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
from sklearn.metrics import accuracy_score, average_precision_score, brier_score_loss, roc_auc_score, roc_curve

from socratic.uncertainty import (
    accuracy,
    aupr,
    auroc,
    brier_score,
    class_aurocs,
    confusion_matrix,
    expected_calibration_error,
    fpr_at_95,
    reliability,
    risk_coverage,
)

SEPARATION = [auroc, aupr, fpr_at_95]
PREDICTION = [accuracy, brier_score, expected_calibration_error]
Metric = Callable[..., float]


def scores(seed: int, *, tied: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    known, unknown = rng.normal(size=rng.integers(1, 80)), rng.normal(1.0, size=rng.integers(1, 80))
    return (known.round(), unknown.round()) if tied else (known, unknown)


def predictions(seed: int, n_rows: int = 200, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(n_classes, 0.7), size=n_rows), rng.integers(n_classes, size=n_rows)


# Known from unknown


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_separation_agrees_with_scikit_learn(seed: int, tied: bool) -> None:
    known, unknown = scores(seed, tied=tied)
    positive, score = np.repeat([0, 1], [known.size, unknown.size]), np.concatenate([known, unknown])
    assert auroc(known, unknown) == pytest.approx(roc_auc_score(positive, score), abs=1e-12)
    assert aupr(known, unknown) == pytest.approx(average_precision_score(positive, score), abs=1e-12)
    fpr, tpr, _ = roc_curve(positive, score, drop_intermediate=False)
    assert fpr_at_95(known, unknown) == fpr[np.argmax(tpr >= 0.95)]


@pytest.mark.parametrize(
    ("known", "unknown", "expected"),
    [
        ([1, 2, 3], [4, 5], (1.0, 1.0, 0.0)),
        ([4, 5], [1, 2, 3], (0.0, (1 / 3 + 2 / 4 + 3 / 5) / 3, 1.0)),
        ([1, 1, 1], [1, 1], (0.5, 2 / 5, 1.0)),
        ([1, 3], [2, 4], (3 / 4, (1 + 2 / 3) / 2, 1 / 2)),
        ([1, 2], [2, 3], (3.5 / 4, (1 + 2 / 3) / 2, 1 / 2)),
        ([0], [0], (0.5, 0.5, 1.0)),
    ],
    ids=["perfect", "worst", "all tied", "crossed", "one tie", "single"],
)
def test_separation_by_hand(known: list[float], unknown: list[float], expected: tuple[float, ...]) -> None:
    assert [metric(known, unknown) for metric in SEPARATION] == pytest.approx(expected, abs=1e-15)


def test_infinite_scores_are_scores() -> None:
    assert auroc([0.0, -np.inf], [np.inf, np.inf]) == 1.0
    assert auroc([np.inf, 0.0], [np.inf]) == 0.75
    assert aupr([np.inf, 0.0], [np.inf]) == 0.5
    assert fpr_at_95([np.inf, 0.0, 1.0, 2.0], [np.inf]) == 0.25


@pytest.mark.parametrize(("n_unknown", "missed"), [(1, 0), (19, 0), (20, 1), (39, 1), (40, 2), (100, 5), (1000, 50)])
def test_the_threshold_flags_just_95_percent(n_unknown: int, missed: int) -> None:
    unknown = np.arange(n_unknown)
    known = np.arange(n_unknown) - 0.5  # as many lie above a threshold, less one
    assert fpr_at_95(known, unknown) == (n_unknown - missed - 1) / n_unknown


@pytest.mark.parametrize("metric", SEPARATION)
def test_separation_does_not_depend_on_the_order_of_rows_nor_on_the_scale(metric: Metric) -> None:
    rng = np.random.default_rng(0)
    known, unknown = scores(3, tied=True)
    expected = metric(known, unknown)
    for _ in range(10):
        assert metric(rng.permutation(known), rng.permutation(unknown)) == expected
    assert metric(3 * known - 5, 3 * unknown - 5) == expected


def test_exchanging_known_and_unknown_mirrors_auroc() -> None:
    known, unknown = scores(5, tied=True)
    assert auroc(known, unknown) == pytest.approx(1 - auroc(unknown, known), abs=1e-15)
    assert auroc(known, unknown) == pytest.approx(auroc(-unknown, -known), abs=1e-15)


@pytest.mark.parametrize("metric", SEPARATION)
def test_tensors_and_lists_are_taken(metric: Metric) -> None:
    known, unknown = [1, 2, 4], [3, 5]
    assert metric(torch.tensor(known), torch.tensor(unknown)) == metric(known, unknown)
    assert isinstance(metric(known, unknown), float)


@pytest.mark.parametrize("metric", SEPARATION)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], r"must have at least one row; got the shape \(0,\)"),
        ([1.0, np.nan, np.nan], "must hold no NaN; got 2 among 3 numbers"),
        ([[1.0, 2.0]], r"must have the shape \(N,\); got \(1, 2\)"),
        (1.0, r"must have the shape \(N,\); got \(\)"),
        (["a"], r"must hold numbers, of shape \(N,\); got list: could not convert"),
        ([[1.0], [1.0, 2.0]], r"must hold numbers, of shape \(N,\); got list"),
    ],
)
def test_other_scores_are_refused(metric: Metric, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^known {message}"):
        metric(value, [1.0])
    with pytest.raises(ValueError, match=f"^unknown {message}"):
        metric([1.0], value)


# Predictions


@pytest.mark.parametrize("seed", range(5))
def test_predictions_agree_with_scikit_learn(seed: int) -> None:
    probabilities, labels = predictions(seed)
    assert accuracy(probabilities, labels) == accuracy_score(labels, probabilities.argmax(axis=1))
    two, binary = predictions(seed, n_classes=2)
    assert brier_score(two, binary) == pytest.approx(2 * brier_score_loss(binary, two[:, 1]), abs=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_classes_agree_with_scikit_learn(seed: int, n_classes: int) -> None:
    probabilities, labels = predictions(seed, n_classes=n_classes)
    expected = sklearn.metrics.confusion_matrix(labels, probabilities.argmax(1), labels=range(n_classes))
    assert confusion_matrix(probabilities, labels).tolist() == expected.tolist()
    areas = class_aurocs(probabilities, labels)
    score = probabilities[:, 1] if n_classes == 2 else probabilities
    assert areas.mean() == pytest.approx(roc_auc_score(labels, score, multi_class="ovr"), abs=1e-12)


def test_classes_without_rows_have_no_area() -> None:
    probabilities, _ = predictions(0, n_rows=6, n_classes=3)
    assert np.isnan(class_aurocs(probabilities, [0, 2, 0, 2, 0, 2])).tolist() == [False, True, False]
    assert np.isnan(class_aurocs(probabilities, [1] * 6)).all()
    assert confusion_matrix(probabilities, [1] * 6)[[0, 2]].sum() == 0
    assert class_aurocs([[0.5, 0.5]] * 4, [0, 1, 0, 1]).tolist() == [0.5, 0.5]  # tied


def test_reliability_by_hand() -> None:
    bins = reliability([[0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25]], [0, 0, 0, 0], n_bins=4)
    assert bins.confidence.tolist() == [0.5, 0.75]
    assert bins.accuracy.tolist() == [1.0, 2 / 3]
    assert bins.n_rows.tolist() == [1, 3]
    assert bins.error == pytest.approx(0.25 * 0.5 + 0.75 * (0.75 - 2 / 3))


def test_brier_score_by_hand() -> None:
    assert brier_score([[1.0, 0.0, 0.0]], [0]) == 0.0
    assert brier_score([[1.0, 0.0, 0.0]], [2]) == 2.0
    assert brier_score([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], [0, 1]) == (0.25 + 2 * 0.0625) / 2
    assert brier_score(np.full((3, 4), 0.25), [0, 1, 2]) == pytest.approx(0.75)


def test_accuracy_by_hand() -> None:
    assert accuracy([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]], [0, 0, 0, 1]) == 0.5


def naive_calibration_error(probabilities: np.ndarray, labels: np.ndarray, n_bins: int) -> float:
    """The definition, bin by bin."""
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    edges = np.linspace(0, 1, n_bins + 1)
    total = 0.0
    for low, high in pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


@pytest.mark.parametrize("n_bins", [1, 2, 10, 15, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_calibration_agrees_with_its_definition(seed: int, n_bins: int) -> None:
    probabilities, labels = predictions(seed)
    expected = naive_calibration_error(probabilities, labels, n_bins)
    assert expected_calibration_error(probabilities, labels, n_bins) == pytest.approx(expected, abs=1e-12)


def test_calibration_by_hand() -> None:
    # Confident and right; confident and wrong; right half the time at a confidence of 0.5; three quarters at 0.75.
    assert expected_calibration_error([[1.0, 0.0]] * 2, [0, 0]) == 0.0
    assert expected_calibration_error([[1.0, 0.0]] * 2, [1, 1]) == 1.0
    assert expected_calibration_error([[0.5, 0.5]] * 2, [0, 1]) == 0.0
    assert expected_calibration_error([[0.25, 0.75]] * 4, [1, 1, 1, 0]) == 0.0
    # Bins (0, 1/2] and (1/2, 1]: gaps of 1/2 and 1/4 with a row and three.
    rows = [[0.5, 0.5], [0.75, 0.25], [0.75, 0.25], [0.75, 0.25]]
    assert expected_calibration_error(rows, [0, 0, 0, 0], n_bins=2) == pytest.approx(0.25 * 0.5 + 0.75 * 0.25)
    # Opposite gaps in one bin cancel.
    assert expected_calibration_error([[0.5, 0.5], [0.75, 0.25]], [0, 1], n_bins=1) == pytest.approx(0.125)


@pytest.mark.parametrize("metric", PREDICTION)
def test_predictions_do_not_depend_on_the_order_of_rows(metric: Metric) -> None:
    probabilities, labels = predictions(1)
    order = np.random.default_rng(0).permutation(len(labels))
    assert metric(probabilities[order], labels[order]) == pytest.approx(metric(probabilities, labels), abs=1e-14)


@pytest.mark.parametrize("metric", PREDICTION)
def test_single_precision_and_tensors_are_taken(metric: Metric) -> None:
    probabilities, labels = predictions(2)
    single = torch.softmax(torch.tensor(probabilities, dtype=torch.float32), dim=1)
    found = metric(single, torch.tensor(labels))
    assert isinstance(found, float)
    assert found == metric(single.double().numpy(), labels)


@pytest.mark.parametrize("metric", PREDICTION)
@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        ([0.5, 0.5], [0, 1], r"probabilities must have the shape \(N, C\); got \(2,\)"),
        (np.zeros((0, 3)), [], r"probabilities must have at least one row; got the shape \(0, 3\)"),
        ([[np.nan, 1.0]], [0], "probabilities must hold no NaN; got 1 among 2 numbers"),
        ([[0.5, 0.5], [0.5, 0.25]], [0, 1], r"probabilities must sum to 1 in each row; got a sum of 0\.75"),
        ([[np.inf, 0.0]], [0], "probabilities must sum to 1 in each row; got a sum of inf"),
        ([[-0.5, 1.5]], [0], r"probabilities must be at least 0 \(take the exponential of log-.*\); got -0\.5"),
        ([[0.5, 0.5]], [0, 1], r"labels must have the shape \(1,\), like probabilities; got \(2,\)"),
        ([[0.5, 0.5]], [[0]], r"labels must have the shape \(1,\), like probabilities; got \(1, 1\)"),
        ([[0.5, 0.5]], [0.0], "labels must hold whole numbers; got float64"),
        ([[0.5, 0.5]], [True], "labels must hold whole numbers; got bool"),
        ([[0.5, 0.5]], ["a"], "labels must hold whole numbers; got <U1"),
        ([[0.5, 0.5]] * 2, [1, 2], "labels must lie in 0 to 1, a class of probabilities each; got 2"),
        ([[0.5, 0.5]] * 2, [-1, 1], "labels must lie in 0 to 1, a class of probabilities each; got -1"),
    ],
)
def test_other_predictions_are_refused(metric: Metric, probabilities: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        metric(probabilities, labels)


@pytest.mark.parametrize("n_bins", [0, -1, 1.5, True])
def test_other_numbers_of_bins_are_refused(n_bins: Any) -> None:
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1; got"):
        expected_calibration_error([[0.5, 0.5]], [0], n_bins)


# Risk and coverage


def test_risk_coverage_by_hand() -> None:
    curve = risk_coverage([0.3, 0.1, 0.4, 0.2], [False, True, False, True])
    assert curve.coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert curve.risk == pytest.approx([0.0, 0.0, 1 / 3, 1 / 2])
    assert curve.area == pytest.approx((1 / 3 + 1 / 2) / 4)
    assert curve.generalised_area == pytest.approx((0.25 + 0.5) / 4)


def test_risk_coverage_of_the_best_and_the_worst_order() -> None:
    correct = np.array([True] * 6 + [False] * 2)
    best, worst = risk_coverage(np.arange(8), correct), risk_coverage(-np.arange(8), correct)
    assert best.risk == pytest.approx([0, 0, 0, 0, 0, 0, 1 / 7, 2 / 8])
    assert worst.risk == pytest.approx([1, 1, 2 / 3, 2 / 4, 2 / 5, 2 / 6, 2 / 7, 2 / 8])
    assert best.area < risk_coverage(np.zeros(8), correct).area < worst.area


def test_tied_rows_share_their_errors() -> None:
    assert risk_coverage(np.ones(4), [True, False, False, True]).risk == pytest.approx(np.full(4, 0.5))
    assert risk_coverage([0, 1, 1], [True, True, False]).risk == pytest.approx([0, 0.25, 1 / 3])
    assert risk_coverage([np.inf, np.inf, -np.inf], [True, False, True]).risk == pytest.approx([0, 0.25, 1 / 3])


def test_ties_give_the_mean_over_all_orders() -> None:
    uncertainty = np.array([0, 1, 1, 1, 2, 2])
    correct = np.array([True, False, True, True, False, True])
    curve = risk_coverage(uncertainty, correct)
    orders = [order for order in permutations(range(6)) if (np.diff(uncertainty[list(order)]) >= 0).all()]
    risks = [np.cumsum(~correct[list(order)]) / np.arange(1, 7) for order in orders]
    assert curve.risk == pytest.approx(np.mean(risks, axis=0))
    assert curve.area == pytest.approx(np.mean(risks))


@pytest.mark.parametrize("tied", [False, True])
def test_the_generalised_area_is_that_of_ranked_errors(tied: bool) -> None:
    # Each error is answered at all coverages from its rank on: ranks and AUROC of errors give the same area.
    rng = np.random.default_rng(3)
    uncertainty, correct = rng.normal(size=500), rng.random(500) < 0.8
    if tied:
        uncertainty = uncertainty.round(1)
    wrong = 1.0 - correct.mean()
    found = auroc(uncertainty[correct], uncertainty[~correct])
    expected = (1.0 - found) * wrong * (1.0 - wrong) + wrong * (wrong + 1.0 / 500) / 2.0
    assert risk_coverage(uncertainty, correct).generalised_area == pytest.approx(expected)


def test_risk_coverage_does_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    uncertainty, correct = rng.integers(5, size=60), rng.random(60) < 0.7
    expected = risk_coverage(uncertainty, correct)
    for _ in range(10):
        order = rng.permutation(60)
        curve = risk_coverage(torch.tensor(uncertainty[order]), torch.tensor(correct[order]))
        np.testing.assert_array_equal(curve.risk, expected.risk)
        assert curve.area == expected.area
    assert expected.risk[-1] == pytest.approx(1 - correct.mean())


@pytest.mark.parametrize(
    ("uncertainty", "correct", "message"),
    [
        ([], [], "uncertainty must have at least one row"),
        ([np.nan, 1.0], [True, False], "uncertainty must hold no NaN; got 1 among 2 numbers"),
        ([1.0, 2.0], [True], r"correct must have the shape \(2,\), like uncertainty; got \(1,\)"),
        ([1.0, 2.0], [1, 0], r"correct must hold booleans \(predicted == labels\); got int"),
    ],
)
def test_other_rows_are_refused(uncertainty: Any, correct: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        risk_coverage(uncertainty, correct)
