"""What the tests of log-moment propagation share: draws, moments over atoms, and the dropout rate."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.inference.layered.log_moments.masks import MaskAtoms
from socratic.inference.layered.log_moments.sums import atom_moments

P = 0.2
Q = 1.0 - P


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def weights_of(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.softmax(2.0 * normal(rng, *shape), dim=-1)


def moments_of(atoms: MaskAtoms) -> tuple[Tensor, Tensor]:
    mean, covariance = atom_moments(atoms.log_factor, atoms.probability)
    residual = atoms.residual if atoms.residual.ndim == 4 else torch.diag_embed(atoms.residual)
    return mean - 0.5 * residual.diagonal(dim1=-2, dim2=-1), covariance + residual
