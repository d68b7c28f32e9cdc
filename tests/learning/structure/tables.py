"""Six kinds of generated mixed tables: numbers, categories, yes/no answers, counts and missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian


class MixedTable(NamedTuple):
    """Rows (N, V), classes (N,) and the family of each column."""

    x: np.ndarray
    y: np.ndarray
    families: list[Family]


def profiles(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Hidden profiles, two for each class, from which all columns follow."""
    profile = rng.integers(0, 4, n_rows)
    numbers = rng.normal(size=(4, 3))[profile] * 2.0 + rng.normal(size=(n_rows, 3))
    category = choose(rng.dirichlet(np.full(5, 0.5), 4)[profile], rng)
    answer = rng.random(n_rows) < np.array([0.1, 0.9, 0.4, 0.6])[profile]
    families = [Gaussian(), Gaussian(), Gaussian(), Categorical(5), Bernoulli()]
    return MixedTable(np.column_stack([numbers, category, answer]), profile % 2, families)


def blocks(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Two blocks of dependent columns that are independent of each other within a class."""
    y = rng.integers(0, 2, n_rows)
    left, right = rng.normal(size=n_rows) + y, rng.normal(size=n_rows) - y
    noise = rng.normal(size=(n_rows, 4))
    x = [left + 0.3 * noise[:, 0], left**2 + noise[:, 1], left > 0.5, right + 0.5 * noise[:, 2]]
    x += [np.clip(np.round(2 + right + 0.5 * noise[:, 3]), 0, 4), rng.binomial(10, 1 / (1 + np.exp(-right)))]
    families = [Gaussian(), Gaussian(), Bernoulli(), Gaussian(), Categorical(5), Binomial(10)]
    return MixedTable(np.column_stack(x), y, families)


def survey(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Answers to twelve questions, driven by one opinion, and the age of who answers."""
    opinion = rng.normal(size=n_rows)
    answers = opinion[:, None] * rng.uniform(0.5, 2.0, 12) + rng.logistic(size=(n_rows, 12))
    x = np.column_stack([answers[:, :8] > 0, np.clip(np.round(answers[:, 8:]) + 2, 0, 4), 45 + 8 * opinion])
    x[:, -1] += 10 * rng.normal(size=n_rows)
    y = (opinion + 0.5 * rng.normal(size=n_rows) > 0).astype(np.int64)
    return MixedTable(x, y, [Bernoulli()] * 8 + [Categorical(5)] * 4 + [Gaussian()])


def skewed(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Heavy tails, rare categories and scales that differ by many orders of magnitude."""
    y = choose(np.tile([0.6, 0.3, 0.1], (n_rows, 1)), rng)
    income = np.exp(rng.normal(size=n_rows) + 0.8 * y) * 1e6
    tiny = rng.gamma(1.0 + y) * 1e-6
    weights = np.array([[0.9, 0.05, 0.03, 0.02], [0.6, 0.2, 0.1, 0.1], [0.2, 0.2, 0.3, 0.3]])
    x = [income, tiny, choose(weights[y], rng), rng.random(n_rows) < 0.02 + 0.2 * y, rng.poisson(1 + y).clip(0, 12)]
    return MixedTable(np.column_stack(x), y, [Gaussian(), Gaussian(), Categorical(4), Bernoulli(), Binomial(12)])


def ring(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Two rings, one inside the other, with a category for the side and columns of noise."""
    y = rng.integers(0, 2, n_rows)
    angle = rng.uniform(0.0, 2 * np.pi, n_rows)
    radius = 1.0 + 1.5 * y + 0.2 * rng.normal(size=n_rows)
    across, up = radius * np.cos(angle), radius * np.sin(angle)
    x = [across, up, (across > 0) + 2.0 * (up > 0), rng.random(n_rows) < 0.5, rng.normal(size=n_rows)]
    return MixedTable(np.column_stack(x), y, [Gaussian(), Gaussian(), Categorical(4), Bernoulli(), Gaussian()])


def wide(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Thirty columns, of which ten tell the class and the others little or nothing."""
    y = rng.integers(0, 3, n_rows)
    numbers = rng.normal(size=(n_rows, 15)) + (np.arange(15) < 5) * y[:, None]
    answers = rng.random((n_rows, 10)) < 0.3 + 0.2 * (np.arange(10) < 3) * y[:, None]
    categories = choose(np.stack([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])[y], rng)
    noise = rng.integers(0, 6, (n_rows, 4))
    families = [Gaussian()] * 15 + [Bernoulli()] * 10 + [Categorical(3)] + [Categorical(6)] * 4
    return MixedTable(np.column_stack([numbers, answers, categories, noise]), y, families)


TABLES: tuple[Callable[[int, np.random.Generator], MixedTable], ...] = (profiles, blocks, survey, skewed, ring, wide)


def generate(
    kind: Callable[[int, np.random.Generator], MixedTable], n_rows: int, missing: float, seed: int
) -> MixedTable:
    """A table in which this share of the values is missing."""
    rng = np.random.default_rng(seed)
    x, y, families = kind(n_rows, rng)
    x = x.astype(np.float64)
    x[rng.random(x.shape) < missing] = np.nan
    return MixedTable(x, y, families)


def choose(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One category (N,) for each row of probabilities (N, K)."""
    return (rng.random((len(probabilities), 1)) > probabilities.cumsum(1)[:, :-1]).sum(1)
