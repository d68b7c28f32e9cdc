from __future__ import annotations

import numpy as np
from socratic.uncertainty.rates import DROPOUT_RATES, choose_rate

LABELS = np.tile([0, 1], 50)


def posterior(right: dict[float, float], rate: float) -> np.ndarray:
    share = np.full(len(LABELS), right[rate]) + 0.01 * np.sin(np.arange(len(LABELS)))
    return np.where(LABELS[:, None] == np.arange(2), share[:, None], 1.0 - share[:, None])


def test_the_largest_rate_that_does_no_harm() -> None:
    right = dict(zip(DROPOUT_RATES, (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.6, 0.5), strict=True))
    assert choose_rate(lambda rate: posterior(right, rate), LABELS, np.ones(100)) == 0.1


def test_a_larger_rate_that_helps() -> None:
    right = dict(zip(DROPOUT_RATES, (0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.8, 0.9), strict=True))
    assert choose_rate(lambda rate: posterior(right, rate), LABELS, np.ones(100)) == 0.3


def test_weights_count() -> None:
    """Rows of weight 0 have no say."""

    def mean(rate: float) -> np.ndarray:
        share = np.where(LABELS == 0, 0.9, 0.1 if rate > 0.05 else 0.8)
        return np.where(LABELS[:, None] == np.arange(2), share[:, None], 1.0 - share[:, None])

    assert choose_rate(mean, LABELS, np.ones(100)) == 0.05
    assert choose_rate(mean, LABELS, (LABELS == 0).astype(float)) == 0.3


def test_an_impossible_class_is_no_infinite_loss() -> None:
    certain = np.eye(2)[1 - LABELS]
    assert choose_rate(lambda rate: certain, LABELS, np.ones(100)) == max(DROPOUT_RATES)
