"""How much a visit is worth: chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.posterior_methods import class_posterior
from socratic.inference.visits import check_labels
from socratic.inference.weight_posterior import WeightPosterior

WORTHS = (1.0, 1.0 / 3.0, 0.1)
"""What a visit may be worth, by default."""


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
    row. The score of a worth is the mean of log p(class | x) over the held-out rows, for their own classes and averaged
    over the weights. Of all worths whose score is at most one standard error of the best below the best, the smallest
    is taken: what makes no difference to known rows leaves the more doubt for others.

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
    tried = [posterior.tempered(worth=worth) for worth in sorted(worths)]
    scores = [_log_scores(circuit, doubt, x, y, class_prior) for doubt in tried]
    best = max(scores, key=lambda score: float(score.mean()))
    least = float(best.mean() - best.std() / len(best) ** 0.5)
    return next(doubt for doubt, score in zip(tried, scores, strict=True) if float(score.mean()) >= least)


def _log_scores(
    circuit: Circuit | Graph, doubt: WeightPosterior, x: Any, y: Any, class_prior: Sequence[float] | Tensor | None
) -> Tensor:
    """log p(class | x) of each row's own class, in float64: (N,)."""
    mean = class_posterior(circuit, x, doubt, class_prior=class_prior).mean.double()
    classes = check_labels(y, len(mean), circuit.n_classes).to(mean.device)
    if len(mean) < 2:
        raise ValueError(f"x must hold at least two rows to choose by; got {len(mean)}")
    return torch.log(mean.gather(1, classes.unsqueeze(1)).squeeze(1).clamp_min(torch.finfo(torch.float32).tiny))
