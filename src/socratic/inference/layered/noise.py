"""How the weights of a layer's sums vary: the one thing that moments have to know of what is random.

Two kinds of randomness are known by the covariance of a sum's weights W, whose mean is w:

    masks on edges       Cov[W_k, W_l] = [k = l] (p / q) w_k^2
    Dirichlet weights    Cov[W_k, W_l] = ([k = l] w_k - w_k w_l) / (alpha_0 + 1)

Both are ``diag(squares) - common w w'``. Nothing is divided by a weight, so a weight may be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.layers import SumProductLayer
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.kernels.choice import Digits


@dataclass(frozen=True, eq=False)
class SumNoise:
    """The noise of the weights of one layer's sums.

    Attributes
    ----------
    odds : float
        p / q of masks; 0 without.
    shared : bool
        Whether one mask for each child serves all sums of a region.
    common : Tensor (F, S, 1), optional
        ``1 / (alpha_0 + 1)`` of Dirichlet weights.
    joint : bool
        Whether the sums go on in other branches, so that what their weights have in common is left to the join.
    log_kept : float
        By how much masks lower the logarithm of a sum's mean.
    """

    odds: float = 0.0
    shared: bool = False
    common: Tensor | None = None
    joint: bool = False
    log_kept: float = 0.0

    @property
    def certain(self) -> bool:
        """Whether the weights do not vary."""
        return self.odds == 0.0 and self.common is None

    @property
    def own(self) -> bool:
        """Whether weights vary that no other sum has."""
        return not self.certain and not self.shared

    @property
    def digits(self) -> Digits:
        """How many digits moments need: all of them where terms may cancel, as those of Dirichlet weights do."""
        return "five" if self.common is None else "all"

    def squares(self, weights: Tensor, folds: slice) -> Tensor:
        """The diagonal ``squares`` (F, S, K) of the covariance of these folds' ``weights``, each sum by itself."""
        if self.common is None:
            return (weights * weights).mul_(self.odds)
        return self.common[folds].to(weights) * weights

    def of_sums(self, squares: Tensor, spread: Tensor | float, folds: slice) -> Tensor:
        """The relative variance (F, S, N) that sums get from their own weights.

        Parameters
        ----------
        squares : (F, S, N)
            ``sum_k squares_k E[N_k^2]`` over the squared sums.
        spread : (F, S, N)
            The relative variance ``sum_kl e_k e_l R_kl`` that the children give to the sums.
        folds : slice
        """
        if self.common is None:
            return squares
        common = self.common[folds].to(squares)
        if self.joint:
            return squares - common * spread
        return (squares - common * (1.0 + spread)).clamp_min(0.0)  # not negative but for rounding


class Noise(NamedTuple):
    """The noise of every layer."""

    of_layer: Mapping[SumProductLayer, SumNoise]  # of the branches of the roots, too
    common_of_roots: Tensor | None  # (1, C, 1), what the weights of joint sums have in common


def noise_of(circuit: Circuit, doubt: Doubt, like: Tensor) -> Noise:
    """The noise that ``doubt`` brings to each layer, in the type of ``like``."""
    layers, branches = circuit.inner_layers(), circuit.root_branches()
    if isinstance(doubt, Dropout):
        inner, root = (_masks(doubt, root=root) for root in (False, True))
        return Noise({**dict.fromkeys(layers, inner), **dict.fromkeys(branches, root)}, None)
    *of_layers, of_roots = (part.unsqueeze(-1) for part in doubt.relative_spreads(like))
    of_layer = {layer: SumNoise(common=common) for layer, common in zip(layers, of_layers, strict=True)}
    for branch in branches:
        of_layer[branch] = SumNoise(common=of_roots.expand(branch.n_folds, -1, 1), joint=True)
    return Noise(of_layer, of_roots.unsqueeze(0))


def _masks(dropout: Dropout, *, root: bool) -> SumNoise:
    masks = dropout.of_sums(root=root)
    return SumNoise() if masks is None else SumNoise(masks.odds, masks.shared, log_kept=masks.log_kept)
