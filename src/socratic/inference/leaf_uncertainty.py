"""Prior uncertainty of the leaves (section 3.2.4 of the TDI paper), checked and cut to chunks of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from socratic.inference.column_uncertainty import ColumnUncertainty
from socratic.inference.engine import Engine
from socratic.inference.saturation import saturation

LeafVariance = float | Tensor | Mapping[int, float]
"""Of all leaves, of each, or of those over some columns."""

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class LeafUncertainty:
    """Relative variances (N, *shape) or covariances (N, *shape, shape[-1]) of the leaves; None for certain leaves.

    ``shape`` is the engine's ``leaf_shape``: (L, I) of leaf regions with I leaves each, or (L,) of single leaves.
    Where columns say how uncertain they are, ``relative`` holds the first row's, for what all rows have in common.
    """

    relative: Tensor | None
    columns: ColumnUncertainty | None = None

    @classmethod
    def check(
        cls, engine: Engine, rows: Tensor, leaf_variance: LeafVariance | None, leaf_covariance: Tensor | None
    ) -> LeafUncertainty:
        """Check and broadcast what the user gave."""
        if leaf_variance is not None and leaf_covariance is not None:
            raise ValueError("give leaf_variance or leaf_covariance, not both: the covariance holds the variance")
        shape = (len(rows), *engine.leaf_shape)
        if isinstance(leaf_variance, Mapping):
            columns = ColumnUncertainty.check(engine, rows, leaf_variance)
            return cls(None) if columns is None else cls(columns.of_rows(0, 1), columns)
        if leaf_variance is not None:
            variance = torch.as_tensor(leaf_variance).to(rows)
            if not bool(torch.isfinite(variance).all()) or bool((variance < 0).any()):
                raise ValueError("leaf_variance must hold finite numbers of at least 0")
            limited = variance.clamp_max(saturation(rows.dtype))
            return cls(_broadcast("leaf_variance", limited, shape, engine.leaf_axes))
        if leaf_covariance is not None:
            covariance = torch.as_tensor(leaf_covariance).to(rows)
            if covariance.ndim < 2 or covariance.shape[-1] != covariance.shape[-2]:
                raise ValueError(
                    f"leaf_covariance must end in square matrices; got the shape {tuple(covariance.shape)}"
                )
            _check_semidefinite(covariance)
            axes = f"{engine.leaf_axes}, {engine.leaf_axes.rpartition(', ')[2]}"
            relative = _broadcast("leaf_covariance", covariance, (*shape, shape[-1]), axes)
            if len(engine.leaf_shape) == 1:  # no regions: leaves of all variables are in one matrix
                _check_scopes(distinct_rows(relative), engine.leaf_scopes)
            return cls(relative)
        return cls(None)

    @property
    def uncertain(self) -> bool:
        """Whether there is any."""
        return self.relative is not None

    def of_rows(self, start: int, stop: int) -> Tensor | None:
        """The part of some rows."""
        if self.columns is not None:
            return self.columns.of_rows(start, stop)
        return None if self.relative is None else self.relative[start:stop]


def distinct_rows(relative: Tensor) -> Tensor:
    """What there is for each row, once if all rows have the same."""
    return relative[:1] if relative.stride(0) == 0 else relative


def _broadcast(name: str, value: Tensor, shape: tuple[int, ...], axes: str) -> Tensor:
    try:
        return value.expand(shape)
    except RuntimeError:
        raise ValueError(f"{name} must broadcast to {shape} (rows, {axes}); got {tuple(value.shape)}") from None


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
    if bool((exact < -1.0 - _TOLERANCE).any()):
        raise ValueError(
            "leaf_covariance must be at least -1, since the product of two densities is never negative; "
            f"got {float(exact.min()):g}"
        )


def _check_scopes(covariance: Tensor, scopes: Sequence[tuple[int, ...]]) -> None:
    """Leaves (N, L, L) of different variables must be uncorrelated."""
    variables = torch.tensor(scopes, device=covariance.device).view(-1)
    wrong = ((covariance != 0) & (variables.unsqueeze(-1) != variables)).nonzero()
    if len(wrong):
        row, a, b = wrong[0].tolist()
        raise ValueError(
            "leaf_covariance must be 0 between leaves of different variables, which products take as independent; got "
            f"{float(covariance[row, a, b]):g} between leaf {a} (variable {int(variables[a])}) and leaf {b} "
            f"(variable {int(variables[b])})"
        )
