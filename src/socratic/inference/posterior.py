"""Class posteriors over what is uncertain: the result type, and the second-order expansion from moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.notebook import draw_points, of_classes, table_of_rows
from socratic.numerics import sqrt_or_zero

_PRIOR_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Posterior:
    """Distribution of the class posterior p(class | x) over what is uncertain: dropout masks, or weights.

    Attributes
    ----------
    mean : Tensor (N, C)
        Mean posterior; rows sum to 1.
    std : Tensor (N, C)
        Standard deviation of each class probability.
    entropy : Tensor (N,)
        Entropy of the mean posterior, in nats: the total uncertainty.
    mutual_information : Tensor (N,)
        What knowing the mask, or the weights, would tell about the class, in nats: the part of the entropy that is
        the model's own doubt.
    dead : Tensor (N,) or None
        Share of masks under which no class root is alive; the other fields are conditional on one being
        alive. None where the method does not estimate it.
    method : str
        How the posterior was computed.
    log_density_std : Tensor (N,) or None
        Standard deviation of log p(x), in nats. None where the method does not estimate it.
    """

    mean: Tensor
    std: Tensor
    entropy: Tensor
    mutual_information: Tensor
    dead: Tensor | None
    method: str
    log_density_std: Tensor | None = None

    def plot(self, ax: Any = None) -> Any:
        """A point for each row: how uncertain its class is, and how much of that is the model's own doubt.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        x, y = self.entropy.detach().cpu(), self.mutual_information.detach().cpu()
        return draw_points(ax, x, y, ("entropy, nats", "mutual information, nats"))

    def _repr_html_(self) -> str:
        columns = of_classes(self.mean.detach(), self.std.detach())
        columns |= {"entropy": self.entropy.detach(), "mutual information": self.mutual_information.detach()}
        note = f"Class probability ± standard deviation; entropy and mutual information in nats. Method {self.method}."
        return table_of_rows(columns, note, n_rows=len(self.mean))

    @staticmethod
    def concatenate(parts: list[Posterior]) -> Posterior:
        """Join the posteriors of consecutive chunks of rows."""
        joined: dict[str, Any] = {}
        for field in fields(Posterior):
            values = [getattr(part, field.name) for part in parts]
            joined[field.name] = torch.cat(values) if isinstance(values[0], Tensor) else values[0]
        return Posterior(**joined)

    @classmethod
    def of_masks(
        cls,
        mean: Tensor,
        std: Tensor,
        entropy_within: Tensor,
        alive: Tensor,
        dead: Tensor,
        log_prior: Tensor,
        method: str,
        log_density_std: Tensor | None = None,
    ) -> Posterior:
        """The posterior from its moments over the masks that were looked at, in the type of ``log_prior``.

        Parameters
        ----------
        mean, std : (N, C)
            Of the class probabilities, over masks under which a class is alive.
        entropy_within : (N,)
            Mean entropy under such a mask.
        alive : (N,)
            Whether a class was alive under any mask; where none was, the prior remains.
        dead : (N,)
            Share of masks under which no class is alive.
        log_prior : (C,)
        method : str
        log_density_std : (N,), optional
        """
        mean = torch.where(alive.unsqueeze(-1), mean, torch.exp(log_prior).to(mean))
        total = entropy(mean)
        information = (total - entropy_within).clamp_min(0.0) * alive
        parts = (mean, std * alive.unsqueeze(-1), total, information, dead)
        mean, std, total, information, dead = (part.to(log_prior.dtype) for part in parts)
        if log_density_std is not None:
            log_density_std = (log_density_std * alive).to(log_prior.dtype)
        return cls(mean, std, total, information, dead, method, log_density_std)

    @classmethod
    def average(cls, parts: Sequence[Posterior], log_density: Tensor) -> Posterior:
        """The posterior of several circuits of which each is as right as any other: they are one more doubt.

        Parameters
        ----------
        parts : sequence of Posterior (N, C)
            Of each of the K circuits.
        log_density : Tensor (K, N)
            Their log p(x): that of the average varies with the circuits that have a share in it.
        """
        if len(parts) == 1:
            return parts[0]
        mean = torch.stack([part.mean for part in parts]).mean(0)
        squares = torch.stack([part.std**2 + part.mean**2 for part in parts]).mean(0)
        within = torch.stack([part.entropy - part.mutual_information for part in parts]).mean(0)
        total = entropy(mean)
        dead = [part.dead for part in parts if part.dead is not None]
        spreads = [part.log_density_std for part in parts if part.log_density_std is not None]
        shares = class_shares(log_density.T, log_density.new_zeros(len(parts))).T.to(mean)
        return cls(
            mean,
            sqrt_or_zero((squares - mean**2).clamp_min(0.0)),
            total,
            (total - within).clamp_min(0.0),
            torch.stack(dead).mean(0) if len(dead) == len(parts) else None,
            parts[0].method,
            sqrt_or_zero((shares**2 * torch.stack(spreads) ** 2).sum(0)) if len(spreads) == len(parts) else None,
        )

    def among(self, places: Tensor, n_rows: int) -> Posterior:
        """A posterior of ``n_rows`` rows, which has these at ``places`` (M,) and is NaN elsewhere."""
        parts: dict[str, Any] = {}
        for field in fields(Posterior):
            mine = getattr(self, field.name)
            if isinstance(mine, Tensor):
                mine = mine.new_full((n_rows, *mine.shape[1:]), torch.nan).index_copy(0, places, mine)
            parts[field.name] = mine
        return Posterior(**parts)

    def with_rows(self, places: Tensor, other: Posterior, method: str) -> Posterior:
        """The same with the rows ``places`` (M,) from another posterior of M rows, and the name of both methods."""
        parts: dict[str, Any] = {"method": method}
        for field in fields(Posterior):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            if field.name != "method":
                parts[field.name] = None if mine is None or its is None else mine.index_copy(0, places, its)
        return Posterior(**parts)


