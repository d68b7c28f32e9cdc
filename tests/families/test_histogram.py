from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from socratic.families import Histogram

HISTOGRAM = Histogram.of((0.1, 0.2, 0.3, 0.4, 0.0), low=-1.0, high=5.0)


def test_densities_are_shares_over_widths() -> None:
    inside = {-1.0: 0.2, 0.5: 0.2, 1.0: 0.3, 2.9: 0.3, 4.0: 0.4, 5.0: 0.4}
    for value, share in inside.items():
        assert HISTOGRAM.log_density(value) == pytest.approx(math.log(share / 2.0))
    assert HISTOGRAM.log_density(-1.5) == pytest.approx(math.log(0.1 / 2.0) - 0.25)
    assert HISTOGRAM.log_density(6.0) == -math.inf


def test_edges_are_read_alike_by_tensors() -> None:
    values = torch.tensor([[-1.5, -1.0, 0.5, 1.0, 2.9, 4.0, 5.0, 6.0]], dtype=torch.float64)
    parameters = HISTOGRAM.family.from_plain([HISTOGRAM.parameters])
    found = HISTOGRAM.family.log_density(parameters, values)[0]
    np.testing.assert_allclose(found, [HISTOGRAM.log_density(value) for value in values[0].tolist()])


def test_fitting_counts() -> None:
    family = Histogram(3, low=-1.0, high=5.0)
    values = np.array([-2.0, 0.0, 0.5, 1.0, 5.0])
    whole = family.fit_column(values)
    np.testing.assert_allclose(whole.parameters["probabilities"], (np.array([1, 2, 1, 1, 0]) + 0.2) / 6)
    part = family.fit_part(values[:1], whole, rows=0.0, min_variance=0.0)
    assert part.parameters["probabilities"] == (1.0, 0.0, 0.0, 0.0, 0.0)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"high must be above low; got low=1.0 and high=1.0"):
        Histogram(low=1.0)
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1; got 0"):
        Histogram(0)
    with pytest.raises(ValueError, match="must be those of a tail, one or more bins, and a tail"):
        Histogram.of((0.5, 0.5))
