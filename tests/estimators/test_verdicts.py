"""Two reasons not to answer: the row is unfamiliar, or its classes are too close."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from socratic import load
from socratic.errors import CalibrationWarning
from socratic.estimators import CircuitClassifier, CircuitImageClassifier

QUICK: dict[str, Any] = {"structure": "random", "n_epochs": 4, "n_sums": 3, "n_repetitions": 2, "random_state": 0}


def overlapping(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of which about a sixth of the rows lie where the other is as likely."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) + y[:, None], y


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    return CircuitClassifier(**QUICK, rejected_label="?").fit(*overlapping(1500, 0))


@pytest.fixture
def cautious(model: CircuitClassifier) -> Any:
    model.set_params(risk=0.08)
    yield model
    model.set_params(risk=None, rejection_rate=0.05)


def test_without_a_risk_no_row_is_ambiguous(model: CircuitClassifier) -> None:
    x, _ = overlapping(300, 1)
    assert set(model.verdict(x)) <= {"familiar", "unfamiliar"}
    np.testing.assert_array_equal(model.verdict(x) == "unfamiliar", model.reject(x))


def test_ambiguous_rows_are_those_whose_classes_are_close(cautious: CircuitClassifier) -> None:
    x, y = overlapping(4000, 1)
    verdict, sure = cautious.verdict(x), cautious.predict_proba(x).max(1)
    assert sure[verdict == "ambiguous"].max() < sure[verdict == "familiar"].min()
    np.testing.assert_array_equal(verdict == "unfamiliar", cautious.reject(x))  # which wins
    answered = verdict == "familiar"
    assert 0.2 < answered.mean() < 0.95
    assert (cautious.predict(x) != y)[answered].mean() < 0.11 < (cautious.predict(x) != y).mean()


def test_refused_for_both_reasons(cautious: CircuitClassifier) -> None:
    x = np.vstack([overlapping(200, 1)[0], np.full((1, 4), 500.0)])
    labels, verdict = cautious.predict_or_reject(x), cautious.verdict(x)
    assert verdict[-1] == "unfamiliar"
    np.testing.assert_array_equal(labels == "?", verdict != "familiar")
    np.testing.assert_array_equal(labels[verdict == "familiar"], cautious.predict(x)[verdict == "familiar"])


def test_the_risk_can_be_changed_and_a_row_tells_at_which_it_is_answered(cautious: CircuitClassifier) -> None:
    x, _ = overlapping(300, 1)
    risks, familiar = cautious.risks(cautious.answer(x)), ~cautious.reject(x)
    before = 0
    for risk in (0.08, 0.12, 0.2):
        answered = cautious.set_params(risk=risk).verdict(x) == "familiar"
        np.testing.assert_array_equal(answered, familiar & (risks <= risk))
        assert answered.sum() >= before
        before = answered.sum()


def test_refusing_more_rows_as_unfamiliar_changes_which_rows_the_risk_is_of(cautious: CircuitClassifier) -> None:
    ambiguity = cautious.ambiguity_
    x, _ = overlapping(300, 1)
    cautious.set_params(rejection_rate=0.5)
    expected = ambiguity.risk(cautious.predict_proba(x).max(1), 0.5)
    np.testing.assert_array_equal(cautious.risks(cautious.answer(x)), expected)
    assert (ambiguity.p_value > 0.5).sum() < 0.6 * len(ambiguity.p_value)


def test_the_promise_can_be_changed_and_the_one_on_average_answers_more(cautious: CircuitClassifier) -> None:
    x, _ = overlapping(2000, 1)
    shares = {
        confidence: (cautious.set_params(risk_confidence=confidence).verdict(x) == "familiar").mean()
        for confidence in (0.9, 0.8, None)
    }
    cautious.set_params(risk_confidence=None)
    assert sorted(shares.values()) == list(shares.values())
    assert shares[0.9] < shares[None]


def test_files_keep_the_promise(cautious: CircuitClassifier, tmp_path: Path) -> None:
    x, _ = overlapping(300, 1)
    cautious.set_params(risk_confidence=0.8).save(tmp_path / "model")
    expected = cautious.verdict(x)
    cautious.set_params(risk_confidence=None)
    again = load(tmp_path / "model")
    assert again.risk_confidence == 0.8
    np.testing.assert_array_equal(again.verdict(x), expected)


def test_files_keep_it(cautious: CircuitClassifier, tmp_path: Path) -> None:
    x, _ = overlapping(300, 1)
    cautious.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.risk == 0.08
    np.testing.assert_array_equal(again.verdict(x), cautious.verdict(x))
    np.testing.assert_array_equal(again.set_params(risk=0.2).verdict(x), cautious.set_params(risk=0.2).verdict(x))


def test_models_from_before_answer_as_they_did(model: CircuitClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    old = load(tmp_path / "model")
    del old.ambiguity_
    x, _ = overlapping(20, 1)
    np.testing.assert_array_equal(old.verdict(x), model.verdict(x))
    assert np.isnan(old.risks(old.answer(x))).all()
    with pytest.raises(ValueError, match=r"risk must be None for this model, .* got 0\.1: fit it again"):
        old.set_params(risk=0.1).verdict(x)


def test_too_few_rows_answer_nothing_and_say_so() -> None:
    with pytest.warns(CalibrationWarning, match=r"risk=0\.01 needs at least 99 familiar rows .* every row is ambig"):
        few = CircuitClassifier(**QUICK, risk=0.01).fit(*overlapping(80, 0))
    x, _ = overlapping(50, 1)
    with pytest.warns(CalibrationWarning, match=r"risk=0\.01 needs at least 99"):
        assert not (few.verdict(x) == "familiar").any()
    with pytest.warns(CalibrationWarning, match=r"risk=0\.01 needs at least 99"):
        few.predict_or_reject(x)
    few.set_params(risk_confidence=0.9)
    told = r"risk=0\.01 with risk_confidence=0\.9 needs at least 299 familiar rows .* or lower risk_confidence"
    with pytest.warns(CalibrationWarning, match=told):
        few.verdict(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few.reject(x)  # which does not depend on the risk
        few.set_params(risk=None).verdict(x)


def test_a_risk_that_no_answer_reaches_is_told() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 3)), rng.integers(0, 2, 600)  # which have nothing to do with each other
    with pytest.warns(CalibrationWarning, match=r"risk=0\.05 is less than the calibration rows allow"):
        model = CircuitClassifier(**QUICK, risk=0.05).fit(x, y)
    with pytest.warns(CalibrationWarning, match="raise risk, or fit more rows"):
        assert not (model.verdict(x) == "familiar").any()


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1, "0.1", True, np.nan])
def test_risks_must_be_shares(model: CircuitClassifier, risk: Any) -> None:
    message = "risk must be a number above 0 and below 1, or None; got "
    with pytest.raises(ValueError, match=message):
        CircuitClassifier(**QUICK, risk=risk).fit(*overlapping(50, 0))
    model.set_params(risk=risk)
    with pytest.raises(ValueError, match=message):
        model.verdict(overlapping(5, 1)[0])
    model.set_params(risk=None)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 90, "0.9", True, np.nan])
def test_confidences_must_be_shares(model: CircuitClassifier, confidence: Any) -> None:
    message = "risk_confidence must be a number above 0 and below 1, or None; got "
    with pytest.raises(ValueError, match=message):
        CircuitClassifier(**QUICK, risk_confidence=confidence).fit(*overlapping(50, 0))
    model.set_params(risk_confidence=confidence, risk=0.1)
    with pytest.raises(ValueError, match=message):
        model.verdict(overlapping(5, 1)[0])
    model.set_params(risk_confidence=None, risk=None)


@pytest.mark.slow
def test_the_error_that_is_seen_is_at_most_the_risk_in_nine_of_ten_fits() -> None:
    """Among fits that answer, too: on average alone, half of the fits answer with more errors."""
    fresh, truth = overlapping(20_000, 99)
    broken: dict[float | None, list[bool]] = {0.9: [], None: []}
    for seed in range(30):
        model = CircuitClassifier(**{**QUICK, "random_state": seed}).fit(*overlapping(1500, seed)).set_params(risk=0.06)
        answer = model.answer(fresh)
        wrong = model.classes_[answer.probabilities.argmax(1)] != truth
        for confidence, found in broken.items():
            answered = model.set_params(risk_confidence=confidence).verdicts(answer) == "familiar"
            found.append(bool(answered.any()) and wrong[answered].mean() > 0.06)
    shares = {confidence: float(np.mean(found)) for confidence, found in broken.items()}
    print(f"fits with more errors than the risk: {shares}")
    assert shares[0.9] <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 30) < shares[None]


def test_weights_count() -> None:
    """Where the rows that are wrong weigh almost nothing, hardly any row is ambiguous."""
    x, y = overlapping(1500, 0)
    plain = CircuitClassifier(**QUICK, risk=0.1).fit(x, y)
    wrong = plain.predict(x) != y
    weighted = CircuitClassifier(**QUICK, risk=0.1).fit(x, y, sample_weight=np.where(wrong, 0.01, 1.0))
    x, _ = overlapping(500, 1)
    assert (weighted.verdict(x) == "familiar").mean() > (plain.verdict(x) == "familiar").mean() + 0.1


def test_classifiers_of_images_have_it() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    images = rng.integers(0, 120, (300, 6, 6), dtype=np.uint8) + 30 * y[:, None, None].astype(np.uint8)
    model = CircuitImageClassifier(n_epochs=2, n_sums=3, risk=0.3, random_state=0).fit(images, y)
    assert set(model.verdict(images)) <= {"familiar", "unfamiliar", "ambiguous"}
    assert len(model.ambiguity_.confidence) == 60  # all that were held out
    assert model.n_calibration_ == 40