def entropy(probabilities: Tensor) -> Tensor:
    """Entropy in nats over the last axis."""
    # Certainty has no gradient: the derivative of p log p at 0 is infinite, and would meet a zero.
    return torch.special.entr(torch.where(probabilities == 0, 1.0, probabilities)).sum(-1)


def log_class_prior(class_prior: Sequence[float] | Tensor | None, n_classes: int, like: Tensor) -> Tensor:
    """Logarithm (C,) of a checked class prior; uniform if None."""
    if class_prior is None:
        return like.new_full((n_classes,), -float(np.log(n_classes)))
    try:
        prior = torch.as_tensor(class_prior, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"class_prior must hold {n_classes} probabilities, or be None; got {class_prior!r}") from None
    if prior.shape != (n_classes,):
        raise ValueError(
            f"class_prior must hold one probability for each of {n_classes} classes; got the shape {tuple(prior.shape)}"
        )
    if not bool(torch.isfinite(prior).all()) or bool((prior < 0).any()):
        raise ValueError(f"class_prior must hold probabilities of at least 0; got {prior.tolist()}")
    if abs(float(prior.sum()) - 1.0) > _PRIOR_TOLERANCE:
        raise ValueError(
            f"class_prior must sum to 1 (divide counts by their total); got a sum of {float(prior.sum()):g}"
        )
    return torch.log(prior / prior.sum()).to(device=like.device, dtype=like.dtype)


def class_shares(log_joint: Tensor, log_prior: Tensor) -> Tensor:
    """Softmax over classes (..., C) that falls back to the prior (C,) where no class is alive."""
    dead = (log_joint == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(torch.where(dead, log_prior, log_joint), dim=-1)


class ExpandedMoments(NamedTuple):
    """The second-order expansion as it comes, before anything is clipped."""

    mean: Tensor  # (N, C)
    std: Tensor  # (N, C)
    common: Tensor  # (N, 1), the relative variance of p(x)


def expand_moments(shares: Tensor, relative_covariance: Tensor) -> ExpandedMoments:
    """Mean and deviation of the posterior, given its shares (N, C) of the means and their covariance (N, C, C)."""
    drift = (relative_covariance @ shares.unsqueeze(-1)).squeeze(-1)  # (R pi)_i
    common = (shares * drift).sum(-1, keepdim=True)  # pi' R pi
    variances = relative_covariance.diagonal(dim1=-2, dim2=-1)
    spread = (variances - 2.0 * drift + common).clamp_min(0.0)
    return ExpandedMoments(shares * (1.0 - drift + common), shares * sqrt_or_zero(spread), common)


def expand_posterior(log_mean: Tensor, relative_covariance: Tensor, log_prior: Tensor) -> Posterior:
    """Second-order expansion of the posterior around the mean likelihoods.

    With shares pi of the mean likelihoods and relative covariance R (the ratio formula of Seltman, 2018, with
    the covariance of numerator and denominator; equations 13 and 14 of the TDI paper):

        mean_i = pi_i (1 - (R pi)_i + pi' R pi)
        var_i  = pi_i^2 (R_ii - 2 (R pi)_i + pi' R pi)
        MI     = (sum_i pi_i R_ii - pi' R pi) / 2

    The mean sums to 1 but may leave [0, 1]: it is clipped and normalised. A variable in [0, 1] with mean m has
    a standard deviation of at most sqrt(m (1 - m)), and information is bounded by entropy: both are capped.

    Parameters
    ----------
    log_mean : Tensor (N, C)
    relative_covariance : Tensor (N, C, C)
    log_prior : Tensor (C,)
    """
    # What is dead has no moments: where all classes are, the prior remains.
    dead = log_mean == -torch.inf
    relative_covariance = relative_covariance.masked_fill(dead.unsqueeze(-1) | dead.unsqueeze(-2), 0.0)
    shares = class_shares(log_mean + log_prior, log_prior)
    expanded = expand_moments(shares, relative_covariance)
    clipped = expanded.mean.clamp(0.0, 1.0)
    total = clipped.sum(-1, keepdim=True)
    mean = torch.where(total > 0, clipped / total.clamp_min(torch.finfo(total.dtype).tiny), shares)
    std = torch.minimum(expanded.std, sqrt_or_zero(mean * (1.0 - mean)))
    total_entropy = entropy(mean)
    variances = relative_covariance.diagonal(dim1=-2, dim2=-1)
    information = 0.5 * ((shares * variances).sum(-1) - expanded.common.squeeze(-1))
    information = torch.minimum(information.clamp_min(0.0), total_entropy)
    log_density_std = sqrt_or_zero(torch.log1p(expanded.common.squeeze(-1).clamp_min(0.0)))  # as if log-normal
    return Posterior(mean, std, total_entropy, information, None, "expansion", log_density_std)
