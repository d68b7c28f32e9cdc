"""Conformal p-values within every class."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.by_class import ClassConformal

SHARES = np.array([0.7, 0.2, 0.1])
CENTRES, SPREADS = np.array([0.0, 2.0, 5.0]), np.array([1.0, 1.5, 0.5])


def drawn(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How unusual rows of three classes on a line are, the probabilities of their classes, and these."""
    y = rng.choice(3, n, p=SHARES)
    x = CENTRES[y] + SPREADS[y] * rng.normal(size=n)
    joint = SHARES / SPREADS * np.exp(-0.5 * ((x[:, None] - CENTRES) / SPREADS) ** 2)
    return -np.log(joint.sum(1)), joint / joint.sum(1, keepdims=True), y


def fitted(rng: np.random.Generator, n: int, rate: float = 0.05, power: float = 1.0) -> ClassConformal:
    scores, probabilities, y = drawn(rng, n)
    return ClassConformal.fit(scores, probabilities**power, y, np.ones(n), rate)


@pytest.mark.parametrize("power", [1.0, 3.0])
def test_every_class_keeps_the_rate(power: float) -> None:
    """However sure of itself the model is; and rows of all classes are refused."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(200):
        conformal = fitted(rng, 400, power=power)
        scores, probabilities, y = drawn(rng, 2000)
        refused = conformal.p_value(scores[None], probabilities[None] ** power) <= 0.05
        shares.append([refused[y == label].mean() for label in range(3)])
    mean, error = np.mean(shares, 0), np.std(shares, 0) / np.sqrt(len(shares))
    assert (mean <= 0.05 + 3 * error).all()
    assert (mean >= 0.01).all()


def test_a_class_of_few_rows_is_compared_with_all() -> None:
    rng = np.random.default_rng(1)
    conformal = fitted(rng, 100)
    assert list(conformal.classes) == [0, 1] or list(conformal.classes) == [0]
    assert conformal.others is not None
    assert conformal.reaches(0.05)
    assert not conformal.reaches(0.005)
    far = conformal.p_value(np.array([[50.0]]), np.full((1, 1, 3), 1 / 3))
    assert far[0] == pytest.approx(1.0 / (conformal.worth + 1.0))


def test_arrays_bring_it_back() -> None:
    rng = np.random.default_rng(2)
    for n in (100, 600):
        conformal = fitted(rng, n)
        scores, probabilities, _ = drawn(rng, 50)
        again = ClassConformal.from_arrays(conformal.to_arrays())
        found, expected = (each.p_value(scores[None], probabilities[None]) for each in (again, conformal))
        np.testing.assert_array_equal(found, expected)
