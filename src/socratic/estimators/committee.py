"""Several circuits that answer together: the average of what each says of the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.estimators.posterior import Uncertain, dropout_of
from socratic.inference.kinds import engine_of
from socratic.inference.posterior import Posterior, class_shares
from socratic.inference.weight_posterior import WeightPosterior


@dataclass(frozen=True, eq=False)
class Committee:
    """Circuits of which each is as right about the classes of a row as any other.

    Under the sum that joins them, the circuit with the highest density would speak alone, row by row: densities differ
    by many nats. So their class posteriors are averaged instead, and where they disagree that is one more doubt.

    Attributes
    ----------
    circuits : tuple of Circuit or Graph
        K of them.
    weight_posteriors : tuple of WeightPosterior
        The distribution of the weights of each.
    """

    circuits: tuple[Circuit | Graph, ...]
    weight_posteriors: tuple[WeightPosterior, ...]

    @torch.no_grad()
    def log_joints(self, x: Tensor, log_prior: Tensor) -> Tensor:
        """log p(x, class) of rows (N, V), by each: (K, N, C)."""
        return torch.stack([circuit.log_likelihood(x) for circuit in self.circuits]) + log_prior

    def shares(self, log_joints: Tensor, log_prior: Tensor) -> Tensor:
        """Class probabilities (N, C), from log p(x, class) by each (K, N, C)."""
        return torch.stack([class_shares(log_joint, log_prior) for log_joint in log_joints]).mean(0)

    def tempered(self, worth: float) -> Committee:
        """With another worth of a visit."""
        return Committee(self.circuits, tuple(each.tempered(worth=worth) for each in self.weight_posteriors))

    def dropping(self, rate: float, masks: Any) -> list[Any]:
        """Dropout of each circuit."""
        return [dropout_of(circuit, rate, masks) for circuit in self.circuits]

    def posterior(
        self,
        method: Any,
        x: Tensor,
        log_joints: Tensor,
        doubts: Sequence[Any],
        leaf_variance: Mapping[int, float] | None,
        class_prior: Sequence[float],
    ) -> Posterior:
        """The class posterior of rows (N, V) over what is in doubt of each circuit, and over the circuits.

        Parameters
        ----------
        method : str
            One of ``POSTERIORS``.
        x : Tensor (N, V)
        log_joints : Tensor (K, N, C)
            Of the same rows.
        doubts : sequence of Dropout or WeightPosterior
            What is in doubt of each circuit.
        leaf_variance, class_prior
            As for :class:`Uncertain`.
        """
        parts = [
            Uncertain(doubt, leaf_variance).posterior(method, circuit, x, class_prior)
            for circuit, doubt in zip(self.circuits, doubts, strict=True)
        ]
        return Posterior.average(parts, torch.logsumexp(log_joints, -1))

    def check(self) -> None:
        """Raise ``ValueError`` unless the parts that a model file gave fit together."""
        for circuit, posterior in zip(self.circuits, self.weight_posteriors, strict=True):
            posterior.check_shapes(engine_of(circuit).sum_shapes)
