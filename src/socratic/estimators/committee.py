"""What answers for the classes: several circuits together, or the trees of a forest; the average of what each says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.forest import Forest
from socratic.circuit.graph import Graph
from socratic.estimators.posterior import Uncertain, dropout_of
from socratic.inference.forest import TreeAnswers, cell_doubt, forest_posterior, forest_shares, tree_answers
from socratic.inference.kinds import engine_of
from socratic.inference.posterior import Posterior, class_shares
from socratic.inference.weight_posterior import WeightPosterior
from socratic.learning.structure.forest import PRIOR_STRENGTH
from socratic.memory import table_rows

NO_DROPOUT = (
    "doubt='dropout' is for circuits with sums to drop from, and structure='forest' asks the cells of trees; use "
    "structure='random', or doubt='weights'"
)


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

    answers_by_mean: ClassVar[bool] = False
    """Whether the class probabilities are the mean of :meth:`posterior`."""

    circuits: tuple[Circuit | Graph, ...]
    weight_posteriors: tuple[WeightPosterior, ...]

    @torch.no_grad()
    def log_joints(self, x: Tensor, log_prior: Tensor) -> Tensor:
        """log p(x, class) of rows (N, V), by each: (K, N, C)."""
        return torch.stack([circuit.log_likelihood(x) for circuit in self.circuits]) + log_prior

    def shares(self, x: Tensor, log_prior: Tensor, log_joints: Tensor | None = None) -> Tensor:
        """Class probabilities (N, C) of rows (N, V); ``log_joints`` (K, N, C) if they are known."""
        known = self.log_joints(x, log_prior) if log_joints is None else log_joints
        return torch.stack([class_shares(log_joint, log_prior) for log_joint in known]).mean(0)

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


@dataclass(frozen=True, eq=False)
class ForestCommittee:
    """The trees of a forest, which answer for the classes, beside a circuit that knows what rows look like.

    Attributes
    ----------
    forest : Forest
    circuit : Circuit or Graph
        Of the same rows and classes: its density says how familiar a row is.
    weight_posteriors : tuple of WeightPosterior
        The distribution of the class probabilities of the cells: one for all trees.
    """

    answers_by_mean: ClassVar[bool] = True

    forest: Forest
    circuit: Circuit | Graph
    weight_posteriors: tuple[WeightPosterior, ...]

    @classmethod
    def of(cls, forest: Forest, circuit: Circuit | Graph) -> ForestCommittee:
        """With the strengths that the rows of each cell give it."""
        return cls(forest, circuit, (WeightPosterior((torch.as_tensor(forest.count),), PRIOR_STRENGTH),))

    @torch.no_grad()
    def log_joints(self, x: Tensor, log_prior: Tensor) -> Tensor:
        """log p(x, class) of rows (N, V) by the circuit: (1, N, C)."""
        return self.circuit.log_likelihood(x).unsqueeze(0) + log_prior

    def shares(self, x: Tensor, log_prior: Tensor, _log_joints: Tensor | None = None) -> Tensor:
        """Class probabilities (N, C) of rows (N, V), by the trees."""
        prior = np.exp(log_prior.double().cpu().numpy())
        parts = self._ask(x, self.weight_posteriors[0])
        return torch.as_tensor(np.concatenate([forest_shares(self.forest, part, prior) for part in parts]))

    def posterior(
        self,
        method: Any,  # noqa: ARG002 - there is one
        x: Tensor,
        log_joints: Tensor,  # noqa: ARG002 - of circuits
        doubts: Sequence[Any],
        leaf_variance: Mapping[int, float] | None,  # noqa: ARG002 - refused before
        class_prior: Sequence[float],
    ) -> Posterior:
        """The class posterior of rows (N, V) over the trees, and over what is in doubt of their cells."""
        (doubt,) = doubts
        parts = self._ask(x, doubt)
        return Posterior.concatenate([forest_posterior(self.forest, part, np.asarray(class_prior)) for part in parts])

    def dropping(self, rate: float, masks: Any) -> list[Any]:  # noqa: ARG002 - of circuits
        """Raise ``ValueError``: a forest has nothing to drop."""
        raise ValueError(NO_DROPOUT)

    def _ask(self, x: Tensor, doubt: WeightPosterior) -> Iterator[TreeAnswers]:
        """What the trees say of rows (N, V), some of them at a time."""
        of_cells = cell_doubt(self.forest, worth=doubt.worth, prior_strength=doubt.prior_strength)
        for part in x.split(table_rows(3 * self.forest.n_trees * self.forest.n_classes)):
            rows = part.double().cpu().numpy()
            yield tree_answers(self.forest, rows, of_cells)

    def check(self) -> None:
        """Raise ``ValueError`` unless the parts that a model file gave fit together."""
        self.forest.check()
        n_columns = len(self.forest.numbers) + len(self.forest.categories)
        if (n_columns, self.forest.n_classes) != (self.circuit.n_features, self.circuit.n_classes):
            raise ValueError("its forest does not fit its circuit")
