"""Prior uncertainty of columns: how far the densities of their values are to be trusted, in every leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.inference.engine import Engine
from socratic.inference.saturation import saturation


@dataclass(frozen=True)
class ColumnUncertainty:
    """Relative variances of the leaves, from those of the columns they are over.

    A leaf over several columns is a product of univariate ones, which are independent: 1 + its relative variance is
    the product of theirs. A missing value is integrated out, and what it leaves is 1, which is certain.
    """

    rows: Tensor  # (N, V)
    log_growth: Tensor  # (V,), log(1 + r) of each column's relative variance r
    columns: Tensor  # (P,), for each factor of each leaf (region) its column ...
    leaves: Tensor  # (P,), ... and the number of the leaf (region)
    shape: tuple[int, ...]  # the engine's ``leaf_shape``

    @classmethod
    def check(cls, engine: Engine, rows: Tensor, variances: Mapping[Any, Any]) -> ColumnUncertainty | None:
        """From relative variances by the numbers of columns; None if all of them are 0."""
        relative = [0.0] * rows.shape[1]
        for column, variance in variances.items():
            if isinstance(column, bool) or not isinstance(column, Integral) or column not in range(len(relative)):
                raise ValueError(
                    f"leaf_variance must map numbers of columns, from 0 to {len(relative) - 1}, to variances; got the "
                    f"column {column!r}"
                )
            relative[int(column)] = check_number(f"leaf_variance[{column}]", variance, minimum=0.0)
        if not any(relative):
            return None
        factors = [(column, leaf) for leaf, scope in enumerate(engine.leaf_scopes) for column in scope]
        columns, leaves = torch.tensor(factors, device=rows.device).reshape(-1, 2).unbind(1)
        log_growth = torch.log1p(torch.tensor(relative, dtype=torch.float64)).to(rows)
        return cls(rows, log_growth, columns, leaves, engine.leaf_shape)

    def of_rows(self, start: int, stop: int) -> Tensor:
        """The relative variances (n, *shape) of some rows."""
        observed = ~self.rows[start:stop].isnan()
        growth = torch.where(observed, self.log_growth, 0.0)[:, self.columns]  # (n, P)
        total = growth.new_zeros(len(growth), self.shape[0]).index_add(1, self.leaves, growth)
        relative = torch.expm1(total).clamp_max(saturation(total.dtype))
        return relative.reshape(*relative.shape, *(1 for _ in self.shape[1:])).expand(-1, *self.shape)
