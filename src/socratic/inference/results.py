"""Results of moments, for circuits and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from socratic.errors import check_choice
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import MaskKind
from socratic.inference.log_normal import log_covariance, log_normal_posterior
from socratic.inference.posterior import Posterior, class_shares, expand_moments, expand_posterior, log_class_prior
from socratic.inference.posterior_bounds import (
    BOUNDED_KINDS,
    BoundedKind,
    ExpansionBounds,
    PosteriorBounds,
    bound_expansion,
    bound_posterior,
)
from socratic.notebook import of_classes, of_variables, table_of_rows
from socratic.numerics import sqrt_or_zero

CovarianceKind = Literal["exact", "independent", "upper"]
Method = Literal["layered", "tree", "structured", "multiset", "bounds", "independent", "upper"]
MatchKind = Literal["expansion", "log-normal"]
MATCH_KINDS: tuple[MatchKind, ...] = ("expansion", "log-normal")
COVARIANCE_KINDS: tuple[CovarianceKind, ...] = ("exact", "independent", "upper")


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of the class likelihoods p(x | class) over what is uncertain.

    Attributes
    ----------
    log_mean : Tensor (N, C)
        Log of the mean likelihood.
    relative_covariance : Tensor (N, C, C)
        Covariance of two classes' likelihoods divided by both means. Diagonal for ``"independent"``; for
        ``"upper"`` the Cauchy-Schwarz bound.
    doubt : Dropout or WeightPosterior
        What was uncertain.
    covariance : str
        Which covariances were asked for.
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
    doubt: Doubt
    covariance: CovarianceKind
    method: Method
    reason: str
    variance_bounds: tuple[Tensor, Tensor] | None = None

    @property
    def relative_variance(self) -> Tensor:
        """Variance of each class's likelihood divided by its squared mean: (N, C)."""
        return self.relative_covariance.diagonal(dim1=-2, dim2=-1)

    def _repr_html_(self) -> str:
        note = f"Log of the mean likelihood ± relative deviation. Method {self.method}: {self.reason}."
        upper = self.relative_variance if self.variance_bounds is None else self.variance_bounds[1]
        if self.variance_bounds is not None:
            note = f"Log of the mean likelihood ± upper bound of the relative deviation. Bounds: {self.reason}."
        deviation = sqrt_or_zero(upper.detach())
        return table_of_rows(of_classes(self.log_mean.detach(), deviation), note, n_rows=len(deviation))

    def posterior(
        self, class_prior: Sequence[float] | Tensor | None = None, *, method: MatchKind = "expansion"
    ) -> Posterior:
        """Mean and deviation of the class posterior.

        Parameters
        ----------
        class_prior : (C,), optional
            Prior class probabilities; uniform by default.
        method : {"expansion", "log-normal"}
            By second-order expansion, or as if the likelihoods were log-normal with these moments.
        """
        check_choice("method", method, MATCH_KINDS)
        if self.method == "bounds":
            raise ValueError(
                f"these moments are bounds ({self.reason}), which have no single posterior; use posterior_bounds for "
                "intervals, monte_carlo_dropout, which takes no uncertain leaves, or a larger budget if that is why"
            )
        if self.covariance == "upper":
            raise ValueError(
                "covariance='upper' bounds the variance of a likelihood and says nothing of the posterior; "
                "compute the moments with covariance='exact'"
            )
        log_prior = log_class_prior(class_prior, self.log_mean.shape[-1], self.log_mean)
        if method == "log-normal":
            return log_normal_posterior(self.log_mean, log_covariance(self.relative_covariance), log_prior, method)
        return expand_posterior(self.log_mean, self.relative_covariance, log_prior)

    def posterior_bounds(
        self, class_prior: Sequence[float] | Tensor | None = None, *, of: BoundedKind = "posterior"
    ) -> PosteriorBounds:
        """Intervals that mean and deviation of the class posterior are certain to be in.

        Parameters
        ----------
        class_prior : (C,), optional
            Prior class probabilities; uniform by default.
        of : {"posterior", "expansion"}
            What to bound: the posterior itself, over all masks that leave a class alive; or the expansion that
            :meth:`posterior` would make of the exact covariances, where these moments are bounds.

        Returns
        -------
        PosteriorBounds
        """
        check_choice("of", of, BOUNDED_KINDS)
        log_prior = log_class_prior(class_prior, self.log_mean.shape[-1], self.log_mean)
        shares = class_shares(self.log_mean + log_prior, log_prior)
        if self.variance_bounds is not None:
            known = ExpansionBounds.of_variances(shares, self.variance_bounds)
        elif self.covariance == "exact":
            known = ExpansionBounds.of_exact(expand_moments(shares, self.relative_covariance))
        else:
            raise ValueError(
                f"covariance={self.covariance!r} bounds variances on one side only, and an interval needs both; "
                "compute the moments with covariance='exact'"
            )
        return bound_posterior(known, shares) if of == "posterior" else bound_expansion(known)


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

    def _repr_html_(self) -> str:
        log_mean, std = of_variables(self.log_mean), of_variables(sqrt_or_zero(self.variance_bounds[1]))
        columns = {name.replace("variable", "node"): (log_mean[name], std[name]) for name in log_mean}
        note = (
            f"Log of the mean value ± relative deviation, or its upper bound, of the first of "
            f"{self.log_mean.shape[1]:,} nodes. Method {self.method}: {self.reason}."
        )
        return table_of_rows(columns, note, n_rows=len(self.log_mean))

    @property
    def relative_variance(self) -> Tensor:
        """Variance of each node's value divided by its squared mean, NaN where only bounds are known: (N, M)."""
        lower, upper = self.variance_bounds
        return lower if self.method != "bounds" else torch.where(lower == upper, lower, torch.nan)
