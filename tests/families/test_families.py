from __future__ import annotations

import math

import pytest
import torch

from socratic.circuit.leaves import LeafLayer
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian, as_family, family_from_dict

FAMILIES = [
    (Gaussian(), [-2.0, 0.0, 0.4, 30.0]),
    (Gaussian(min_variance=0.01, max_variance=2.0), [-2.0, 1.5]),
    (Gaussian(min_variance=0.0, max_variance=None), [-2.0, 1.5]),
    (Bernoulli(), [0.0, 1.0]),
    (Categorical(4), [0.0, 1.0, 3.0]),
    (Binomial(9), [0.0, 4.0, 9.0]),
]


@pytest.mark.parametrize(("family", "values"), FAMILIES)
def test_tensor_densities_equal_those_of_single_leaves(family: Family, values: list[float]) -> None:
    layer = LeafLayer([family] * 2, [(0, 1), (1,)], 3).double()
    layer.reset_parameters(torch.Generator().manual_seed(0))
    x = torch.tensor([[a, b] for a in values for b in values], dtype=torch.float64)
    found = layer.log_density(x).detach()
    single = layer.distributions()
    for region, scope in enumerate(layer.scopes):
        for leaf in range(3):
            for row in range(len(x)):
                expected = sum(single[region][v][leaf].log_density(float(x[row, v])) for v in scope)
                assert float(found[region, leaf, row]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


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


@pytest.mark.parametrize("family", [family for family, _ in FAMILIES])
def test_families_survive_their_dictionaries(family: Family) -> None:
    assert family_from_dict(family.to_dict()) == family


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


@pytest.mark.parametrize("family", [family for family, _ in FAMILIES])
def test_means_variances_and_modes_are_those_of_single_leaves(family: Family) -> None:
    layer = LeafLayer([family], [(0,)], 40).double()
    layer.reset_parameters(torch.Generator().manual_seed(0))
    (group,) = layer.leaf_groups()
    parameters = {name: value.detach() for name, value in group.parameter_values().items()}
    means, variances, modes = family.mean(parameters), family.variance(parameters), family.mode(parameters)
    densities = family.log_density(parameters, modes.unsqueeze(-1)).squeeze(-1)
    for leaf in range(40):
        single = layer.distributions()[0][0][leaf]
        if family.name == "gaussian":
            mean, variance = single.parameters["mean"], single.parameters["variance"]
            expected = (mean, variance, mean)
        else:
            probability = [math.exp(single.log_density(value)) for value in range(family.n_values or 0)]
            mean = sum(value * p for value, p in enumerate(probability))
            spread = sum((value - mean) ** 2 * p for value, p in enumerate(probability))
            expected = (mean, spread, float(probability.index(max(probability))))
        found = (means[0, leaf].item(), variances[0, leaf].item(), modes[0, leaf].item())
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert densities[0, leaf].item() == pytest.approx(single.log_density(expected[2]), rel=1e-9)
