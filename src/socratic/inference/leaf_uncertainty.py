"""Prior uncertainty of the leaves (section 3.2.4 of the TDI paper), checked and cut to chunks of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.inference.covariance import saturation

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class LeafUncertainty:
    """Relative variances (N, L, I) or covariances (N, L, I, I) of the leaves; None for certain leaves."""

    relative: Tensor | None

    @classmethod
    def check(
        cls,
        circuit: Circuit,
        rows: Tensor,
        leaf_variance: float | Tensor | None,
        leaf_covariance: Tensor | None,
    ) -> LeafUncertainty:
        """Check and broadcast what the user gave."""
        if leaf_variance is not None and leaf_covariance is not None:
            raise ValueError("give leaf_variance or leaf_covariance, not both: the covariance holds the variance")
        shape = (len(rows), circuit.leaves.n_folds, circuit.leaves.n_nodes)
        if leaf_variance is not None:
            variance = torch.as_tensor(leaf_variance).to(rows)
            if not bool(torch.isfinite(variance).all()) or bool((variance < 0).any()):
                raise ValueError("leaf_variance must hold finite numbers of at least 0")
            return cls(_broadcast("leaf_variance", variance.clamp_max(saturation(rows.dtype)), shape))
        if leaf_covariance is not None:
            covariance = torch.as_tensor(leaf_covariance).to(rows)
            if covariance.ndim < 2 or covariance.shape[-1] != covariance.shape[-2]:
                raise ValueError(
                    f"leaf_covariance must end in square matrices; got the shape {tuple(covariance.shape)}"
                )
            _check_semidefinite(covariance)
            return cls(_broadcast("leaf_covariance", covariance, (*shape, shape[-1])))
        return cls(None)

    def of_rows(self, start: int, stop: int, *, matrix: bool) -> Tensor | None:
        """Covariance state of the leaves for some rows: (L, N, I, I) if there is one and it is wanted, or (L, I, N)."""
        if self.relative is None:
            return None
        part = self.relative[start:stop]
        if part.ndim == 3:
            return part.permute(1, 2, 0)
        return part.transpose(0, 1) if matrix else part.diagonal(dim1=-2, dim2=-1).permute(1, 2, 0)


def _broadcast(name: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
    try:
        return value.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"{name} must broadcast to {shape} (rows, leaf regions, leaves, ...); got {tuple(value.shape)}"
        ) from None


def _check_semidefinite(covariance: Tensor) -> None:
    if not bool(torch.isfinite(covariance).all()):
        raise ValueError("leaf_covariance must hold finite numbers")
    if not covariance.numel():
        return
    exact = covariance.detach().double()
    tolerance = _TOLERANCE * exact.abs().amax((-2, -1), keepdim=True)  # relative to each matrix
    if bool(((exact - exact.mT).abs() > tolerance).any()):
        raise ValueError("leaf_covariance must be symmetric")
    if bool((torch.linalg.eigvalsh(exact) < -tolerance.squeeze(-1)).any()):
        raise ValueError("leaf_covariance must be positive semi-definite")
