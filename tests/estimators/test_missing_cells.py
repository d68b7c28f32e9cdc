"""Familiar rows are refused as often, whatever number of their cells is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import socratic
from socratic.estimators import CircuitClassifier, CircuitGuard, CircuitOutlierDetector

pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning", "ignore:values not seen in training")
MODELS = {"detector": 700, "classifier": 700, "guard": 700, "few": 150}


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One column of long tails, beside three of counts that are hardly ever above 0."""
    x = rng.poisson(0.05, (n, 4)).astype(float)
    x[:, 0] = rng.standard_t(2, n)
    return x, (x[:, 0] + rng.normal(size=n) > 0).astype(int)


def fitted(kind: str, seed: int) -> Any:
    """A model with default settings, and how it gives p-values."""
    x, y = draw(MODELS[kind], np.random.default_rng(seed))
    if kind == "classifier":
        return CircuitClassifier(random_state=seed).fit(x, y)
    if kind == "guard":
        others = draw(500, np.random.default_rng(1000 + seed))
        return CircuitGuard(RandomForestClassifier(30, random_state=seed).fit(*others), random_state=seed).fit(x)
    return CircuitOutlierDetector(random_state=seed).fit(x)


def p_value(model: Any, rows: np.ndarray) -> np.ndarray:
    """P-values (N,) of rows."""
    found = model.uncertainty(rows).p_value if isinstance(model, CircuitClassifier) else model.p_value(rows)
    return np.asarray(found)


def hide(rows: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Rows with a share of their cells hidden, of which something is left."""
    left = np.where(rng.random(rows.shape) < share, np.nan, rows)
    return left[~np.isnan(left).all(1)]


def test_a_classifier_refuses_few_familiar_rows_with_half_of_their_cells() -> None:
    rng = np.random.default_rng(5)
    refused = p_value(fitted("classifier", 0), hide(draw(2000, rng)[0], 0.5, rng)) <= 0.05
    assert 0.01 < refused.mean() < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_rows_are_refused_as_often_whatever_they_miss(kind: str) -> None:
    shares, refused = (0.0, 0.2, 0.5, 0.8), []
    for seed in range(12):
        rng, model = np.random.default_rng(seed), fitted(kind, seed)
        rows = draw(2000, rng)[0]
        refused.append([(p_value(model, hide(rows, share, rng)) <= 0.05).mean() for share in shares])
    mean, error = np.mean(refused, 0), np.std(refused, 0) / np.sqrt(11)
    print(kind, *(f"{share:.0%} hidden: {m:.3f} ({e:.3f})" for share, m, e in zip(shares, mean, error, strict=True)))
    assert (mean < 0.06 + 2.0 * error).all()
    assert (mean > 0.01).all()  # less than 5 %: most rows of one cell are tied


@pytest.mark.parametrize("kind", ["detector", "few"])
def test_the_decision_is_the_score_less_the_offset(kind: str) -> None:
    model = fitted(kind, 0)
    rows = hide(draw(300, np.random.default_rng(1))[0], 0.4, np.random.default_rng(2))
    np.testing.assert_array_equal(model.decision_function(rows), model.score_samples(rows) - model.offset_)
    np.testing.assert_array_equal(model.decision_function(rows) < 0, model.p_value(rows) <= 0.05)


def test_a_row_of_which_nothing_is_known_is_never_refused() -> None:
    for kind in MODELS:
        assert p_value(fitted(kind, 0), np.full((1, 4), np.nan))[0] > 0.2


def test_files_keep_the_levels(tmp_path: Path) -> None:
    rows = hide(draw(100, np.random.default_rng(1))[0], 0.4, np.random.default_rng(2))
    for kind in ("detector", "few", "guard"):
        model = fitted(kind, 0)
        model.save(tmp_path / kind)
        again = socratic.load(tmp_path / kind, **({"model": model.model} if kind == "guard" else {}))
        np.testing.assert_array_equal(again.p_value(rows), model.p_value(rows))


def test_a_model_that_takes_no_missing_cells_is_guarded_without_levels() -> None:
    x, _ = draw(700, np.random.default_rng(0))

    def strict(rows: np.ndarray) -> np.ndarray:
        if np.isnan(rows).any():
            raise TypeError("no holes, please")
        p = 1.0 / (1.0 + np.exp(-rows[:, 0]))
        return np.column_stack([1.0 - p, p])

    guard = CircuitGuard(strict, random_state=0).fit(x)
    assert (guard.p_value(draw(1000, np.random.default_rng(1))[0]) <= 0.05).mean() < 0.1
    with pytest.raises(TypeError, match="no holes, please"):
        guard.p_value(np.where(np.eye(4), np.nan, x[:4]))
