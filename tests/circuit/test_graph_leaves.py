"""Leaves of graphs against the distributions they were made from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from socratic import Graph, Leaf, Product, Sum
from socratic.families import Bernoulli, Binomial, Categorical, Distribution, Gaussian

VALUES = [0.0, 1.0, 2.0, 3.0, math.nan]
DISTRIBUTIONS: list[tuple[Distribution, list[float]]] = [
    (Gaussian.of(0.5, 1e-12), [0.5, 0.5 + 1e-6, 0.5 - 3e-6, math.nan]),
    (Gaussian.of(-3.0, 1e12), [0.0, 1e6, math.nan]),
    (Bernoulli.of(0.3), [0.0, 1.0, math.nan]),
    (Bernoulli.of(0.0), [0.0, 1.0, math.nan]),
    (Bernoulli.of(1.0), [0.0, 1.0, math.nan]),
    (Categorical.of((0.2, 0.0, 0.8)), [0.0, 1.0, 2.0, math.nan]),
    (Categorical.of((1.0,)), [0.0, math.nan]),
    (Binomial.of(3, 0.4), VALUES),
    (Binomial.of(3, 0.0), VALUES),
    (Binomial.of(3, 1.0), VALUES),
    (Binomial.of(255, 0.7), [0.0, 180.0, 255.0]),
]


@pytest.mark.parametrize(("distribution", "values"), DISTRIBUTIONS, ids=[str(one[0]) for one in DISTRIBUTIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_densities_equal_the_distributions(distribution: Distribution, values: list[float], dtype: torch.dtype) -> None:
    leaf = Leaf(0, distribution)
    graph = Graph(leaf, dtype=dtype)
    expected = [leaf.log_density([float(torch.tensor(value, dtype=dtype))]) for value in values]
    x = torch.tensor(values, dtype=dtype).unsqueeze(1)
    # A value next to a mean of 0.5 has a rounded distance in float32.
    tolerance = 1e-9 if dtype == torch.float64 else 5e-2 if "1e-12" in str(distribution) else 1e-4
    np.testing.assert_allclose(graph(x).detach().flatten(), expected, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("distribution", [one for one, _ in DISTRIBUTIONS], ids=str)
def test_gradients_are_numbers(distribution: Distribution) -> None:
    other = Leaf(0, Gaussian.of(0.0, 1.0)) if distribution.family.name == "gaussian" else Leaf(0, distribution)
    graph = Graph(Sum((Leaf(0, distribution), other), (0.5, 0.5)), dtype=torch.float64)
    found = graph([[0.0], [0.0 if distribution == Categorical.of((1.0,)) else 1.0]])
    torch.nan_to_num(found, neginf=0.0).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in graph.parameters())


@pytest.mark.parametrize("distribution", [one for one, _ in DISTRIBUTIONS], ids=str)
def test_distributions_survive_a_change_of_other_parameters(distribution: Distribution) -> None:
    graph = Graph(Sum((Leaf(0, distribution), Leaf(0, distribution)), (0.5, 0.5)), dtype=torch.float64)
    with torch.no_grad():
        graph.logits[0] += 1.0
    (root,) = graph.roots
    assert isinstance(root, Sum)
    assert root.weights[0] == pytest.approx(math.e / (math.e + 1))
    leaf = root.children[0]
    assert isinstance(leaf, Leaf)
    assert leaf.distribution.parameters == {
        name: pytest.approx(value, rel=1e-9) for name, value in distribution.parameters.items()
    }


def test_values_outside_every_domain_are_refused_by_column() -> None:
    graph = Graph(Product((Leaf(0, Bernoulli.of(0.5)), Leaf(2, Categorical.of((0.5, 0.3, 0.2))))))
    with pytest.raises(ValueError, match=r"from 0 to 2 \(or NaN\) in column 2, whose leaves are categorical"):
        graph([[1.0, 17.5, 3.0]])  # the column in between has no leaves
    with pytest.raises(ValueError, match=r"0 or 1 \(or NaN\) in column 0.*got 0\.5 in row 1"):
        graph([[1.0, 0.0, 1.0], [0.5, 0.0, 1.0]])
    with pytest.raises(ValueError, match=r"x must have the shape \(rows, 3\)"):
        graph([[1.0, 0.0]])
    with pytest.raises(ValueError, match="x must be finite"):
        graph([[1.0, math.inf, 1.0]])


def test_families_that_meet_in_a_column() -> None:
    """A value is possible where it is for one of them, and impossible for the others."""
    leaves = (Leaf(0, Categorical.of((0.5, 0.5))), Leaf(0, Categorical.of((0.2, 0.3, 0.5))))
    graph = Graph(Sum(leaves, (0.4, 0.6)), dtype=torch.float64)
    assert graph([[2.0]]).exp().item() == pytest.approx(0.6 * 0.5)
    assert graph([[1.0]]).exp().item() == pytest.approx(0.4 * 0.5 + 0.6 * 0.3)
    with pytest.raises(ValueError, match="from 0 to 1 or whole numbers from 0 to 2"):
        graph([[3.0]])
