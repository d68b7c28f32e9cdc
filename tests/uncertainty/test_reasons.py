from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.reasons import FamiliarSurprises, Reason

NAN = np.nan
FAMILIAR = FamiliarSurprises.fit(np.array([[1.0, 10.0], [2.0, NAN], [3.0, 30.0], [4.0, 40.0]]), np.ones(4))


def test_parts_are_compared_with_the_same_parts_of_familiar_rows() -> None:
    found = FAMILIAR.compare(("a", "b"), np.array([[3.0, 35.0], [9.0, NAN]]), np.array([0.0, 2.0]))
    np.testing.assert_allclose(found.surprise, [[3.0, 37.0], [9.0, NAN]])
    np.testing.assert_allclose(found.excess, [[1.0, 5.0], [7.0, NAN]])  # above the medians 2 and 30
    np.testing.assert_allclose(found.p_value, [[3 / 5, 2 / 4], [1 / 5, NAN]])


def test_the_top_comes_first_and_what_is_missing_never() -> None:
    found = FAMILIAR.compare(("a", "b"), np.array([[3.0, 35.0], [9.0, NAN], [NAN, NAN]]))
    assert found.top(1) == [[Reason("b", 5.0, 0.5)], [Reason("a", 7.0, 0.2)], []]
    assert [[reason.name for reason in row] for row in found.top(5)] == [["b", "a"], ["a"], []]
    with pytest.raises(ValueError, match="k must be"):
        found.top(0)


def test_weights_count() -> None:
    heavy = FamiliarSurprises.fit(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 1.0, 8.0]))
    found = heavy.compare(("a",), np.array([[3.0]]))
    assert found.excess.item() == 0.0
    assert found.p_value.item() > 0.8


def test_without_familiar_values_nothing_is_unusual() -> None:
    nothing = FamiliarSurprises.fit(np.array([[NAN, np.inf], [NAN, np.inf]]), np.ones(2))
    found = nothing.compare(("a", "b"), np.array([[5.0, np.inf]]))
    assert found.p_value.tolist() == [[1.0, 1.0]]
    assert found.excess.tolist() == [[5.0, np.inf]]


def test_not_more_is_kept_than_is_needed() -> None:
    many = FamiliarSurprises.fit(np.zeros((1000, 3000)), np.ones(1000))
    assert many.surprise.size < 2**19
    assert len(many.surprise) == len(many.weights) > 100


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 names, surprises of the shape \(1, 2\) and familiar ones .* do not fit"):
        FAMILIAR.compare(("a",), np.zeros((1, 2)))
    arrays = FAMILIAR.to_arrays()
    again = FamiliarSurprises.from_arrays(arrays)
    np.testing.assert_array_equal(again.surprise, FAMILIAR.surprise)
    with pytest.raises(ValueError, match=r"3 weights do not fit surprises of the shape \(4, 2\)"):
        FamiliarSurprises.from_arrays({**arrays, "weights": np.ones(3)})
