"""The queries that no other library has: moments over dropout masks and over weights, and Monte Carlo dropout."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import socratic

DROPOUT = 0.2
N_PASSES = 100
CHECKED_ROWS = 4
LARGEST_ERROR = 1e-3
"""Of a relative variance in float32 beside float64, as a share of it."""
LARGEST_SCORE = 4.0
"""Median standard score of sampled means under the exact moments; about 0.7 where they agree."""


@dataclass(frozen=True)
class Ready:
    """A circuit, rows, and what doubt about the weights the rows leave."""

    circuit: socratic.Circuit
    x: Tensor
    posterior: socratic.WeightPosterior

    @classmethod
    def of(cls, circuit: socratic.Circuit, x: Tensor, y: Tensor) -> Ready:
        """Get ready."""
        with torch.no_grad():
            return cls(circuit, x, socratic.weight_posterior(circuit, x, y, prior_strength=100.0))

    @torch.no_grad()
    def run(self, name: str) -> None:
        """Ask the query of this name."""
        QUERIES[name](self)

    @torch.no_grad()
    def errors(self) -> dict[str, float]:
        """The error of each query, as a multiple of the largest that is allowed."""
        few = replace(self, x=self.x[:CHECKED_ROWS])
        wide = replace(few, circuit=copy.deepcopy(self.circuit).double(), x=few.x.double())
        found = {}
        for name, query in MOMENTS.items():
            relative = query(few).relative_variance / query(wide).relative_variance
            found[name] = float((relative - 1.0).abs().max()) / LARGEST_ERROR
        return found | {name: few.score(masks) / LARGEST_SCORE for name, masks in PASSES.items()}

    def score(self, masks: Any) -> float:
        """Median |z| of the sampled mean likelihoods under the exact moments."""
        exact = tdi(self, masks)
        passes = socratic.sample_log_likelihoods(self.circuit, self.x, dropout=DROPOUT, masks=masks, n_passes=N_PASSES)
        relative = torch.stack([torch.exp(value - exact.log_mean) for value in passes]).mean(0)
        deviation = torch.sqrt(exact.relative_variance / N_PASSES)
        return float(((relative - 1.0) / deviation).abs().median())


def tdi(ready: Ready, masks: Any, **settings: Any) -> socratic.Moments:
    """Moments over dropout masks."""
    return socratic.tdi(ready.circuit, ready.x, dropout=DROPOUT, masks=masks, **settings)


def sampled(ready: Ready, masks: Any) -> socratic.Posterior:
    """The class posterior by Monte Carlo dropout."""
    return socratic.monte_carlo_dropout(ready.circuit, ready.x, dropout=DROPOUT, masks=masks, n_passes=N_PASSES)


MOMENTS: Mapping[str, Callable[[Ready], socratic.Moments]] = {
    "TDI without covariances": partial(tdi, masks="edge", covariance="independent"),
    "exact TDI, edge masks": partial(tdi, masks="edge"),
    "exact TDI, unit masks": partial(tdi, masks="unit"),
    "exact moments, Dirichlet weights": lambda ready: socratic.moments(ready.circuit, ready.x, ready.posterior),
}
PASSES = {f"{N_PASSES} Monte Carlo passes, {masks} masks": masks for masks in ("edge", "unit")}
QUERIES: Mapping[str, Callable[[Ready], Any]] = {
    **MOMENTS,
    **{name: partial(sampled, masks=masks) for name, masks in PASSES.items()},
}
