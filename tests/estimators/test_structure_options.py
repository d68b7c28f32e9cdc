"""Options of learned structures, and circuits of theirs that are trained further."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import socratic
from socratic.circuit import Graph
from socratic.estimators import CircuitClassifier, CircuitDensity
from socratic.estimators.learned import THRESHOLDS
from tests.estimators.test_structures import dependent_frame, discrete_frame


def test_options_of_learned_structures_reach_the_learners() -> None:
    x, _ = dependent_frame()
    few, many = (
        CircuitDensity(structure="learnspn", structure_options={"min_rows": rows}, random_state=0).fit(x)
        for rows in (30, 200)
    )
    sizes = [sum(value.numel() for value in model.circuit_.parameters()) for model in (few, many)]
    assert sizes[0] > sizes[1]
    codes, _ = discrete_frame(200)
    light, heavy = (
        CircuitDensity(structure="chow-liu", structure_options={"smoothing": rows}).fit(codes) for rows in (1.0, 500.0)
    )
    assert light.score(codes) > heavy.score(codes)


def groups_of_flags(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Eight groups of rows: weak dependence between any two of many columns. Rows to fit on, and more of the same."""
    rng = np.random.default_rng(0)
    x = rng.random((2 * n, 12)) < rng.uniform(0.1, 0.9, (8, 12))[rng.integers(0, 8, 2 * n)]
    return x[:n], x[n:]


def test_the_threshold_of_learnspn_is_chosen_on_held_out_rows() -> None:
    x, fresh = groups_of_flags()

    def score(**options: Any) -> float:
        model = CircuitDensity(structure="learnspn", **options, random_state=0)
        return model.fit(x, validation=fresh).score(fresh)

    given = [score(structure_options={"threshold": threshold}) for threshold in THRESHOLDS]
    assert max(given) > min(given) + 1e-3
    assert score() == pytest.approx(max(given))


@pytest.mark.parametrize("optimiser", ["em", "adam"])
def test_learned_circuits_may_be_trained_further(optimiser: str, tmp_path: Path) -> None:
    x, fresh = groups_of_flags()
    settings = {"structure": "learnspn", "optimiser": optimiser, "learning_rate": 0.02, "random_state": 0}
    learned = CircuitDensity(**settings, structure_options={"threshold": 0.1}).fit(x, validation=fresh)
    further = {"threshold": 0.1, "n_epochs": 4}
    trained = CircuitDensity(**settings, structure_options=further).fit(x, validation=fresh)
    assert isinstance(trained.circuit_, Graph)
    assert trained.circuit_.n_nodes == learned.circuit_.n_nodes
    assert 1 <= trained.n_iter_ <= 4
    assert trained.score(fresh) > learned.score(fresh)
    trained.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert loaded.structure_options == further
    np.testing.assert_allclose(loaded.score_samples(x), trained.score_samples(x))


def test_classifiers_train_learned_circuits_too() -> None:
    x, y = dependent_frame()
    settings = {"structure": "learnspn", "random_state": 0, "learning_rate": 0.02}
    trained = CircuitClassifier(**settings, structure_options={"n_epochs": 5}).fit(x, y)
    assert trained.n_iter_ == 5
    assert trained.score(x, y) > 0.8


@pytest.mark.parametrize(
    ("structure", "options", "message"),
    [
        ("learnspn", {"treshold": 0.1}, r"structure_options\['treshold'\] is no option .*: its options are min_rows"),
        ("random", {"threshold": 0.1}, "no option of structure='random': which has none"),
        (
            "chow-liu",
            {"n_epochs": 3},
            r"\['n_epochs'\] is no option .*'chow-liu': its options are smoothing",
        ),
        ("learnspn", {"n_epochs": -1}, r"structure_options\['n_epochs'\] must be a whole number of at least 0; got -1"),
        ("learnspn", {"min_rows": 0}, "min_rows must be a whole number of at least 1; got 0"),
        ("learnspn", [0.1], r"structure_options must map names of options to values, .* got \[0.1\]"),
    ],
)
def test_wrong_options_are_named(structure: str, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CircuitDensity(structure=structure, structure_options=options).fit(discrete_frame(100)[0])
