"""What a table says of encoded rows, in torch: :class:`~socratic.tables.columns.Table` has the same in numpy."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from socratic.export.familiarity import wide
from socratic.tables.columns import Table
from socratic.tables.scaling import ROUNDED_TO, SAME


class Cells:
    """The cells of encoded rows (N, V), infinite where training rows do not hold the value."""

    def __init__(self, table: Table) -> None:
        columns = table.columns
        self.log_scale = wide(table.log_scale)
        self.seen = self.log_scale - wide([column.log_seen for column in columns])
        self.unseen = wide([column.log_unseen for column in columns])
        self.unseen_of_columns = wide(table.unseen_of_columns)
        self.has_part = torch.tensor([column.left_out is None for column in columns])
        self.bent = wide([float(column.bend is not None) for column in columns])
        self.mean, self.scale = wide([column.mean for column in columns]), wide([column.scale for column in columns])
        self.middle = wide([0.0 if column.bend is None else column.bend.middle for column in columns])
        self.width = wide([1.0 if column.bend is None else column.bend.width for column in columns])
        self.relative = wide([float(column.family.scaling == "scale") for column in columns]) > 0
        self.constant = wide([float(column.constant) for column in columns]) > 0
        self.judged_by_rarest = torch.tensor([bool(column.rarest) for column in columns])
        most = max((len(column.rarest) for column in columns), default=0)
        # The rarest categories in turn, in place of one that was never seen; elsewhere it stays infinite.
        self.rarest = [
            wide([column.rarest[number % len(column.rarest)] if column.rarest else math.inf for column in columns])
            for number in range(most)
        ]
        counts = [np.asarray(column.counts or ()) > 0.0 for column in columns]
        self.counted = torch.tensor([column.counts is not None for column in columns])
        self.first = torch.as_tensor(np.cumsum([0, *map(len, counts)])[:-1])
        self.known = torch.as_tensor(np.concatenate([*counts, [True]]))
        self.largest_code = torch.tensor([max(len(each) - 1, 0) for each in counts])

    def log_volume(self, x: Tensor) -> Tensor:
        """By how much log-densities of a circuit exceed those in the units of the data: (N,)."""
        strange = x.isinf()
        there = ~(strange | x.isnan())
        bent = torch.where(there, x.double(), 0.0) * self.scale + self.mean
        log_slope = bent.abs() + torch.log1p(torch.exp(-2.0 * bent.abs())) - math.log(2.0)
        return (there * (self.seen + self.bent * log_slope) - strange * self.unseen).sum(1)

    def log_units(self, x: Tensor) -> Tensor:
        """The part of it that is due to the units: (N,)."""
        return (~(x.isinf() | x.isnan())).double() @ self.log_scale

    def beyond(self, x: Tensor) -> Tensor:
        """Which rows hold a number that the training rows rule out: (N,)."""
        return (x.isinf() & ~self.judged_by_rarest).any(1)

    def unseen_share(self, x: Tensor) -> Tensor:
        """How rare the categories are that no training row holds: (N,), 1 without any."""
        return torch.where(x.isinf(), self.unseen_of_columns, 1.0).amin(1)

    def n_missing(self, x: Tensor) -> Tensor:
        """How many cells are missing, but for columns that are left out: (N,)."""
        return (x.isnan() & self.has_part).double().sum(1)

    def with_rarest(self, x: Tensor) -> list[Tensor]:
        """Rows with the rarest categories in place of those that no training row holds, once with each of them."""
        return [torch.where(x.isinf(), rarest.to(x.dtype), x) for rarest in self.rarest]

    def scaled(self, x: Tensor) -> Tensor:
        """Rows of another estimator as this table's encodes them: standardised, rounded, infinite where unseen."""
        codes = x.double()
        drawn = (codes - self.middle) / self.width
        drawn = torch.sign(drawn) * torch.log(drawn.abs() + torch.sqrt(drawn * drawn + 1.0))
        values = (torch.where(self.bent > 0, drawn, codes) - self.mean) / self.scale
        exponent = torch.floor(torch.log2(torch.where(values == 0, 1.0, values.abs()))) + 1.0
        grid = ROUNDED_TO * torch.where(self.relative, torch.exp2(exponent), 1.0)
        values = torch.where(values.isfinite(), torch.round(values / grid) * grid, values)
        finite = codes.isfinite()
        places = torch.minimum(torch.where(finite, codes, 0.0).long().clamp_min(0), self.largest_code) + self.first
        unseen = self.counted & finite & ~self.known[places]
        other = self.constant & ((codes - self.mean).abs() > SAME * self.mean.abs())
        return torch.where(codes.isinf() | unseen | other, torch.inf, values).to(x.dtype)
