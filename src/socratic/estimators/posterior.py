"""What is random about an estimator's circuit: the moments of its likelihoods, and the posterior of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Randomness:
    """What is random about a circuit.

    Attributes
    ----------
    dropout : float
    masks : str
        Rate and kind of the masks that drop children from its sums.
    leaf_variance : mapping of int to float, optional
        Relative variances of the densities of columns, by their numbers.
    """

    dropout: float
    masks: Any
    leaf_variance: Mapping[int, float] | None = None

    def settings(self, circuit: Circuit | Graph) -> dict[str, Any]:
        """The same as arguments of the library's functions."""
        # Without inner sums only the class roots can drop something; in a learned graph they are sums like all others.
        root_dropout = isinstance(circuit, Graph) or not circuit.inner_layers()
        return {
            "dropout": self.dropout,
            "masks": self.masks,
            "leaf_variance": self.leaf_variance,
            "root_dropout": root_dropout,
        }


@torch.no_grad()
def circuit_moments(circuit: Circuit | Graph, x: Tensor, randomness: Randomness) -> Moments:
    """Mean and covariance of p(x | class)."""
    return tdi(circuit, x, **randomness.settings(circuit))


@torch.no_grad()
def circuit_posterior(
    name: Any, circuit: Circuit | Graph, x: Tensor, randomness: Randomness, class_prior: Sequence[float]
) -> Posterior:
    """The class posterior, by one of ``POSTERIORS``.

    With "auto" sampled masks take the place of log-moments for rows on which these are not accurate, and for graphs;
    with "expansion" for graphs whose exact moments would cost too much. Uncertain columns cannot be sampled: with
    "auto" a circuit then keeps its log-moments, and a graph takes the expansion.
    """
    uncertain = randomness.leaf_variance is not None
    if name == "expansion" or (name == "auto" and uncertain and isinstance(circuit, Graph)):
        moments = circuit_moments(circuit, x, randomness)
        if moments.method != "bounds":
            return moments.posterior(class_prior)
        if uncertain:
            raise ValueError(
                "leaf_variance is not possible here: exact moments of this circuit would cost too much "
                f"({moments.reason}), and sampled masks, which take their place, know no uncertain columns; set it to "
                "0, or use structure='random' or 'learnspn'"
            )
        name = "auto"
    return dropout_posterior(circuit, x, method=name, class_prior=class_prior, **randomness.settings(circuit))
