"""What every kind of circuit has."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from socratic.families import ExponentialFamily

if TYPE_CHECKING:
    from socratic.circuit.circuit import Circuit
    from socratic.circuit.graph import Graph
    from socratic.families import Family


class CircuitModule(nn.Module):
    """A module with one root for each class, whose forward pass is its log-likelihood."""

    n_features: int
    """Columns of the rows (V)."""
    n_classes: int
    """Class roots (C)."""
    column_families: tuple[tuple[Family, ...], ...]
    """The families of the leaves of each column."""

    def log_likelihood(self, x: Tensor, *, chunk_size: int | None = None) -> Tensor:
        """Log-likelihood of each row under each class, log p(x | class): (N, V) -> (N, C).

        NaN is a missing value and is marginalised exactly. See :func:`socratic.log_likelihood`.
        """
        from socratic.inference.likelihood import log_likelihood

        return log_likelihood(cast("Circuit | Graph", self), x, chunk_size=chunk_size)

    def forward(self, x: Tensor) -> Tensor:
        """The same as :meth:`log_likelihood`."""
        return self.log_likelihood(x)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the circuit to ``path``; :func:`socratic.load` reads it back."""
        from socratic.circuit.storage import save

        save(cast("Circuit | Graph", self), path)

    @cached_property
    def restricted_columns(self) -> list[tuple[tuple[Family, ...], list[int]]]:
        """The columns that do not take every finite number, by the families of their leaves: what checks look at."""
        found: dict[tuple[Family, ...], list[int]] = {}
        for column, families in enumerate(self.column_families):
            if families and not any(family.real for family in families):
                found.setdefault(families, []).append(column)
        return list(found.items())

    @cached_property
    def bounds_values(self) -> bool:
        """Whether leaves take every value as one that is not too far away, so that infinite ones do no harm."""
        families = {family for of_column in self.column_families for family in of_column}
        return all(
            isinstance(family, ExponentialFamily) and family.largest_deviation(self.dtype) is not None
            for family in families
        )

    @property
    def n_parameters(self) -> int:
        """Number of learnable parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    @property
    def any_parameter(self) -> Tensor:
        """One of the parameters, which all have the same type and device."""
        return next(self.parameters())

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the parameters."""
        return self.any_parameter.dtype

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.any_parameter.device
