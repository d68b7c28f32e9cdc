"""Distributions of single leaf nodes: frozen, tiny, in plain Python floats.

They are what the node view of a circuit (:mod:`socratic.circuit.nodes`) is made of. The tensor code does not
use them, so each is a check on the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Normal:
    """Gaussian with this mean and variance."""

    mean: float
    variance: float

    def log_density(self, value: float) -> float:
        """Log-density at ``value``."""
        return -0.5 * (math.log(2 * math.pi * self.variance) + (value - self.mean) ** 2 / self.variance)


@dataclass(frozen=True)
class Bernoulli:
    """1 with probability ``probability``, otherwise 0."""

    probability: float

    def log_density(self, value: float) -> float:
        """Log-probability of ``value``."""
        return _log({0.0: 1.0 - self.probability, 1.0: self.probability}.get(float(value), 0.0))


@dataclass(frozen=True)
class Categorical:
    """Category ``k`` with probability ``probabilities[k]``."""

    probabilities: tuple[float, ...]

    def log_density(self, value: float) -> float:
        """Log-probability of ``value``."""
        known = float(value).is_integer() and 0 <= value < len(self.probabilities)
        return _log(self.probabilities[int(value)]) if known else -math.inf


@dataclass(frozen=True)
class Binomial:
    """Number of successes in ``n_trials`` trials of this probability."""

    n_trials: int
    probability: float

    def log_density(self, value: float) -> float:
        """Log-probability of ``value``."""
        if not (float(value).is_integer() and 0 <= value <= self.n_trials):
            return -math.inf
        hits, misses = int(value), self.n_trials - int(value)
        return (
            math.log(math.comb(self.n_trials, hits))
            + (hits * _log(self.probability) if hits else 0.0)
            + (misses * _log(1.0 - self.probability) if misses else 0.0)
        )


Distribution = Normal | Bernoulli | Categorical | Binomial


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0.0 else -math.inf
