"""The rate of dropout inference: as much doubt as does no harm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

DROPOUT_RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""The rates that are tried."""
_SMALLEST = 1e-6


def choose_rate(posterior: Callable[[float], np.ndarray], labels: np.ndarray, weights: np.ndarray) -> float:
    """The largest rate whose mean posterior predicts held-out rows as well as any other does.

    As well: its log-loss lies within a standard error of the best.

    Parameters
    ----------
    posterior : callable
        The mean class probabilities (N, C) of the rows at a rate.
    labels : np.ndarray (N,)
        Class numbers of the rows.
    weights : np.ndarray (N,)
        Of the rows.
    """
    share = weights / weights.sum()
    places = np.arange(len(labels))
    losses = {rate: -np.log(np.maximum(posterior(rate)[places, labels], _SMALLEST)) for rate in DROPOUT_RATES}
    means = {rate: float(share @ loss) for rate, loss in losses.items()}
    best = min(means, key=lambda rate: means[rate])
    spread = float(np.sqrt(share @ (losses[best] - means[best]) ** 2 * (share @ share)))
    return max(rate for rate in DROPOUT_RATES if means[rate] <= means[best] + spread)
