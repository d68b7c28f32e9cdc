"""Results of tractable dropout inference, for circuits and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from socratic.inference.dropout import MaskKind
from socratic.inference.posterior import Posterior, expand_posterior, log_class_prior

CovarianceKind = Literal["exact", "independent", "upper"]
Method = Literal["layered", "tree", "structured", "multiset", "bounds", "independent", "upper"]
COVARIANCE_KINDS: tuple[CovarianceKind, ...] = ("exact", "independent", "upper")


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of the class likelihoods p(x | class) over dropout masks.

    Attributes
    ----------
    log_mean : Tensor (N, C)
        Log of the mean likelihood.
    relative_covariance : Tensor (N, C, C)
        Covariance of two classes' likelihoods divided by both means. Diagonal for ``"independent"``; for
        ``"upper"`` the Cauchy-Schwarz bound.
    dropout, masks, covariance, root_dropout
        The settings they were computed with.
    method : str
        How: ``"layered"`` for a :class:`~socratic.Circuit`; ``"tree"``, ``"structured"``, ``"multiset"`` or
        ``"bounds"`` for a :class:`~socratic.Graph`; ``"independent"`` or ``"upper"`` if ``covariance`` asked for
        that. All but the last three are exact up to rounding.
    reason : str
        Why this method, in words.
    variance_bounds : pair of Tensors (N, C), or None
        For ``"bounds"`` a lower and an upper bound of the relative variances; ``relative_covariance`` is then NaN,
        and ``log_mean`` still exact. None otherwise.
    """

    log_mean: Tensor
    relative_covariance: Tensor
    dropout: float
    masks: MaskKind
    covariance: CovarianceKind
    root_dropout: bool
    method: Method
    reason: str
    variance_bounds: tuple[Tensor, Tensor] | None = None

    @property
    def relative_variance(self) -> Tensor:
        """Variance of each class's likelihood divided by its squared mean: (N, C)."""
        return self.relative_covariance.diagonal(dim1=-2, dim2=-1)

    def posterior(self, class_prior: Sequence[float] | Tensor | None = None) -> Posterior:
        """Mean and deviation of the class posterior, by second-order expansion.

        Parameters
        ----------
        class_prior : (C,), optional
            Prior class probabilities; uniform by default.
        """
        if self.method == "bounds":
            raise ValueError(
                f"these moments are bounds ({self.reason}), and bounds say nothing of the posterior; use "
                "monte_carlo_dropout, which takes no uncertain leaves, or tdi with a larger budget if that is why"
            )
        if self.covariance == "upper":
            raise ValueError(
                "covariance='upper' bounds the variance of a likelihood and says nothing of the posterior; "
                "compute the moments with covariance='exact'"
            )
        log_prior = log_class_prior(class_prior, self.log_mean.shape[-1], self.log_mean)
        return expand_posterior(self.log_mean, self.relative_covariance, log_prior)


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """Mean and variance of the value of every node of a graph over dropout masks.

    Attributes
    ----------
    log_mean : Tensor (N, M)
        Log of the mean value of each of the M nodes, in the order of ``graph.nodes``.
    variance_bounds : pair of Tensors (N, M)
        A lower and an upper bound of the relative variances (variance divided by the squared mean). They are equal
        unless the method is ``"bounds"``.
    dropout, masks, root_dropout
        The settings they were computed with.
    method, reason : str
        How they were computed, and why so; see :class:`Moments`.
    """

    log_mean: Tensor
    variance_bounds: tuple[Tensor, Tensor]
    dropout: float
    masks: MaskKind
    root_dropout: bool
    method: Method
    reason: str

    @property
    def relative_variance(self) -> Tensor:
        """Variance of each node's value divided by its squared mean, NaN where only bounds are known: (N, M)."""
        lower, upper = self.variance_bounds
        return lower if self.method != "bounds" else torch.where(lower == upper, lower, torch.nan)
