"""Kernels: a density around every row, nothing of it trained."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from socratic.circuit.circuit import Circuit
from socratic.families import Bernoulli, Categorical, Gaussian
from socratic.learning.structure import divided_kernels, kernel_circuit

FAMILIES = [Gaussian(), Categorical(3), Bernoulli()]


def table(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    x = np.column_stack([rng.normal(2.0 * y, 0.5), (y + rng.integers(2, size=n)) % 3, rng.random(n) < 0.3 + 0.4 * y])
    x[rng.random(x.shape) < 0.1] = np.nan
    return x.astype(float), y


def test_density_of_each_class_integrates_to_one() -> None:
    x, y = table()
    circuit = kernel_circuit(x, y, FAMILIES, 2)
    grid = np.linspace(-12.0, 14.0, 4001)
    total = np.zeros(2)
    for category, bit in itertools.product(range(3), range(2)):
        rows = np.column_stack([grid, np.full_like(grid, category), np.full_like(grid, bit)])
        total += np.exp(circuit.log_likelihood(torch.as_tensor(rows)).detach().numpy()).sum(0) * (grid[1] - grid[0])
    assert np.allclose(total, 1.0, atol=1e-6)


def test_classes_are_the_means_of_kernels_of_their_own_rows() -> None:
    x, y = table()
    circuit = kernel_circuit(x, y, FAMILIES, 2)
    leaves = circuit.leaves.log_density(torch.as_tensor(x))[0].detach().numpy()  # (K, N)
    for label in range(2):
        expected = np.log(np.exp(leaves[y == label]).mean(0))
        assert np.allclose(circuit.log_likelihood(torch.as_tensor(x)).detach().numpy()[:, label], expected)


def test_weights_count_as_rows() -> None:
    x, y = table()
    weight = np.random.default_rng(1).integers(1, 4, size=len(x)).astype(float)
    circuit = kernel_circuit(x, y, FAMILIES, 2, weight)
    leaves = circuit.leaves.log_density(torch.as_tensor(x))[0].detach().numpy()
    expected = np.log(np.average(np.exp(leaves[y == 1]), axis=0, weights=weight[y == 1]))
    assert np.allclose(circuit.log_likelihood(torch.as_tensor(x)).detach().numpy()[:, 1], expected)


def test_rows_next_to_training_rows_are_likelier_than_rows_between_them() -> None:
    x = np.concatenate([np.random.default_rng(0).normal(-3.0, 0.1, (50, 2)), [[3.0, 3.0]] * 3])
    circuit = kernel_circuit(x, np.zeros(len(x), dtype=int), [Gaussian()] * 2, 1)
    near, between = circuit.log_likelihood(torch.tensor([[-3.0, -3.0], [0.0, 0.0]], dtype=torch.float64)).tolist()
    assert near[0] > between[0] + 10.0


def test_few_of_many_rows_keep_every_class() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 2))
    y = (np.arange(1000) == 999).astype(int)
    circuit = kernel_circuit(x, y, [Gaussian()] * 2, 2, most=50)
    assert circuit.leaves.n_nodes == 51
    assert np.isfinite(circuit.log_likelihood(torch.as_tensor(x)).detach().numpy()).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_rows(n: int) -> None:
    x = np.arange(2.0 * n).reshape(n, 2)
    circuit = kernel_circuit(x, np.zeros(n, dtype=int), [Gaussian()] * 2, 1)
    assert np.isfinite(circuit.log_likelihood(torch.as_tensor(x)).detach().numpy()).all()


def test_copies_and_columns_without_values() -> None:
    x = np.column_stack([np.zeros(30), np.full(30, np.nan)])
    circuit = kernel_circuit(x, np.zeros(30, dtype=int), [Gaussian()] * 2, 1)
    assert np.isfinite(circuit.log_likelihood(torch.as_tensor([[0.0, 1.0]])).detach().numpy()).all()


def test_parts_are_densities_of_their_own_rows() -> None:
    x, _ = table()
    circuit = divided_kernels(x, FAMILIES)
    (root,) = circuit.root_branches()
    shares = torch.exp(torch.log_softmax(root.logits[0], 1))
    assert shares.shape == (2, 60)
    assert ((shares > 0).sum(0) == 1).all()
    assert (shares > 0).sum(1).tolist() == [30, 30]


def test_a_clump_counts_for_little_in_parts() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(285, 3)), rng.normal(5.0, 0.05, size=(15, 3))])
    whole = kernel_circuit(x, np.zeros(300, dtype=int), [Gaussian()] * 3, 1)
    parts = divided_kernels(x, [Gaussian()] * 3)

    def likelihood(circuit: Circuit) -> np.ndarray:
        return circuit.log_likelihood(torch.as_tensor(x)).detach().numpy().mean(1)

    assert np.median(likelihood(whole)[285:]) > np.median(likelihood(whole)[:285])
    assert likelihood(parts)[285:].max() < np.quantile(likelihood(parts)[:285], 0.05)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_parts_of_hardly_any_rows(n: int) -> None:
    x = np.arange(2.0 * n).reshape(n, 2)
    circuit = divided_kernels(x, [Gaussian()] * 2)
    assert np.isfinite(circuit.log_likelihood(torch.as_tensor(x)).detach().numpy()).all()
