from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats
from socratic.inference.queries import sample

import socratic
from socratic.families import Binomial, Categorical


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_samples_have_the_circuits_probabilities(product: str) -> None:
    """Chi-square over all states of a small discrete circuit, class by class."""
    leaf = ["bernoulli", Categorical(3), Binomial(2)]
    circuit = socratic.rat_spn(
        3, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=2, leaf=leaf, product=product
    ).double()
    states = np.array(list(itertools.product(range(2), range(3), range(3))))
    n = 6000
    for class_index in range(2):
        rows = sample(circuit, n, class_index=class_index, seed=1).x.numpy()
        counts = [(rows == state).all(1).sum() for state in states]
        expected = circuit.log_likelihood(states)[:, class_index].exp().detach().numpy() * n
        assert stats.chisquare(counts, expected / expected.sum() * n).pvalue > 1e-3


def test_gaussian_samples_follow_the_marginals() -> None:
    circuit = socratic.rat_spn(3, 1, n_sums=3, n_leaves=3, depth=2, n_repetitions=2).double()
    rows = sample(circuit, 4000, seed=2).x.numpy()
    grid = np.linspace(-8, 8, 2001)
    for variable in range(3):
        x = np.full((len(grid), 3), np.nan)
        x[:, variable] = grid
        density = circuit.log_likelihood(x).exp().detach().numpy()[:, 0]
        cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
        result = stats.kstest(rows[:, variable], lambda v, c=cumulative: np.interp(v, grid, c))
        assert result.pvalue > 1e-3


def test_samples_depend_on_the_seed_alone() -> None:
    circuit = socratic.rat_spn(5, 2, n_sums=2, n_leaves=2, depth=2)
    assert torch.equal(sample(circuit, 4, seed=3).x, sample(circuit, 4, seed=3).x)
    assert not torch.equal(sample(circuit, 4, seed=3).x, sample(circuit, 4, seed=4).x)
    assert sample(circuit, 0).x.shape == (0, 5)
    assert sample(circuit, 3, class_index=torch.tensor([0, 1, 1])).x.shape == (3, 5)
    with pytest.raises(ValueError, match="class_index must be between 0 and 1; got 2"):
        sample(circuit, 3, class_index=2)
