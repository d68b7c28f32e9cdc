"""P-values in torch: the detector and conformal comparison, as :mod:`socratic.uncertainty` has them in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from socratic.uncertainty.by_class import OF_CLASS, SMALLEST, ClassConformal
from socratic.uncertainty.conformal import GRID_BITS, Conformal
from socratic.uncertainty.detector import CLEAR, COMBINED, Detector
from socratic.uncertainty.expected import ExpectedScores
from socratic.uncertainty.levels import Levels
from socratic.uncertainty.scores import TWO_SIDED
from socratic.uncertainty.surprise import LARGEST, Surprise

TorchScores = Mapping[str, Tensor]
"""Scores (N,) of rows by name, in float64."""


def wide(values: np.ndarray | Sequence[float]) -> Tensor:
    """A constant of float64."""
    return torch.as_tensor(np.asarray(values, dtype=np.float64).copy())


class Ascending:
    """Ascending numbers (n,) that others are looked up in: ``searchsorted``, which ONNX has not."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.n = len(numbers)
        self.values = wide(np.append(numbers, np.full(2 ** self.n.bit_length() - 1 - self.n, np.inf)))

    def n_below(self, values: Tensor) -> Tensor:
        """How many of them are less than each value (N,); all, if it is NaN."""
        place = torch.zeros_like(values, dtype=torch.long)
        for power in reversed(range(self.n.bit_length())):
            less = self.values[place + (2**power - 1)] < values
            place = torch.where(less, place + 2**power, place)
        return torch.where(values.isnan(), self.n, place)

    def between(self, x: Tensor, heights: Tensor) -> Tensor:
        """What is linear between the numbers, where it has these heights (n,), and constant beyond: at x (N,)."""
        if self.n == 1:
            return heights.expand_as(x)
        upper = self.n_below(x).clamp(1, self.n - 1)
        low, high = self.values[upper - 1], self.values[upper]
        # A step, where the same number is there twice, has the upper height.
        share = torch.where(high > low, (x - low) / (high - low), 1.0).clamp(0.0, 1.0)
        return heights[upper - 1] + share * (heights[upper] - heights[upper - 1])


def on_grid(values: Tensor) -> Tensor:
    """What :func:`~socratic.uncertainty.conformal.on_grid` makes of scores (N,) of at most ``LARGEST``."""
    magnitude = values.abs()
    there = magnitude <= LARGEST
    large = torch.where(there, magnitude, 1.0).clamp_min(1.0)
    exponent = torch.floor(torch.log2(large))
    # A logarithm may be rounded to the next whole number.
    exponent = exponent + (torch.exp2(exponent + 1.0) <= large).double() - (torch.exp2(exponent) > large).double()
    step = torch.exp2(exponent - GRID_BITS)
    return torch.where(there, torch.round(values / step) * step, values)


class TorchSurprise:
    """:class:`~socratic.uncertainty.surprise.Surprise`."""

    def __init__(self, surprise: Surprise) -> None:
        self.knots, self.values = Ascending(surprise.knots), wide(surprise.values)
        self.top, self.slope = surprise.top, surprise.slope

    def __call__(self, scores: Tensor) -> Tensor:
        """Surprises (N,) of scores (N,)."""
        # Not minimum and maximum: two in a row are fused into something that ONNX Runtime does not load.
        finite = torch.where(scores < -LARGEST, -LARGEST, scores)
        finite = torch.where(finite > LARGEST, LARGEST, finite)
        finite = on_grid(finite)
        if not self.knots.n:
            return finite
        excess = finite - self.knots.values[self.knots.n - 1]
        beyond = self.top + self.slope * excess
        return torch.where(excess > 0.0, beyond, self.knots.between(finite, self.values))


class TorchDetector:
    """The score of a :class:`~socratic.uncertainty.detector.Detector`."""

    def __init__(self, detector: Detector) -> None:
        self.kind = detector.kind
        self.weights = {name: weight for name, weight in detector.weights.items() if weight > 0.0}
        self.surprises = {name: TorchSurprise(each) for name, each in detector.surprises.items()}

    def __call__(self, scores: TorchScores) -> Tensor:
        """Unusualness (N,) of rows from their scores."""
        if self.kind in TWO_SIDED:
            return self._two_sided(self.kind, scores)
        if self.kind != COMBINED:
            return scores[self.kind]
        parts = []
        for name, weight in self.weights.items():
            if name in TWO_SIDED:
                surprise = (self._two_sided(name, scores) - CLEAR).clamp_min(0.0)
            else:
                surprise = self.surprises[name](scores[name])
            parts.append(weight * surprise)
        return torch.stack(parts).sum(0)

    def _two_sided(self, name: str, scores: TorchScores) -> Tensor:
        values = scores[name]
        return torch.maximum(self.surprises[name](values), self.surprises[f"-{name}"](-values))


