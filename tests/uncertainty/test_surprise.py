from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.surprise import Surprise


def test_surprise_is_the_log_of_a_share_and_goes_on_rising() -> None:
    surprise = Surprise.fit(np.array([1.0, 2.0, 2.0, 3.0]), np.ones(4))
    np.testing.assert_allclose(np.exp(-surprise([0.0, 1.0, 2.0, 3.0])), [1.0, 1.0, 0.8, 0.4])
    above = surprise(np.array([3.0001, 4.0, 5.0, np.inf]))
    assert above[0] == pytest.approx(np.log(5.0), abs=1e-3)
    assert (np.diff(above) > 0).all()
    ties = Surprise.fit(np.zeros(9), np.ones(9))  # such as the entropy of a model that never doubts
    np.testing.assert_allclose(ties([-1.0, 0.0, 0.125, 2.0]), [0.0, 0.0, np.log(10.0) + 0.125, np.log(10.0) + 2.0])


def test_it_is_the_score_itself_without_reference_rows() -> None:
    nothing = Surprise.fit(np.empty(0), np.empty(0))
    np.testing.assert_array_equal(nothing([-1.0, 2.0]), [-1.0, 2.0])


def test_rows_without_weight_have_no_say() -> None:
    scores, weights = np.array([1.0, 2.0, 9.0]), np.array([1.0, 1.0, 0.0])
    asked = np.linspace(0.0, 12.0, 30)
    np.testing.assert_array_equal(Surprise.fit(scores, weights)(asked), Surprise.fit(scores[:2], np.ones(2))(asked))


def test_round_trip() -> None:
    surprise = Surprise.fit(np.random.default_rng(0).normal(size=50), np.ones(50))
    asked = np.linspace(-3.0, 9.0, 40)
    np.testing.assert_array_equal(Surprise.from_arrays(surprise.to_arrays())(asked), surprise(asked))


def test_reference_rows_that_differ_by_rounding_count_as_the_least_of_them() -> None:
    scores = np.array([0.0, 1e-16, 3e-16, 0.5, 70.0, np.nextafter(70.0, 71.0), 80.0])
    surprise = Surprise.fit(scores, np.ones(7))
    np.testing.assert_array_equal(surprise.knots, [0.0, 0.5, 70.0, 80.0])
    np.testing.assert_allclose(np.exp(-surprise(scores)), np.array([8, 8, 8, 5, 4, 4, 2]) / 8, rtol=1e-12)


def test_reference_rows_that_differ_by_more_are_told_apart() -> None:
    scores = np.array([-1e3, -1e3 + 0.01, 0.0, 2e-5, 4e-5, 5.0])
    surprise = Surprise.fit(scores, np.ones(6))
    np.testing.assert_allclose(np.exp(-surprise(scores)), np.arange(7, 1, -1) / 7)


def test_rounding_makes_no_row_more_surprising_than_the_reference_rows() -> None:
    surprise = Surprise.fit(np.arange(10.0), np.ones(10))
    largest = np.array([9.0, np.nextafter(9.0, 10.0), np.float32(9.0) * np.float32(1.0 + 2.0**-22)])
    np.testing.assert_allclose(surprise(largest), surprise(9.0), rtol=1e-12)
    assert surprise(9.001) > surprise(9.0) + 0.5
