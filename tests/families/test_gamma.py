from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from socratic.circuit.leaves import LeafLayer
from socratic.families import Gamma


def test_densities_are_scipys() -> None:
    values = np.array([1e-3, 0.5, 2.0, 50.0])
    for shape, mean in ((1.0, 1.0), (2.5, 0.3), (40.0, 30.0)):
        found = [Gamma.of(shape, mean).log_density(value) for value in values]
        np.testing.assert_allclose(found, stats.gamma.logpdf(values, shape, scale=mean / shape), rtol=1e-10)


@pytest.mark.parametrize("shape", [1.5, 7.0, 300.0])
def test_fitting_is_scipys_maximum_likelihood(shape: float) -> None:
    values = stats.gamma.rvs(shape, scale=2.0, size=500, random_state=0)
    found = Gamma().fit_column(values)
    expected, _, scale = stats.gamma.fit(values, floc=0)
    assert found.parameters == {"shape": pytest.approx(expected, rel=1e-4), "mean": pytest.approx(expected * scale)}


def test_data_without_a_peak_get_the_smallest_shape() -> None:
    values = stats.gamma.rvs(0.3, size=500, random_state=0) + 1e-9
    assert Gamma().fit_column(values).parameters["shape"] == pytest.approx(1.0, abs=1e-4)


def test_narrow_leaves_keep_their_digits_in_float32() -> None:
    layer = LeafLayer([Gamma()], [(0,)], 3)
    with torch.no_grad():
        layer.leaf_groups()[0].values["log_excess"].fill_(9.0)
        layer.leaf_groups()[0].values["log_mean"].copy_(torch.tensor([[0.0, 0.01, 0.02]]))
    x = torch.tensor([[0.98], [1.0], [1.03]])
    single = layer.log_density(x).detach()
    double = layer.double().log_density(x.double()).detach()
    assert float((single - double).abs().max()) < 1e-2


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match=r"shape must be a finite number of at least 1; got 0.5"):
        Gamma.of(0.5, 1.0)
    with pytest.raises(ValueError, match=r"mean must be a finite number of at least 1e-12; got 0.0"):
        Gamma.of(2.0, 0.0)
