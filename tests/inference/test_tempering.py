"""The worth of a visit: the rule, and what it chooses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Sum, WeightPosterior
from socratic.families import Gaussian


def two_classes() -> tuple[Graph, WeightPosterior]:
    """Classes that lie apart, and a child of the wrong class that each root hardly uses."""
    left, right = (Leaf(0, Gaussian.of(mean, 1.0)) for mean in (-3.0, 3.0))
    graph = Graph((Sum((left, right), (0.99, 0.01)), Sum((left, right), (0.01, 0.99))), dtype=torch.float64)
    return graph, WeightPosterior((torch.tensor([1000.0, 1000.0], dtype=torch.float64),))


def test_what_makes_no_difference_leaves_the_most_doubt() -> None:
    graph, posterior = two_classes()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 40)
    x = (6.0 * y - 3.0 + rng.normal(size=40))[:, None]
    assert socratic.temper(graph, posterior, x, y).worth == 0.1
    assert socratic.temper(graph, posterior, x, y, worths=[1.0, 0.5]).worth == 0.5
    assert socratic.temper(graph, posterior, x, y).visits is posterior.visits


def test_what_spoils_predictions_is_not_chosen() -> None:
    """Two rows in three of a leaf are of the class that has all of it; doubt in the other's share of it says more."""
    left, right = (Leaf(0, Gaussian.of(mean, 1.0)) for mean in (-3.0, 3.0))
    graph = Graph((Sum((left, right), (0.99, 0.01)), Sum((left, right), (0.5, 0.5))), dtype=torch.float64)
    posterior = WeightPosterior((torch.tensor([1000.0, 1000.0], dtype=torch.float64),), prior_strength=0.1)
    y = np.arange(6000) % 3 == 0
    x = np.full((6000, 1), -3.0)
    assert socratic.temper(graph, posterior, x, y.astype(int), worths=[0.0, 1.0]).worth == 1.0


def test_too_little_to_choose_by_is_refused() -> None:
    graph, posterior = two_classes()
    with pytest.raises(ValueError, match="worths must hold at least one number"):
        socratic.temper(graph, posterior, [[0.0], [1.0]], [0, 1], worths=[])
    with pytest.raises(ValueError, match="x must hold at least two rows to choose by; got 1"):
        socratic.temper(graph, posterior, [[0.0]], [0])
