"""The engine: what a query needs from a circuit, whatever kind of circuit it is.

Every query is written once, over this interface, and every kind of circuit implements it once
(:mod:`socratic.inference.layered`, :mod:`socratic.inference.graph`). Queries check arguments, cut rows into chunks and
make results; engines evaluate chunks of checked rows (N, V). What is uncertain is an argument
(:data:`~socratic.inference.doubt.Doubt`, and the uncertainty of leaves), what a kind of circuit cannot do is a reason
in words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.leaf_set import LeafValue
from socratic.draws import RowMasks
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.passes import Shape
from socratic.inference.posterior import Posterior
from socratic.inference.results import CovarianceKind, Method
from socratic.inference.weight_posterior import WeightPosterior

Kind = Literal["marginal", "max", "bound"]
"""What goes up: missing values integrated out; the best tree with missing values at their leaves' modes; or, as
a bound of every completion, all trees with missing values at their leaves' modes."""

Select = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Chooses one of K terms, given as logarithms (M, K), for each of M sums: (M,).

It is also given the draw (M,) that each choice belongs to and its place (M,) in the circuit, a number above 0 that no
other choice of that draw has.
"""


class Evaluation(Protocol):
    """A circuit evaluated on some rows, with the values of all nodes kept for the way down.

    Sampling and most probable rows select one child of every sum they meet; expectations split their share among all
    children. Either way ends at leaves, which give the values of the missing variables.
    """

    log_roots: Tensor
    """Values (N, C) of the class roots, as logarithms."""

    def complete(self, row: Tensor, classes: Tensor, select: Select, value: LeafValue) -> Tensor:
        """Walk down from chosen classes and fill in what is missing.

        Parameters
        ----------
        row, classes : Tensor (D,)
            Number of the row, and the class to start from; its root must not be dead in that row.
        select : callable
            Which child a sum passes on to.
        value : callable
            What a leaf fills in.

        Returns
        -------
        Tensor (D, V)
        """

    def leaf_shares(self, class_shares: Tensor) -> Tensor:
        """Split each row's ``class_shares`` (N, C) from the roots down: the probability of each leaf to be used."""

    def sum_shares(self, class_shares: Tensor) -> list[Tensor]:
        """The same for sums, added up over the rows: shaped as :attr:`Engine.sum_shapes`, in float64."""

    def moments(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N, V) of all variables under leaves with these shares."""

    def table(self, shares: Tensor, variable: int) -> Tensor:
        """Probabilities (N, Y) of the values of a discrete variable under leaves with these shares."""


class MaskDraw(NamedTuple):
    """The masks of one pass: booleans that are true for what is dropped."""

    dropped: Sequence[Tensor]  # of the shapes MaskedEvaluation.mask_shapes
    dropped_leaves: Sequence[Tensor] | None  # of leaf_mask_shapes; None where no leaf is


class MaskedEvaluation(Protocol):
    """A circuit on some rows, to be evaluated under one draw of masks after the other."""

    mask_shapes: Sequence[Shape]
    """Shapes of the masks of one draw."""
    leaf_mask_shapes: Sequence[Shape]
    """Shapes of the masks of single leaves."""
    passes_at_a_time: int
    """Draws that are best evaluated together."""

    def log_likelihood(self, draws: Sequence[MaskDraw]) -> Tensor:
        """Log-likelihoods (P, N, C) under each of these masks; minus infinity where a class lost everything."""


class ReweightedEvaluation(Protocol):
    """A circuit on some rows, to be evaluated with one draw of weights after the other."""

    parameters: list[Tensor]
    """Parameters of the Dirichlet distributions of all weights, in float64."""
    passes_at_a_time: int
    """Draws that are best evaluated together."""

    def log_likelihood(self, draws: Sequence[Sequence[Tensor]]) -> Tensor:
        """Log-likelihoods (P, N, C), each sum's weights being in proportion to the exponentials of a draw."""


class MomentsOfRows(NamedTuple):
    """Moments of M nodes, such as the class roots, over what is random, in some rows."""

    log_mean: Tensor  # (N, M)
    relative: Tensor  # covariances (N, M, M) divided by both means; or variances (N, M), where those are all
    upper: Tensor | None = None  # (N, M), of bounds: variances are between ``relative`` and this


class MomentPlan(Protocol):
    """A way to compute moments, chosen once and evaluated on chunks of rows."""

    method: Method
    reason: str
    entries_per_row: int
    """Numbers that an evaluation holds for each row."""
    peaks: list[Tensor]
    """The largest relative variances that evaluations met: whether any was cut off."""

    def of_rows(self, rows: Tensor, leaves: Tensor | None) -> MomentsOfRows:
        """The moments, given the relative variances or covariances (N, *leaf_shape, ...) of uncertain leaves."""


class LogMomentPosterior(NamedTuple):
    """The class posterior, and how far from linear each row is: masks by its worst layer, weights by its classes."""

    posterior: Posterior
    curvature: Tensor  # (N,), in nats: where it is large, expansions fail; infinite where a sum is lost


