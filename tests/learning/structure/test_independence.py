"""Planted dependence is found, independence keeps its error rates, in mixed tables with missing values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian
from socratic.learning.structure.counts import mutual_information, pair_counts
from socratic.learning.structure.independence import Dependence, g_test, rdc

MIXED: list[Family] = [Gaussian(), Gaussian(), Bernoulli(), Categorical(5), Binomial(8)]


def independent_columns(n_rows: int, missing: float, rng: np.random.Generator) -> np.ndarray:
    x = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.standard_cauchy(n_rows),
            rng.integers(0, 2, n_rows),
            rng.integers(0, 5, n_rows),
            rng.binomial(8, 0.3, n_rows),
        ]
    ).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x


@pytest.mark.parametrize(("n_rows", "missing"), [(30, 0.0), (30, 0.4), (300, 0.0), (300, 0.4)])
def test_rdc_keeps_its_false_positive_rate(n_rows: int, missing: float) -> None:
    rng = np.random.default_rng(0)
    pairs = np.triu_indices(len(MIXED), 1)
    p_values = [rdc(independent_columns(n_rows, missing, rng), MIXED, rng).p_value[pairs] for _ in range(80)]
    assert np.mean(np.array(p_values) < 0.05) < 0.07  # 800 tests: a standard error of 0.008
    assert np.mean(np.array(p_values) < 0.01) < 0.025


def test_g_test_keeps_its_false_positive_rate() -> None:
    rng = np.random.default_rng(0)
    pairs = np.triu_indices(4, 1)
    tables = (rng.integers(0, [2, 3, 4, 2], (200, 4)).astype(float) for _ in range(100))
    p_values = np.array([g_test(table, [2, 3, 4, 2]).p_value[pairs] for table in tables])
    assert 0.02 < np.mean(p_values < 0.05) < 0.08


def noisy(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return f(z) + 0.3 * rng.normal(size=len(z))


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_rdc_finds_dependence_of_every_kind(missing: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=400)
    angle = rng.uniform(0, 2 * np.pi, 400)
    category = rng.integers(0, 4, 400)
    cases: list[tuple[np.ndarray, np.ndarray, list[Family]]] = [
        (z, noisy(np.negative, z, rng), [Gaussian(), Gaussian()]),
        (z, noisy(np.square, z, rng), [Gaussian(), Gaussian()]),  # uncorrelated
        (z, noisy(lambda v: np.sin(3 * v), z, rng), [Gaussian(), Gaussian()]),
        (noisy(np.cos, angle, rng), noisy(np.sin, angle, rng), [Gaussian(), Gaussian()]),
        (category, noisy(lambda c: c % 2.0, category, rng), [Categorical(4), Gaussian()]),
        (category, category % 2, [Categorical(4), Bernoulli()]),
        (z, rng.binomial(8, 1 / (1 + np.exp(-z))), [Gaussian(), Binomial(8)]),
    ]
    for first, second, families in cases:
        x = np.column_stack([first, second]).astype(float)
        x[rng.random(x.shape) < missing] = np.nan
        found = rdc(x, families, rng)
        assert found.p_value[0, 1] < 1e-4
        assert found.strength[0, 1] > 0.4


def test_rdc_sees_ranks_only() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    x[:, 1] += x[:, 0]
    bent = x.copy()
    bent[:, 1] = np.exp(5 * bent[:, 1])
    plain, same = (rdc(table, [Gaussian()] * 3, np.random.default_rng(1)) for table in (x, bent))
    np.testing.assert_allclose(plain.strength, same.strength, atol=1e-9)


def test_g_test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, [3, 4], (150, 2)).astype(float)
    codes[:60, 1] = codes[:60, 0]
    codes[rng.random(codes.shape) < 0.1] = np.nan
    known = codes[~np.isnan(codes).any(1)].astype(int)
    table = np.zeros((3, 4))
    np.add.at(table, tuple(known.T), 1)
    expected = chi2_contingency(table, correction=False, lambda_="log-likelihood")
    # A category that never occurs adds nothing.
    np.testing.assert_allclose(g_test(codes, [3, 6]).p_value[0, 1], expected.pvalue, rtol=1e-9)


def test_mutual_information_of_all_pairs_equals_that_of_each() -> None:
    rng = np.random.default_rng(0)
    sizes = [2, 3, 5]
    codes = rng.integers(0, sizes, (80, 3)).astype(float)
    codes[:, 1] = np.where(rng.random(80) < 0.5, codes[:, 0], codes[:, 1])
    codes[rng.random(codes.shape) < 0.2] = np.nan
    found = mutual_information(pair_counts(codes, sizes), sizes)
    for i in range(3):
        for j in range(3):
            joint = np.zeros((sizes[i], sizes[j]))
            rows = codes[~np.isnan(codes[:, [i, j]]).any(1)].astype(float)
            np.add.at(joint, (rows[:, i].astype(int), rows[:, j].astype(int)), 1)
            joint /= joint.sum()
            ratio = joint / np.outer(joint.sum(1), joint.sum(0)) if i != j else np.ones_like(joint)
            with np.errstate(divide="ignore", invalid="ignore"):
                assert np.isclose(found[i, j], np.nansum(joint * np.log(ratio)))


def test_columns_without_information_are_independent() -> None:
    x = np.random.default_rng(0).normal(size=(50, 4))
    x[:, 1], x[:, 2] = 7.0, np.nan
    x[:, 3] = x[:, 0]
    found = rdc(x, [Gaussian()] * 4, np.random.default_rng(0))
    assert found.groups(0.3, 0.001).tolist() == [0, 1, 2, 0]
    codes = np.where(np.isnan(x), x, x > 0)
    assert g_test(codes, [2] * 4).groups(0.3, 0.001).tolist() == [0, 1, 2, 0]


def test_groups_are_joined_through_others() -> None:
    strength = np.array([[0, 0.9, 0.1], [0.9, 0, 0.5], [0.1, 0.5, 0]])
    p_value = np.array([[1, 0.0, 0.0], [0.0, 1, 0.01], [0.0, 0.01, 1]])
    found = Dependence(strength, p_value)
    assert found.groups(0.3, 0.05).tolist() == [0, 0, 0]
    assert found.groups(0.6, 0.05).tolist() == [0, 0, 1]
    assert found.groups(0.3, 0.001).tolist() == [0, 0, 1]
    assert found.groups(0.05, 0.001).tolist() == [0, 0, 0]
