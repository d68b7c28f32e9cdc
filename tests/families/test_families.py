from __future__ import annotations

import math

import pytest
import torch

from socratic.circuit.leaves import LeafLayer
from socratic.families import Binomial, Categorical, Gaussian, as_family


def test_variance_bounds() -> None:
    parameters = {"raw_variance": torch.tensor([-1e4, 0.0, 1e4])}
    assert Gaussian().variance(parameters).tolist() == pytest.approx([0.1, 0.55, 1.0])
    free = Gaussian(min_variance=0.0, max_variance=None).variance({"raw_variance": torch.tensor([0.0, 2.0])})
    assert free.tolist() == pytest.approx([1.0, math.exp(2.0)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(min_variance=-1.0), "min_variance must be a number of at least 0; got -1.0"),
        (lambda: Gaussian(min_variance=2.0), "0 < min_variance < max_variance; got 2.0 and 1.0"),
        (lambda: Categorical(0), "n_categories must be a whole number of at least 1; got 0"),
        (lambda: Binomial(2.5), "n_trials must be a whole number of at least 1; got 2.5"),
        (lambda: as_family("cauchy"), "leaf must be one of 'gaussian', 'bernoulli', 'categorical', 'binomial'"),
    ],
)
def test_bad_settings_are_named(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_shifted_data_keeps_its_digits_in_float32() -> None:
    """Data far from zero: the natural parameters are taken relative to the leaves, or the squares would cancel."""
    layer = LeafLayer([Gaussian()] * 50, [tuple(range(50))], 4)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.leaf_groups()[0].values["mean"].add_(1000.0)
    x = 1000.0 + torch.randn(20, 50, generator=torch.Generator().manual_seed(1))
    single = layer.log_density(x).detach()
    double = layer.double().log_density(x.double()).detach()
    assert float((single - double).abs().max()) < 1e-3


def test_binomial_base_measure_does_not_cancel_in_float32() -> None:
    layer = LeafLayer([Binomial(255)] * 50, [tuple(range(50))], 4)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    x = torch.randint(0, 256, (20, 50), generator=torch.Generator().manual_seed(1)).float()
    single = layer.log_density(x).detach()
    double = layer.double().log_density(x.double()).detach()
    assert float(((single - double) / double).abs().max()) < 1e-5
