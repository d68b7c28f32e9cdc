"""Scores on one scale, whatever number of cells a row misses."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.conformal import Conformal, on_grid
from socratic.uncertainty.levels import Levels, hide

SEEN = np.ones(1)


def simple(n: int = 99, n_missing: float = 0.0) -> tuple[Levels, np.ndarray, np.ndarray]:
    """Levels of two missing cells, where scores are other ones, and of four, where all are the same."""
    rng = np.random.default_rng(0)
    whole, half = np.sort(rng.normal(size=n)), np.sort(5.0 + rng.standard_t(2, size=n))
    ones = np.ones(n)
    hidden = [(half, ones, np.full(n, 2)), (np.full(n, 7.0), ones, np.full(n, 4))]
    return Levels.fit(whole, ones, n_missing, hidden), whole, half


def test_complete_rows_keep_their_scores() -> None:
    scores = np.array([-np.inf, -3.0, 0.5, 1024.0, np.inf])
    found = simple()[0](scores, np.zeros(5), np.ones(5))
    np.testing.assert_array_equal(found, scores)


def test_p_values_at_a_level_are_those_of_its_copies() -> None:
    levels, whole, half = simple()
    scores = np.r_[np.random.default_rng(1).normal(5.0, 3.0, 300), half[:5], -np.inf, np.inf]
    found = levels(scores, np.full(len(scores), 2), np.ones(len(scores)))
    expected = Conformal.fit(half).p_value(scores)
    np.testing.assert_allclose(Conformal.fit(whole).p_value(found), expected, atol=1e-12)


def test_rows_of_which_nothing_is_known_are_the_most_familiar() -> None:
    levels, whole, _ = simple()
    np.testing.assert_array_equal(levels(np.array([7.0]), np.array([4]), SEEN), on_grid(whole[:1]))


def test_the_nearer_level_says_more() -> None:
    levels = simple()[0]
    low, middle, high = levels(np.full(3, 6.0), np.array([0, 1, 2]), np.ones(3))
    assert low == 6.0
    np.testing.assert_allclose(middle, 0.5 * (low + high), rtol=1e-12)


def test_rows_that_miss_no_more_than_familiar_ones_keep_their_scores() -> None:
    levels = simple(n_missing=1.2)[0]
    found = levels(np.full(3, 6.0), np.array([0, 1, 2]), np.ones(3))
    assert (found[:2] == 6.0).all()
    assert found[2] != 6.0


def test_what_is_rarely_unseen_makes_a_row_as_unusual_as_so_many() -> None:
    levels, whole, _ = simple()
    unseen = np.array([0.5, 0.1, 0.02, 1e-6, 1.0])
    found = levels(np.full(5, -9.0), np.zeros(5), unseen)
    assert (Conformal.fit(whole).p_value(found)[:4] <= unseen[:4] + 0.02).all()
    assert found[4] == -9.0
    assert (levels(np.full(5, 9.0), np.zeros(5), unseen) == 9.0).all()


def test_scores_that_are_infinite_and_equal_ones_do_no_harm() -> None:
    whole = np.r_[np.zeros(50), 1.0, np.full(10, np.inf)]
    level = (np.full(61, np.inf), np.ones(61), np.full(61, 1))
    levels = Levels.fit(whole, np.ones(61), 0.0, [level])
    found = levels(np.array([0.0, 5.0, np.inf, np.nan]), np.ones(4), np.ones(4))
    assert np.isfinite(found[:2]).all()
    assert np.isposinf(found[2])
    assert np.isnan(found[3])
    Levels.from_arrays(levels.to_arrays())


@pytest.mark.parametrize("n_cells", [1, 2, 4, 30])
def test_cells_are_hidden_beside_those_that_are_missing(n_cells: int) -> None:
    missing = np.random.default_rng(0).random((50, n_cells)) < 0.2
    places, cells, levels = hide(missing, np.random.default_rng(1))
    assert (cells[missing[places]]).all()
    means = [cells[levels == level].sum(1).mean() for level in np.unique(levels)]
    assert (np.diff(means) > 0.0).all()
    assert means[-1] == n_cells
    assert len(places) == 50 * (len(means) - 1) + 20
    complete = hide(np.zeros((500, n_cells), dtype=bool), np.random.default_rng(1))
    assert {len(np.unique(complete[1][complete[2] == level].sum(1))) for level in np.unique(complete[2])} == {1}
    assert (np.bincount(complete[2])[1:-1] == 200).all()


def test_it_can_be_rebuilt_unless_it_is_damaged() -> None:
    levels = simple()[0]
    again = Levels.from_arrays(levels.to_arrays())
    scores, n_missing = np.linspace(-3, 9, 50), np.arange(50) % 5
    np.testing.assert_array_equal(again(scores, n_missing, np.ones(50)), levels(scores, n_missing, np.ones(50)))
    for name, damaged in {
        "scores": levels.scores[::-1],
        "below": levels.below[1:],
        "n_missing": levels.n_missing[::-1],
        "ends": levels.ends + 1,
        "knots": levels.knots * np.nan,
        "values": levels.values[1:],
    }.items():
        with pytest.raises(ValueError, match="the levels of missing cells do not fit together"):
            Levels.from_arrays({**levels.to_arrays(), name: damaged})
