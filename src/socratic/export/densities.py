"""Fitted densities and outlier detectors as exported programs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.estimators.base import CircuitEstimator
from socratic.estimators.density import DensityBase
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.export.circuits import Likelihood, MomentPosterior
from socratic.export.familiarity import TorchConformal, mean
from socratic.export.outputs import Exported
from socratic.export.reading import Reading

_OF_MOMENTS = ("relative_std", "log_std")


class ExportedDensity(Exported):
    """A density of tables, from encoded rows (N, V), or of images, from bytes (N, H, W, channels)."""

    def __init__(self, model: CircuitEstimator) -> None:
        super().__init__()
        self.reading, self.likelihood = Reading(model), Likelihood(model.circuit_)
        self.example = self.reading.example
        self.moments: MomentPosterior | None = None
        self.refused = {}
        self.available: tuple[str, ...] = ("log_likelihood",)
        if isinstance(model, DensityBase):
            self._doubt(model)
        self.names = self.available

    def _doubt(self, model: DensityBase) -> None:
        """Set the moments over what is in doubt, or why there are none."""
        uncertain, reason = model._uncertain(), "leaf_variance makes the moments depend on which columns are missing"
        if uncertain.leaf_variance is None:
            self.moments = MomentPosterior(model.circuit_, uncertain.doubt)
            reason = self.moments.refused or ""
        if reason:
            self.refused = dict.fromkeys(_OF_MOMENTS, reason)
        else:
            self.available = (*self.available, *_OF_MOMENTS)

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """Of rows as :attr:`example` has them; NaN is missing, infinite what training rows do not hold."""
        rows = self.reading(x)
        found = {"log_likelihood": self.likelihood(rows).squeeze(1).double() - self.reading.log_volume(x)}
        if self.moments is not None and wanted & {*_OF_MOMENTS}:
            log_mean, covariance = (part.flatten().double() for part in self.moments.moments(rows))
            variance = torch.where(log_mean == -torch.inf, 0.0, covariance).clamp_min(0.0)
            found |= {"relative_std": variance.sqrt(), "log_std": torch.log1p(variance).sqrt()}
        return found


class _Judge:
    """How unusual one detector finds rows, which may be a fold of another."""

    def __init__(self, model: CircuitOutlierDetector) -> None:
        self.reading = Reading(model)
        self.likelihood = Likelihood(model.divided_ or model.circuit_)

    def __call__(self, x: Tensor) -> Tensor:
        """Unusualness (N,) of encoded rows (N, V)."""
        comparison = self.reading.comparison
        copies = x if comparison is None else comparison.copies(x)
        rows = self.reading(copies)
        score = self.reading.log_volume(copies) - self.likelihood(rows).mean(1).double()
        return score if comparison is None else comparison({"log_likelihood": score}, copies)["log_likelihood"]


class ExportedDetector(ExportedDensity):
    """An outlier detector: a density, and how familiar rows are."""

    def __init__(self, model: CircuitOutlierDetector) -> None:
        super().__init__(model)
        self.judge, self.folds = _Judge(model), [_Judge(fold) for fold in model.folds_]
        self.conformal, self.rate = TorchConformal(model.conformal_), model._rate()
        self.available = self.names = (*self.available, "p_value", "unfamiliar")

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """Of encoded rows (N, V); NaN is missing, infinite what training rows do not hold."""
        found: dict[str, Any] = super().outputs(x, wanted)
        if wanted & {"p_value", "unfamiliar"}:
            readers = [(fold, fold.reading.rescaled(x)) for fold in self.folds] or [(self.judge, x)]
            scores = [self.reading.on_one_level(judge(rows), x, judge.reading.unseen(rows)) for judge, rows in readers]
            found["p_value"] = self.conformal(mean(scores))
            found["unfamiliar"] = found["p_value"] <= self.rate
        return found
