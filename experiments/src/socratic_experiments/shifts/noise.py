"""Corruptions that change every value by itself. Images are float32 (N, C, H, W) from 0 to 1."""

from __future__ import annotations

import numpy as np

from socratic_experiments.shifts.pixels import Draws


def gaussian_noise(x: np.ndarray, deviation: float, draws: Draws) -> np.ndarray:
    """Add Gaussian noise: the noise of a sensor in poor light."""
    return x + np.float32(deviation) * draws.fields.standard_normal(x.shape, dtype=np.float32)


def shot_noise(x: np.ndarray, n_photons: float, draws: Draws) -> np.ndarray:
    """Replace values by Poisson counts with that mean: light that arrives in ``n_photons`` parts."""
    return (draws.fields.poisson(x * n_photons) / n_photons).astype(np.float32)


def impulse_noise(x: np.ndarray, share: float, draws: Draws) -> np.ndarray:
    """Set a share of the values to 0 or 1, one as often as the other: broken pixels."""
    chance = draws.fields.random(x.shape, dtype=np.float32)
    return np.where(chance < share, (chance < share / 2).astype(np.float32), x)
