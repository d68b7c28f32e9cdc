from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from socratic.circuit.leaves import LeafLayer
from socratic.families import Poisson


def test_probabilities_are_scipys() -> None:
    counts = np.array([0.0, 1.0, 7.0, 200.0])
    for rate in (1e-3, 0.7, 150.0):
        found = [Poisson.of(rate).log_density(count) for count in counts]
        np.testing.assert_allclose(found, stats.poisson.logpmf(counts, rate), rtol=1e-12)


def test_large_counts_keep_their_digits_in_float32() -> None:
    layer = LeafLayer([Poisson()], [(0,)], 3)
    with torch.no_grad():
        layer.leaf_groups()[0].values["log_rate"].copy_(torch.tensor([[8.0, 8.1, 8.2]]))
    x = torch.tensor([[2900.0], [3000.0], [3300.0]])
    single = layer.log_density(x).detach()
    double = layer.double().log_density(x.double()).detach()
    assert float((single - double).abs().max()) < 1e-2


def test_wrong_rates_are_named() -> None:
    with pytest.raises(ValueError, match=r"rate must be a finite number of at least 1e-12; got 0.0"):
        Poisson.of(0.0)
