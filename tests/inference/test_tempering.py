"""How much doubt is chosen: the rule, and what it makes of the worth of a visit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Sum, WeightPosterior
from socratic.families import Gaussian
from socratic.inference.tempering import DROPOUT_RATES, most_doubt

LABELS = np.tile([0, 1], 50)


def posterior_of(right: dict[float, float], rate: float) -> np.ndarray:
    share = np.full(len(LABELS), right[rate]) + 0.01 * np.sin(np.arange(len(LABELS)))
    return np.where(LABELS[:, None] == np.arange(2), share[:, None], 1.0 - share[:, None])


def test_the_most_doubt_that_does_no_harm() -> None:
    right = dict(zip(DROPOUT_RATES, (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.6, 0.5), strict=True))
    assert most_doubt(DROPOUT_RATES, lambda rate: posterior_of(right, rate), LABELS, np.ones(100)) == 0.1


def test_more_doubt_that_helps() -> None:
    right = dict(zip(DROPOUT_RATES, (0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.8, 0.9), strict=True))
    assert most_doubt(DROPOUT_RATES, lambda rate: posterior_of(right, rate), LABELS, np.ones(100)) == 0.3


def test_the_last_choice_wins_whatever_the_choices_are() -> None:
    choices = ("some", "more", "most")
    assert most_doubt(choices, lambda _: np.full((100, 2), 0.5), LABELS, np.ones(100)) == "most"
    assert most_doubt(choices[:1], lambda _: np.full((100, 2), 0.5), LABELS, np.ones(100)) == "some"


def test_weights_of_rows_count() -> None:
    """Rows of weight 0 have no say."""

    def mean(rate: float) -> np.ndarray:
        share = np.where(LABELS == 0, 0.9, 0.1 if rate > 0.05 else 0.8)
        return np.where(LABELS[:, None] == np.arange(2), share[:, None], 1.0 - share[:, None])

    assert most_doubt(DROPOUT_RATES, mean, LABELS, np.ones(100)) == 0.05
    assert most_doubt(DROPOUT_RATES, mean, LABELS, (LABELS == 0).astype(float)) == 0.3


def test_an_impossible_class_is_no_infinite_loss() -> None:
    certain = np.eye(2)[1 - LABELS]
    assert most_doubt(DROPOUT_RATES, lambda _: certain, LABELS, np.ones(100)) == max(DROPOUT_RATES)


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
