from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from socratic.families import Exponential


def test_densities_are_scipys() -> None:
    values = np.array([0.0, 1e-3, 2.0, 50.0])
    for mean in (1e-2, 1.0, 30.0):
        found = [Exponential.of(mean).log_density(value) for value in values]
        np.testing.assert_allclose(found, stats.expon.logpdf(values, scale=mean), rtol=1e-12)


def test_wrong_means_are_named() -> None:
    with pytest.raises(ValueError, match="mean must be a finite number of at least 1e-12; got -1"):
        Exponential.of(-1)
