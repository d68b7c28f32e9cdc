"""How models read encoded rows, and how they compare the scores of rows that miss cells."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.estimators.base import CircuitEstimator
from socratic.export.familiarity import TorchExpected, TorchLevels, TorchScores
from socratic.export.tables import Cells
from socratic.tables.inputs import known
from socratic.uncertainty.expected import ExpectedScores
from socratic.uncertainty.scores import LIKELIHOODS


class Reading:
    """What a fitted estimator reads: encoded rows (N, V) of a table, or the bytes (N, H, W, channels) of images.

    Attributes
    ----------
    example : Tensor (2, ...)
        Rows of the shape and type that it reads.
    cells : Cells or None
        Of a table.
    comparison : Comparison or None
        Of an estimator of tables that was calibrated.
    """

    def __init__(self, model: CircuitEstimator) -> None:
        circuit, table = model.circuit_, getattr(model, "table_", None)
        self.encoder: Any = getattr(model, "encoder_", None)
        self.cells = None if table is None else Cells(table)
        expected = getattr(model, "expected_", None)
        self.comparison = None if self.cells is None or expected is None else Comparison(self.cells, expected)
        levels = getattr(model, "levels_", None)
        self.levels = None if levels is None else TorchLevels(levels)
        image_shape = getattr(model, "image_shape_", None)
        if image_shape is None:
            self.example = torch.zeros(2, circuit.n_features, dtype=circuit.dtype)
        else:
            self.example = torch.zeros(2, *image_shape, dtype=torch.uint8)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows (N, V) as the circuit reads them."""
        return known(x) if self.encoder is None else self.encoder(x.permute(0, 3, 1, 2).flatten(1))

    def log_volume(self, x: Tensor) -> Any:
        """By how much log-densities of the circuit exceed those in the units of the data: (N,), or a number."""
        return self.encoder.log_scale if self.cells is None else self.cells.log_volume(x)

    def on_one_level(self, scores: Tensor, x: Tensor, unseen: Tensor | None) -> Tensor:
        """Scores (N,) that p-values compare, from those of this model or a fold of it, for rows that this one reads."""
        if self.levels is None or self.cells is None or unseen is None:
            return scores
        return self.levels(scores, self.cells.n_missing(x), unseen)

    def unseen(self, x: Tensor) -> Tensor | None:
        """How rare what is unseen in rows of a table is: (N,)."""
        return None if self.cells is None else self.cells.unseen_share(x)

    def rescaled(self, x: Tensor) -> Tensor:
        """What another estimator's circuit reads, as that of this one, a fold of it, reads it."""
        assert self.cells is not None  # images are not cross-fitted
        return self.cells.scaled(x)


class Comparison:
    """Scores that are comparable whatever cells of rows are missing, or hold what no training row does."""

    def __init__(self, cells: Cells, expected: ExpectedScores) -> None:
        self.cells, self.expected = cells, TorchExpected(expected)

    def copies(self, x: Tensor) -> Tensor:
        """Rows (N, V), and once more with each of the rarest categories in place of those never seen: (M N, V)."""
        return torch.cat([x, *self.cells.with_rarest(x)])

    def __call__(self, scores: TorchScores, copies: Tensor) -> dict[str, Tensor]:
        """Scores (N,) of rows by those (M N,) of their copies, of which the most unusual counts."""
        units = self.cells.log_units(copies)
        unitless = {name: scores[name] - units for name in LIKELIHOODS if name in scores}
        compared = self.expected({**scores, **unitless}, ~copies.isnan())
        beyond = self.cells.beyond(copies)
        found = {name: torch.where(beyond, torch.inf, values) for name, values in compared.items()}
        n_copies = 1 + len(self.cells.rarest)
        if n_copies == 1:
            return found
        n_rows = copies.shape[0] // n_copies
        strange = copies[:n_rows].isinf().any(1)
        by_copy = {name: values.unflatten(0, (n_copies, n_rows)) for name, values in found.items()}
        return {name: torch.where(strange, each.amax(0), each[0]) for name, each in by_copy.items()}
