"""Scores that are expected of rows with missing cells."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.expected import ExpectedScores, hide_cells

RNG = np.random.default_rng(0)
MEANS = np.array([1.0, 4.0, 0.5, 2.0, 3.0, 1.0])


def scores_of(observed: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A score that adds something to every cell that is there, and one that falls with their number."""
    noise = rng.normal(size=observed.shape) * np.sqrt(MEANS)
    return {
        "sum": (observed * (MEANS + noise)).sum(1),
        "share": 3.0 - observed.mean(1) + 0.1 * rng.normal(size=len(observed)),
    }


def fitted(n_rows: int = 4000) -> ExpectedScores:
    observed = RNG.random((n_rows, 6)) < RNG.choice([1.0, 0.75, 0.5, 0.25], size=(n_rows, 1))
    return ExpectedScores.fit(scores_of(observed, RNG), observed, n_rows)


def test_rows_with_missing_cells_become_comparable() -> None:
    expected = fitted()
    complete = np.ones((4000, 6), dtype=bool)
    for name, whole in scores_of(complete, RNG).items():
        for missing in ([0], [1, 4], [0, 2, 3]):
            some = complete.copy()
            some[:, missing] = False
            found = expected.comparable(scores_of(some, RNG), some)[name]
            np.testing.assert_allclose(found.mean(), whole.mean(), atol=0.4 * whole.std())
            np.testing.assert_allclose(found.std(), whole.std(), rtol=0.25)


def test_complete_rows_and_other_scores_stay_what_they_are() -> None:
    observed = np.ones((4, 6), dtype=bool)
    observed[0, 2] = False
    scores = {"sum": np.array([1.0, 2.0, np.inf, 3.0]), "unheard": np.arange(4.0)}
    found = fitted().comparable(scores, observed)
    np.testing.assert_array_equal(found["sum"][1:], scores["sum"][1:])
    assert found["sum"][0] != 1.0
    np.testing.assert_array_equal(found["unheard"], scores["unheard"])


def test_a_wild_row_does_not_bend_what_is_expected() -> None:
    observed = RNG.random((500, 6)) < 0.7
    scores = scores_of(observed, RNG)
    wild = {name: np.append(values, [1e9, np.inf]) for name, values in scores.items()}
    rows = np.vstack([observed, observed[:2]])
    calm, bent = ExpectedScores.fit(scores, observed, 500), ExpectedScores.fit(wild, rows, 502)
    one, other = (each.comparable(scores, observed)["sum"] for each in (calm, bent))
    np.testing.assert_allclose(one, other, atol=0.6 * scores["sum"].std())


def test_scores_that_never_vary_and_unknown_ones_do_no_harm() -> None:
    observed = RNG.random((50, 6)) < 0.5
    scores = {"constant": np.full(50, 2.0), "unknown": np.full(50, np.nan)}
    found = ExpectedScores.fit(scores, observed, 50).comparable(scores, observed)
    np.testing.assert_allclose(found["constant"], 2.0)
    assert np.isnan(found["unknown"]).all()


def test_some_cells_are_hidden_and_the_others_kept() -> None:
    rows = RNG.normal(size=(100, 5)).astype(np.float32)
    rows[0, 0] = np.inf  # a value that was not seen in training
    found = hide_cells(rows, np.random.default_rng(1))
    assert found.dtype == np.float32
    assert found.shape == (400, 5)
    assert set(found[~np.isnan(found)]) <= set(rows.ravel())
    assert 0.2 < np.isnan(found).mean() < 0.4
    assert (~np.isnan(found)).all(1).mean() > 0.15
    assert [len(hide_cells(np.zeros((5000, n)), RNG)) for n in (2, 20, 200)] == [400, 600, 2000]


def test_it_can_be_rebuilt_and_knows_its_columns() -> None:
    expected = fitted(100)
    again = ExpectedScores.from_state(*expected.to_state())
    observed = RNG.random((20, 6)) < 0.5
    scores = scores_of(observed, RNG)
    for name in scores:
        np.testing.assert_array_equal(
            again.comparable(scores, observed)[name], expected.comparable(scores, observed)[name]
        )
    again.check(6)
    with pytest.raises(ValueError, match="its expected scores do not fit its columns"):
        again.check(7)


@pytest.mark.parametrize("n_cells", [5, 60])
def test_single_cells_are_drawn_to_0(n_cells: int) -> None:
    observed = np.random.default_rng(0).random((40, n_cells)) < 0.7
    scores = {"one": observed[:, 0] + np.arange(40.0), "infinite": np.full(40, np.inf)}
    found = ExpectedScores.fit(scores, observed, n_rows=40)
    share = observed.mean(1)
    features = np.column_stack([np.ones(40), share, share * (1.0 - share), observed])
    clipped = np.clip(scores["one"], *np.quantile(scores["one"], (0.01, 0.99)))
    pull = np.diag(np.r_[np.zeros(3), np.full(n_cells, 10.0)])
    np.testing.assert_allclose((features.T @ features + pull) @ found.mean["one"], features.T @ clipped, rtol=1e-8)
    np.testing.assert_array_equal(found.mean["infinite"], 0.0)
