"""What is uncertain about an estimator's circuit: the moments of its likelihoods, and the posterior of its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.kinds import engine_of
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.moments import moments
from socratic.inference.posterior import Posterior
from socratic.inference.posterior_methods import class_posterior
from socratic.inference.results import Moments

WEIGHTS, DROPOUT = "weights", "dropout"
DOUBTS = (WEIGHTS, DROPOUT)
"""What estimators may doubt: weights, because finitely many rows taught them, or which children sums keep."""
ONE_PASS = "one-pass"
POSTERIORS = (ONE_PASS, "expansion", "auto", "log-moments", "monte-carlo")


def dropout_of(circuit: Circuit | Graph, rate: float, masks: Any) -> Dropout:
    """Dropout as estimators use it."""
    # Without inner sums only the class roots can drop something; in a learned graph they are sums like all others.
    root_dropout = isinstance(circuit, Graph) or not circuit.inner_layers()
    return Dropout.check(rate, masks, root_dropout)


@dataclass(frozen=True)
class Uncertain:
    """What is uncertain about a circuit.

    Attributes
    ----------
    doubt : Dropout or WeightPosterior
    leaf_variance : mapping of int to float, optional
        Relative variances of the densities of columns, by their numbers.
    """

    doubt: Doubt
    leaf_variance: Mapping[int, float] | None = None

    @torch.no_grad()
    def moments(self, circuit: Circuit | Graph, x: Tensor) -> Moments:
        """Mean and covariance of p(x | class)."""
        return moments(circuit, x, self.doubt, leaf_variance=self.leaf_variance)

    @torch.no_grad()
    def posterior(self, name: Any, circuit: Circuit | Graph, x: Tensor, class_prior: Sequence[float]) -> Posterior:
        """The class posterior, by one of ``POSTERIORS``.

        One pass is that of log-moments for weights, and of exact moments, expanded, for dropout. Samples take the place
        of moments that cost too much; with "auto" also for rows on which log-moments are not accurate. Uncertain
        columns cannot be sampled: "auto" then keeps log-moments, and takes the expansion where there are none.
        """
        method = self._method(name, circuit, x)
        if method == "expansion":
            found = self.moments(circuit, x)
            if found.method != "bounds":
                return found.posterior(class_prior)
            if self.leaf_variance is not None:
                raise ValueError(
                    "leaf_variance is not possible here: exact moments of this circuit would cost too much "
                    f"({found.reason}), and samples, which take their place, know no uncertain columns; set it to 0, "
                    "or use structure='random' or 'learnspn'"
                )
            method = "auto"
        return class_posterior(
            circuit, x, self.doubt, method=method, class_prior=class_prior, leaf_variance=self.leaf_variance
        )

    def _method(self, name: Any, circuit: Circuit | Graph, x: Tensor) -> Any:
        """The method of :func:`~socratic.class_posterior` that is meant."""
        if name == ONE_PASS and isinstance(self.doubt, Dropout):
            return "expansion"
        if name not in (ONE_PASS, "auto"):
            return name
        engine = engine_of(circuit)
        leaves = LeafUncertainty.check(engine, x[:0], self.leaf_variance, None)
        if engine.no_log_moments(self.doubt, leaves=leaves.relative) is None:
            return "log-moments" if name == ONE_PASS else name
        return "expansion" if leaves.uncertain else "auto"
