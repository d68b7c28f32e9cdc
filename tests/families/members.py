"""Members and data of any family, for tests that every family has to pass."""

from __future__ import annotations

import numpy as np
import torch

from socratic.families import (
    FAMILIES,
    Binomial,
    Categorical,
    Distribution,
    Family,
    Gaussian,
    Histogram,
    Parameters,
    StudentT,
)

NAMES = sorted(FAMILIES)
VARIANTS: list[Family] = [
    *(FAMILIES[name]() for name in NAMES),
    Gaussian(min_variance=0.01, max_variance=2.0),
    Gaussian(min_variance=0.0, max_variance=None),
    Categorical(4),
    Binomial(9),
    StudentT(degrees=30.0, min_scale=0.0),
    Histogram(3, low=-2.0, high=5.0),
]
"""Every family with its default settings, and some with others."""
SOME = tuple(np.linspace(0.02, 0.98, 25))


def random_parameters(family: Family, n_leaves: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Parameters (n,) or (n, ...) of random leaves, in float64."""
    parameters = {name: value.double() for name, value in family.initial_parameters(1, n_leaves).items()}
    family.reset_parameters(parameters, torch.Generator().manual_seed(seed))
    return {name: value[0] for name, value in parameters.items()}


def random_members(family: Family, n_leaves: int, seed: int = 0) -> list[Distribution]:
    """The same leaves as distributions."""
    return family.distributions(random_parameters(family, n_leaves, seed))


def is_discrete(family: Family) -> bool:
    """Whether values are whole numbers."""
    return bool(family.invalid(torch.tensor([0.5])))


def quantiles(family: Family, parameters: Parameters, probabilities: tuple[float, ...] = SOME) -> torch.Tensor:
    """Quantiles (n, k) of n leaves at k probabilities."""
    n_leaves = len(next(iter(parameters.values())))
    columns = [
        family.quantile(parameters, torch.full((n_leaves,), p, dtype=torch.float64)).double() for p in probabilities
    ]
    return torch.stack(columns, dim=1)


def draw(distribution: Distribution, n_rows: int, seed: int = 0) -> np.ndarray:
    """Values (N,) drawn from a distribution."""
    family = distribution.family
    parameters = {
        name: value.expand(n_rows, *value.shape[1:])
        for name, value in family.from_plain([distribution.parameters]).items()
    }
    chances = torch.as_tensor(np.random.default_rng(seed).random(n_rows))
    return family.quantile(parameters, chances).double().numpy()


def two_clusters(family: Family, n_rows: int, n_columns: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, V) of two clusters, each column drawn from one of two members of the family, and the clusters (N,)."""
    leaves = random_members(family, 2 * n_columns, seed)
    cluster = np.random.default_rng(seed).integers(0, 2, n_rows)
    columns = []
    for column in range(n_columns):
        members = leaves[2 * column : 2 * column + 2]
        values = np.stack([draw(member, n_rows, seed + 10 * column + k) for k, member in enumerate(members)])
        columns.append(values[cluster, np.arange(n_rows)])
    return np.stack(columns, axis=1), cluster
