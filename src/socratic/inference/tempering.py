"""How much doubt a circuit can bear: as much as does no harm to its answers on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.posterior_methods import class_posterior
from socratic.inference.visits import check_labels
from socratic.inference.weight_posterior import WeightPosterior

WORTHS = (1.0, 1.0 / 3.0, 0.1)
"""What a visit may be worth, by default."""
DROPOUT_RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Rates of dropout inference among which estimators choose."""
_SMALLEST = 1e-6

Choice = TypeVar("Choice")


def log_losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Log-loss (N,) of class probabilities (N, C): at most that of one in a million, so that no single row decides."""
    return -np.log(np.maximum(probabilities[np.arange(len(labels)), labels], _SMALLEST))


def most_doubt(
    choices: Sequence[Choice],
    posterior: Callable[[Choice], np.ndarray],
    labels: np.ndarray,
    weights: np.ndarray,
) -> Choice:
    """Of ways to doubt, the last that predicts held-out rows as well as any other does.

    As well: the log-loss of its mean posterior lies within a standard error of the best. What makes no difference to
    known rows leaves the more doubt for others.

    Parameters
    ----------
    choices : sequence
        From the least to the most doubt.
    posterior : callable
        The mean class probabilities (N, C) of the rows under a choice.
    labels, weights : np.ndarray (N,)
        Class numbers of the rows, and how much each weighs.
    """
    share = weights / weights.sum()
    losses = [log_losses(posterior(choice), labels) for choice in choices]
    means = [float(share @ loss) for loss in losses]
    best = int(np.argmin(means))
    spread = float(np.sqrt(share @ (losses[best] - means[best]) ** 2 * (share @ share)))
    return [choice for choice, mean in zip(choices, means, strict=True) if mean <= means[best] + spread][-1]


@torch.no_grad()
def temper(
    circuit: Circuit | Graph,
    posterior: WeightPosterior,
    x: Any,
    y: Any,
    *,
    worths: Sequence[float] = WORTHS,
    class_prior: Sequence[float] | Tensor | None = None,
) -> WeightPosterior:
    """The widest weight posterior that predicts held-out rows as well as any.

    Training rows that use one sum are not independent draws of its weights, so that a visit can be worth less than a
    row. Of all worths whose log-loss on the held-out rows lies within a standard error of the best, the smallest is
    taken: what makes no difference to known rows leaves the more doubt for others.

    Parameters
    ----------
    circuit : Circuit or Graph
    posterior : WeightPosterior
        Of its training rows.
    x : array-like (N, V)
        Rows that were not trained on.
    y : array-like (N,)
        The number of each row's class, from 0.
    worths : sequence of float
        Among which to choose. Below a tenth little is gained: doubt grows everywhere alike.
    class_prior : (C,), optional
        Prior class probabilities; uniform by default.

    Returns
    -------
    WeightPosterior
        The same visits and prior strength, with the worth that was chosen.
    """
    if not len(worths):
        raise ValueError("worths must hold at least one number")
    if len(x) < 2:
        raise ValueError(f"x must hold at least two rows to choose by; got {len(x)}")
    labels = check_labels(y, len(x), circuit.n_classes).numpy()

    def mean(doubt: WeightPosterior) -> np.ndarray:
        return class_posterior(circuit, x, doubt, class_prior=class_prior).mean.double().cpu().numpy()

    tried = [posterior.tempered(worth=worth) for worth in sorted(worths, reverse=True)]
    return most_doubt(tried, mean, labels, np.ones(len(labels)))
