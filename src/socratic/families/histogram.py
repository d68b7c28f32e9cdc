"""Histogram leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_count, check_number
from socratic.families.base import (
    MARGIN,
    Distribution,
    ExponentialFamily,
    Parameters,
    Plain,
    Scaling,
    check_probabilities,
    column,
)

_INSIDE = 1e-6
"""How far inside a tail its most probable value is, in bins: the edge itself belongs to the bin beside it."""


@dataclass(frozen=True)
class Histogram(ExponentialFamily):
    """Leaves over the real numbers whose density has any shape: bins of equal width, and two tails.

    There are ``n_bins + 2`` cells. The first and the last are tails in which the density falls off exponentially, by
    a factor e for each width of a bin.

    Parameters
    ----------
    n_bins : int
    low, high : float
        Where the bins begin and end. Columns of tables are scaled to 0 to 1, the default.
    """

    name: ClassVar[str] = "histogram"
    real: ClassVar[bool] = True
    scaling: ClassVar[Scaling] = "range"
    n_bins: int = 20
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_bins", check_count("n_bins", self.n_bins))
        object.__setattr__(self, "low", check_number("low", self.low))
        object.__setattr__(self, "high", check_number("high", self.high))
        if not self.low < self.high:
            raise ValueError(f"high must be above low; got low={self.low!r} and high={self.high!r}")

    @property
    def _width(self) -> float:
        return (self.high - self.low) / self.n_bins

    @property
    def _n_cells(self) -> int:
        return self.n_bins + 2

    @classmethod
    def of(cls, probabilities: Sequence[float], low: float = 0.0, high: float = 1.0) -> Distribution:
        """The histogram with these probabilities: of the tail below, of each bin, and of the tail above."""
        known = check_probabilities(probabilities)
        if len(known) < 3:
            raise ValueError(f"probabilities must be those of a tail, one or more bins, and a tail; got {known!r}")
        family = cls(len(known) - 2, low, high)
        return Distribution(family, {"probabilities": known, "low": family.low, "high": family.high})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        beyond = max(self.low - value, value - self.high, 0.0)
        cell = min(math.floor((value - self.low) / self._width), self.n_bins - 1) + 1
        cell = 0 if value < self.low else self.n_bins + 1 if value > self.high else cell
        chance = plain["probabilities"][cell]
        return math.log(chance / self._width) - beyond / self._width if chance > 0 else -math.inf

    def describe(self, plain: Plain) -> str:
        peak = self.mode(self.from_plain([plain])).item()
        return f"histogram: {self.n_bins} bins from {self.low:.3g} to {self.high:.3g}, highest at {peak:.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        rows = torch.softmax(parameters["logits"], dim=-1).tolist()
        return [{"probabilities": tuple(row), "low": self.low, "high": self.high} for row in rows]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        probabilities = column(members, "probabilities")
        return {"logits": torch.log(probabilities / probabilities.sum(-1, keepdim=True))}

    @property
    def neutral(self) -> Plain:
        return {"probabilities": (1.0 / self._n_cells,) * self._n_cells, "low": self.low, "high": self.high}

    @property
    def neutral_rows(self) -> float:
        return 1.0

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logits": torch.empty(n_slots, n_leaves, self._n_cells)}

    def _cells(self, values: Tensor) -> Tensor:
        """The cell of each value, from 0 to ``n_bins + 1``."""
        bins = torch.floor((values - self.low) / self._width).clamp(0, self.n_bins - 1) + 1
        return torch.where(values < self.low, 0, torch.where(values > self.high, self.n_bins + 1, bins))

    def _log_shape(self, values: Tensor) -> Tensor:
        """Log-density of each value within its cell."""
        beyond = torch.relu(self.low - values) + torch.relu(values - self.high)
        return -math.log(self._width) - beyond / self._width

    def _centres(self, like: Tensor) -> Tensor:
        """The mean of each cell: (cells,).

        Entries are not assigned one by one: a GPU that records a training step takes no numbers from the host.
        """
        cell = torch.arange(self._n_cells, dtype=like.dtype, device=like.device)
        tails = (cell > self.n_bins).to(like.dtype) - (cell < 1).to(like.dtype)  # whose mean is a width from the edge
        return self.low + self._width * (cell - 0.5 + 0.5 * tails)

    def mean(self, parameters: Parameters) -> Tensor:
        chances = torch.softmax(parameters["logits"], dim=-1)
        return chances @ self._centres(chances)

    def variance(self, parameters: Parameters) -> Tensor:
        chances = torch.softmax(parameters["logits"], dim=-1)
        cell = torch.arange(self._n_cells, dtype=chances.dtype, device=chances.device)
        within = torch.where((cell < 1) | (cell > self.n_bins), 1.0, 1 / 12).to(chances.dtype)
        deviation = self._centres(chances) - self.mean(parameters).unsqueeze(-1)
        return (chances * (deviation * deviation + self._width**2 * within)).sum(-1)

    def mode(self, parameters: Parameters) -> Tensor:
        like = parameters["logits"]
        values = self._centres(like)
        values[0], values[-1] = self.low - _INSIDE * self._width, self.high + _INSIDE * self._width
        return values[like.argmax(-1)]

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        chances = torch.softmax(parameters["logits"].to(probability), dim=-1)
        cumulated = chances.cumsum(-1)
        wanted = probability.unsqueeze(-1) * cumulated[:, -1:]  # the total is 1 up to rounding
        cell = torch.searchsorted(cumulated, wanted)
        above = (cumulated.gather(-1, cell) - wanted) / chances.gather(-1, cell)  # share of the cell, from 0 to 1
        above, cell = above.squeeze(-1), cell.squeeze(-1)
        inside = self.low + self._width * (cell - above)
        below_low = self.low + self._width * torch.log1p(-above)
        above_high = self.high - self._width * torch.log(above.clamp_min(torch.finfo(above.dtype).tiny))
        return torch.where(cell == 0, below_low, torch.where(cell == self.n_bins + 1, above_high, inside))

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        log_chances = torch.log_softmax(parameters["logits"], dim=-1)
        return log_chances.gather(-1, self._cells(values).long()) + self._log_shape(values)

    @property
    def n_statistics(self) -> int:
        return self._n_cells + 1

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        cells = self._cells(values)
        return [*((cells == cell).to(values.dtype) for cell in range(self._n_cells)), self._log_shape(values)]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        log_chances = torch.log_softmax(parameters["logits"], dim=-1).mT
        return torch.cat([log_chances, torch.ones_like(log_chances[:, :1])], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        chances = torch.softmax(parameters["logits"], dim=-1).mT
        log_shape = -math.log(self._width) - (chances[:, :1] + chances[:, -1:])
        return torch.cat([chances, log_shape], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        return {"logits": torch.log(expected[:, :-1].clamp_min(margin)).mT}

    def mass(self, totals: Tensor) -> Tensor:
        return totals[:, :-1].sum(1, keepdim=True)

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        """Counts, smoothed by the whole column."""
        cells = self._cells(torch.from_numpy(values)).long().numpy()
        counts = np.bincount(cells, minlength=self._n_cells) + rows * np.array(whole.parameters["probabilities"])
        return self.of((counts / counts.sum()).tolist(), self.low, self.high) if counts.sum() > 0 else whole
