from __future__ import annotations

import math

import pytest
import torch

from socratic.distributions import Bernoulli, Binomial, Categorical, Distribution, Normal


@pytest.mark.parametrize(
    ("ours", "theirs", "values"),
    [
        (Normal(0.3, 0.5), torch.distributions.Normal(0.3, math.sqrt(0.5)), (-2.0, 0.0, 1.7)),
        (Bernoulli(0.3), torch.distributions.Bernoulli(0.3), (0.0, 1.0)),
        (Categorical((0.2, 0.5, 0.3)), torch.distributions.Categorical(torch.tensor([0.2, 0.5, 0.3])), (0.0, 1.0, 2.0)),
        (Binomial(7, 0.4), torch.distributions.Binomial(7, torch.tensor(0.4)), (0.0, 3.0, 7.0)),
    ],
)
def test_log_densities_equal_torchs(
    ours: Distribution, theirs: torch.distributions.Distribution, values: tuple[float, ...]
) -> None:
    for value in values:
        assert ours.log_density(value) == pytest.approx(float(theirs.log_prob(torch.tensor(value))), abs=1e-5)


@pytest.mark.parametrize(
    ("distribution", "value"),
    [(Bernoulli(0.5), 0.5), (Categorical((0.5, 0.5)), 2.0), (Binomial(3, 0.5), 4.0), (Bernoulli(0.0), 1.0)],
)
def test_impossible_values_have_no_probability(distribution: Distribution, value: float) -> None:
    assert distribution.log_density(value) == -math.inf


def test_certain_outcomes() -> None:
    assert Binomial(3, 1.0).log_density(3.0) == 0.0
    assert Bernoulli(1.0).log_density(1.0) == 0.0
