"""Intervals for the class posterior, where the covariance of the likelihoods is known only to within bounds.

For one class let ``pi`` be its share of the mean likelihoods, Z the relative deviation of its likelihood from its mean,
Y the sum of those of the other classes, each times its share, and D = pi Z + Y the relative deviation of p(x). Under
any mask the posterior of the class is f = pi (1 + Z) / (1 + D). Its second-order expansion needs three numbers:

    mean = pi (1 - pi (1 - pi) Var Z - (1 - 2 pi) Cov(Z, Y) + Var Y)
    var  = pi^2 ((1 - pi)^2 Var Z - 2 (1 - pi) Cov(Z, Y) + Var Y)

No covariance over masks is negative, and none is above the product of both deviations. From bounds of the variances of
all classes follow those of Var Y, and the smallest and largest mean and variance in closed form.

The posterior itself is not far from that. H = pi (Z - D) has the variance above, and f - pi = H - (f - pi) D, so that

    E f = mean + E[(f - pi) D^2] = pi - E[(f - pi) D],  where f - pi is between -pi and 1 - pi
    the root mean square of f - pi differs from sd(H) by no more than max(pi, 1 - pi) sd(D)

and, since D is as much above 0 as below on average, E f differs from pi by no more than E|D| / 2.

Masks under which no class is alive may be given any posterior there, and are given the mean over the others: that mean
is then E f, and the variance over the others Var f divided by their probability, at least 1 / (1 + Var D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from socratic.inference.posterior import ExpandedMoments
from socratic.notebook import between, table_of_rows
from socratic.numerics import sqrt_or_zero

BoundedKind = Literal["posterior", "expansion"]
BOUNDED_KINDS: tuple[BoundedKind, ...] = ("posterior", "expansion")

Bounds = tuple[Tensor, Tensor]
"""A lower and an upper bound."""


@dataclass(frozen=True, eq=False)
class PosteriorBounds:
    """Intervals for mean and standard deviation of the class posterior p(class | x) over dropout masks.

    Attributes
    ----------
    mean_bounds : pair of Tensors (N, C)
        A lower and an upper bound of each class's mean posterior.
    std_bounds : pair of Tensors (N, C)
        A lower and an upper bound of each class's standard deviation.
    of : {"posterior", "expansion"}
        What is bounded: the posterior itself, over all masks that leave a class alive; or the second-order expansion
        that ``Moments.posterior`` makes of exact covariances.
    """

    mean_bounds: Bounds
    std_bounds: Bounds
    of: BoundedKind

    def _repr_html_(self) -> str:
        means, stds = between(*self.mean_bounds), between(*self.std_bounds)
        note = (
            f"Where class probabilities and their standard deviations over masks are certain to lie. Of the {self.of}."
        )
        columns = {**means, **{f"std of {name}": bounds for name, bounds in stds.items()}}
        return table_of_rows(columns, note, n_rows=len(self.mean_bounds[0]))


class ExpansionBounds(NamedTuple):
    """What is known of a second-order expansion, before anything is clipped."""

    mean: Bounds  # (N, C)
    std: Bounds  # (N, C)
    total: Tensor  # (N, 1), an upper bound of sd(D)

    @classmethod
    def of_exact(cls, expanded: ExpandedMoments) -> ExpansionBounds:
        """Those of an expansion that is known: what is exact is both of its bounds."""
        mean, std, common = expanded
        return cls((mean, mean), (std, std), sqrt_or_zero(common))

    @classmethod
    def of_variances(cls, shares: Tensor, variances: Bounds) -> ExpansionBounds:
        """Those of all covariances that fit the bounds (N, C) of relative variances; shares (N, C)."""
        rest = 1.0 - shares
        least, most = (sqrt_or_zero(variance) for variance in variances)  # of sd(Z)
        squares = (shares * least) ** 2
        least_others = sqrt_or_zero(squares.sum(-1, keepdim=True) - squares)  # of sd(Y): uncorrelated
        total = (shares * most).sum(-1, keepdim=True)  # of sd(D): fully correlated
        most_others = (total - shares * most).clamp_min(0.0)
        # The mean is lowest where Z and Y are correlated, if that lowers it, at the sd(Y) that is best for it;
        # and highest the other way round.
        against, along = (1.0 - 2.0 * shares).clamp_min(0.0), (2.0 * shares - 1.0).clamp_min(0.0)
        others = torch.clamp(0.5 * against * most, least_others, most_others)
        lowest = others * (others - against * most) - shares * rest * most**2
        tiny = torch.finfo(shares.dtype).tiny
        own = torch.clamp(0.5 * along * most_others / (shares * rest).clamp_min(tiny), least, most)
        highest = most_others * (most_others + along * own) - shares * rest * own**2
        mean = (shares * (1.0 + lowest), shares * (1.0 + highest))
        apart = torch.maximum(rest * least - most_others, least_others - rest * most).clamp_min(0.0)
        std = (shares * apart, shares * sqrt_or_zero((rest * most) ** 2 + most_others**2))
        return cls(mean, std, total)


def bound_expansion(known: ExpansionBounds) -> PosteriorBounds:
    """Intervals for the expansion as ``Moments.posterior`` returns it: clipped, normalised and capped."""
    lower, upper = known.mean
    # What is clipped adds up to 1 at least, and to no more than this: it is divided by its total.
    largest_total = 1.0 + (-lower).clamp_min(0.0).sum(-1, keepdim=True)
    mean = _of_probabilities(lower.clamp(0.0, 1.0) / largest_total, upper)
    return PosteriorBounds(mean, _capped(known.std, mean), "expansion")


def bound_posterior(known: ExpansionBounds, shares: Tensor) -> PosteriorBounds:
    """Intervals for the posterior itself, given its shares (N, C) of the mean likelihoods."""
    total, rest = known.total, 1.0 - shares
    lower = torch.maximum(known.mean[0] - shares * total**2, shares - 0.5 * total)
    upper = torch.minimum(known.mean[1] + rest * total**2, shares + 0.5 * total)
    mean = _of_probabilities(lower, upper)
    off = torch.maximum(shares, rest)
    error = off * total
    shift = torch.maximum(shares - mean[0], mean[1] - shares)  # the largest that |E f - pi| can be
    least = sqrt_or_zero((known.std[0] - error).clamp_min(0.0) ** 2 - shift**2)
    most = torch.minimum(known.std[1] + error, off) * sqrt_or_zero(1.0 + total**2)
    return PosteriorBounds(mean, _capped((least, most), mean), "posterior")


def _of_probabilities(lower: Tensor, upper: Tensor) -> Bounds:
    """Bounds (N, C) of probabilities that add up to 1, none further than the others leave room for."""
    lower, upper = lower.clamp(0.0, 1.0), upper.clamp(0.0, 1.0)
    room = 1.0 - (upper.sum(-1, keepdim=True) - upper)
    limit = 1.0 - (lower.sum(-1, keepdim=True) - lower)
    return torch.maximum(lower, room), torch.minimum(upper, limit)


def _capped(std: Bounds, mean: Bounds) -> Bounds:
    """Bounds of deviations, none above the largest deviation that a number in [0, 1] with such a mean can have."""
    lower, upper = mean
    ends = torch.minimum(lower * (1.0 - lower), upper * (1.0 - upper))
    nearest = torch.minimum(torch.maximum(lower, torch.full_like(lower, 0.5)), upper)  # to a half
    least, most = sqrt_or_zero(ends), sqrt_or_zero(nearest * (1.0 - nearest))
    return torch.minimum(std[0], least), torch.minimum(std[1], most)