def mean(scores: Sequence[Tensor]) -> Tensor:
    """The mean (N,) of the scores (N,) that the models of all folds give."""
    return torch.stack([on_grid(score) for score in scores]).mean(0)


class TorchConformal:
    """The p-values of a :class:`~socratic.uncertainty.conformal.Conformal`."""

    def __init__(self, conformal: Conformal) -> None:
        self.total = conformal.worth + 1.0
        self.scores = Ascending(conformal.scores)
        self.above = wide(np.append(np.cumsum(conformal.weights[::-1])[::-1], 0.0))

    def __call__(self, scores: Tensor) -> Tensor:
        """P-values (N,) of rows from their scores (N,)."""
        if not self.scores.n:
            return torch.ones_like(scores)
        return (self.above[self.scores.n_below(on_grid(scores))] + 1.0) / self.total


class TorchClassConformal:
    """The p-values of a :class:`~socratic.uncertainty.by_class.ClassConformal`."""

    def __init__(self, conformal: ClassConformal) -> None:
        self.classes = {number: TorchConformal(each) for number, each in conformal.classes.items()}
        self.others = None if conformal.others is None else TorchConformal(conformal.others)

    def __call__(self, scores: Sequence[Tensor], probabilities: Sequence[Tensor]) -> Tensor:
        """P-values (N,) of rows from their scores (N,) and probabilities (N, C) by each fold."""
        found = [] if self.others is None else [self.others(mean(scores))]
        for number, each in self.classes.items():
            known = [part[:, number].clamp_min(SMALLEST) for part in probabilities]
            of_class = [score - OF_CLASS * torch.log(part) for score, part in zip(scores, known, strict=True)]
            found.append(each(mean(of_class)))
        return torch.stack(found).amax(0)


class TorchExpected:
    """What :class:`~socratic.uncertainty.expected.ExpectedScores` makes of the scores of rows with missing cells."""

    def __init__(self, expected: ExpectedScores) -> None:
        self.parts = {name: (wide(expected.mean[name]), wide(expected.log_variance[name])) for name in expected.mean}

    def __call__(self, scores: TorchScores, observed: Tensor) -> dict[str, Tensor]:
        """Scores as unusual for complete rows as the given ones are for rows with these cells (N, V)."""
        there = observed.double()
        share = there.mean(1, keepdim=True)
        missing = torch.cat([torch.zeros_like(share), 1.0 - share, -share * (1.0 - share), 1.0 - there], 1)
        complete = observed.all(1)
        found = dict(scores)
        for name, (mean, log_variance) in self.parts.items():
            if name not in scores:
                continue
            # What the cells that are missing add: the mean of complete rows less that of rows with these cells.
            more, spread = missing @ mean, torch.exp(0.5 * missing @ log_variance)
            of_whole = mean[0] + mean[1] + mean[3:].sum()
            moved = of_whole + (scores[name] - (of_whole - more)) * spread
            found[name] = torch.where(complete, scores[name], moved)
        return found


class TorchLevels:
    """What :class:`~socratic.uncertainty.levels.Levels` makes of scores."""

    def __init__(self, levels: Levels) -> None:
        self.n_missing, self.near = Ascending(levels.n_missing), wide(np.eye(len(levels.n_missing)))
        self.parts = []
        for number in range(len(levels.n_missing)):
            knots, values = levels.level(number)
            self.parts.append((Ascending(knots), wide(values), levels.slope(number) if len(knots) else 1.0))
        self.below, self.scores = Ascending(levels.below), wide(levels.scores)

    def __call__(self, scores: Tensor, n_missing: Tensor, unseen: Tensor) -> Tensor:
        """Scores (N,) of rows that miss so many cells (N,), and hold something unseen that is so rare (N,)."""
        found, endless = torch.zeros_like(scores), scores.abs() == torch.inf
        given = torch.where(endless, 0.0, on_grid(scores))
        for near, (knots, values, slope) in zip(self.near, self.parts, strict=True):
            share = self.n_missing.between(n_missing, near)
            moved = given
            if knots.n:
                first, last = knots.values[0], knots.values[knots.n - 1]
                excess = torch.where(given > last, given - last, torch.where(given < first, given - first, 0.0))
                moved = knots.between(given, values) + slope * excess
            found = torch.where(share > 0.0, found + share * moved, found)
        found = torch.where(endless, scores, found)
        least = self.below.between(1.0 - unseen, self.scores)
        return torch.where((unseen < 1.0) & (found < least), least, found)
