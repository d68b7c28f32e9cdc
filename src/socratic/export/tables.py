"""What a table says of encoded rows, in torch: :class:`~socratic.tables.columns.Table` has the same in numpy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from socratic.tables.columns import Table


class Cells(nn.Module):
    """Volumes of the cells of encoded rows (N, V), in float64."""

    seen: Tensor
    unseen: Tensor
    bent: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, table: Table) -> None:
        super().__init__()
        columns = table.columns
        arrays = {
            "seen": table.log_scale - np.array([column.log_seen for column in columns]),
            "unseen": np.array([column.log_unseen for column in columns]),
            "bent": np.array([float(column.bend is not None) for column in columns]),
            "mean": np.array([column.mean for column in columns]),
            "scale": np.array([column.scale for column in columns]),
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.as_tensor(array), persistent=False)

    def log_volume(self, x: Tensor) -> Tensor:
        """By how much log-densities of a circuit exceed those in the units of the data: (N,)."""
        strange = x.isinf()
        there = ~(strange | x.isnan())
        codes = torch.where(there, x.double(), 0.0)
        bent = codes * self.scale + self.mean
        log_slope = bent.abs() + torch.log1p(torch.exp(-2.0 * bent.abs())) - np.log(2.0)
        cells = there * (self.seen + self.bent * log_slope) - strange * self.unseen
        return cells.sum(1)