class LogMomentPlan(Protocol):
    """Log-moment propagation, evaluated on chunks of rows."""

    entries_per_row: int
    """Numbers that an evaluation holds for each row."""

    def of_rows(self, rows: Tensor, leaves: Tensor | None, log_prior: Tensor) -> LogMomentPosterior:
        """The class posterior given the log-prior (C,); ``leaves`` as in :class:`MomentPlan`."""


class RegionPlan(Protocol):
    """Values of regions, the sets of columns that nodes are over, evaluated on chunks of rows.

    A part of the circuit that never meets a region as a whole, such as another repetition, has no say in it.
    """

    scopes: tuple[tuple[int, ...], ...]
    """The columns of each of Q regions."""
    entries_per_row: int
    """Numbers that an evaluation holds for each row."""

    def log_likelihood(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """log p(x_r) of each region r: (N, Q), given the log-weights (N, C) of the classes."""

    def surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_r | all other columns) of each region r: (N, Q), likewise."""


class Engine(ABC):
    """Evaluates one circuit. Made for one query: it holds the weights that the circuit has at that moment."""

    kind: ClassVar[str]
    """The kind of circuit, in a word."""
    no_node_moments: ClassVar[str | None] = None
    """Why there is no :meth:`node_moments`; None if there is."""
    leaf_axes: ClassVar[str]
    """What the axes of ``leaf_shape`` are, in words."""

    circuit: Circuit | Graph
    leaf_shape: tuple[int, ...]
    """Shape of a quantity that every leaf has one of."""
    sum_shapes: Sequence[Shape]
    """Shapes of quantities that every sum has one of; the sums of a class root are one."""
    has_roots_alone: bool = False
    """Whether it is known that the class roots are the only sums."""
    entries_per_row: int
    """Numbers that :meth:`log_likelihood` or :meth:`masked` hold for each row."""
    entries_per_evaluated_row: int
    """Numbers that an :class:`Evaluation` holds for each row."""
    entries_per_draw: int
    """Numbers that :meth:`Evaluation.complete` holds for each draw."""
    entries_per_surprise: int
    """Numbers that :meth:`column_surprise` computes for each row."""
    entries_per_surprised_row: int
    """Those of them that it holds at once."""

    @property
    @abstractmethod
    def leaf_scopes(self) -> Sequence[tuple[int, ...]]:
        """The columns of each leaf region, or of each leaf: along the first axis of ``leaf_shape``."""

    @abstractmethod
    def log_likelihood(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Log-likelihoods (N, C) in the type ``dtype``, differentiable in the parameters."""

    @abstractmethod
    def training_log_likelihood(self, rows: Tensor, dropout: Dropout, leaf_dropout: float, masks: RowMasks) -> Tensor:
        """Log-likelihoods (N, C) with masks drawn anew for every row, and leaves marginalised at a rate."""

    @abstractmethod
    def masked(self, rows: Tensor, dropout: Dropout) -> MaskedEvaluation:
        """Get ready to be evaluated under masks."""

    @abstractmethod
    def reweighted(self, rows: Tensor, posterior: WeightPosterior) -> ReweightedEvaluation:
        """Get ready to be evaluated with drawn weights."""

    @abstractmethod
    def bound(self, rows: Tensor, epsilon: Tensor, *, largest: bool) -> Tensor:
        """Logarithms (N, C) of the smallest or largest class likelihoods, a share (N,) of all weights being unknown."""

    @abstractmethod
    def moments(
        self, doubt: Doubt, covariance: CovarianceKind, *, leaves: Tensor | None, budget: int | None
    ) -> MomentPlan:
        """How to compute the moments of the class likelihoods; ``leaves`` as in :class:`MomentPlan`, of all rows."""

    def node_moments(self, dropout: Dropout, budget: int | None) -> MomentPlan:  # noqa: ARG002 - of those that can
        """How to compute mean and variance of every node, unless there is a reason why not."""
        raise ValueError(f"node_moments is not possible here: {self.no_node_moments}")

    @abstractmethod
    def no_log_moments(self, doubt: Doubt, *, leaves: Tensor | None) -> str | None:
        """Why there is no :meth:`log_moments`; None if there is."""

    @abstractmethod
    def log_moments(self, doubt: Doubt, *, leaves: Tensor | None, limit: float | None = None) -> LogMomentPlan:
        """How to propagate moments of logarithms, unless there is a reason why not; ``leaves`` as for moments.

        Rows with a curvature above the limit, if there is one, need not be followed: their posterior may be NaN, and
        their curvature is then infinite.
        """

    @abstractmethod
    def evaluate(self, rows: Tensor, kind: Kind = "marginal") -> Evaluation:
        """Carry the values of all nodes up and keep them."""

    @abstractmethod
    def column_surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_j | all other columns) of each column j: (N, V), given the log-weights (N, C) of the classes."""

    @abstractmethod
    def regions(self, min_columns: int) -> RegionPlan:
        """All regions of at least so many columns."""

    @abstractmethod
    def is_deterministic(self) -> bool:
        """Whether it is certain that no complete row gives a positive value to two children of one sum."""
