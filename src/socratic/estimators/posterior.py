"""Dropout inference in an estimator's circuit: the moments of its likelihoods, and the posterior of its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.moments import tdi
from socratic.inference.posterior import Posterior
from socratic.inference.posterior_methods import PosteriorMethod, dropout_posterior
from socratic.inference.results import Moments

POSTERIORS: tuple[PosteriorMethod, ...] = ("expansion", "auto", "log-moments", "monte-carlo")


@torch.no_grad()
def circuit_moments(circuit: Circuit | Graph, x: Tensor, *, dropout: float, masks: Any) -> Moments:
    """Mean and covariance of p(x | class) over dropout masks."""
    return tdi(circuit, x, dropout=dropout, masks=masks, root_dropout=_roots_drop(circuit))


@torch.no_grad()
def circuit_posterior(
    name: Any,
    circuit: Circuit | Graph,
    x: Tensor,
    *,
    dropout: float,
    masks: Any,
    class_prior: Sequence[float],
) -> Posterior:
    """The class posterior over dropout masks, by one of ``POSTERIORS``.

    With "auto" sampled masks take the place of log-moments for rows on which these are not accurate, and for graphs;
    with "expansion" for graphs whose exact moments would cost too much.
    """
    if name == "expansion":
        moments = circuit_moments(circuit, x, dropout=dropout, masks=masks)
        if moments.method != "bounds":
            return moments.posterior(class_prior)
    return dropout_posterior(
        circuit,
        x,
        dropout=dropout,
        masks=masks,
        method="auto" if name == "expansion" else name,
        class_prior=class_prior,
        root_dropout=_roots_drop(circuit),
    )


def _roots_drop(circuit: Circuit | Graph) -> bool:
    # Without inner sums only the class roots have something to drop; in a learned graph they are sums like all others.
    return isinstance(circuit, Graph) or not circuit.inner_layers()
