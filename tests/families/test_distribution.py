from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from socratic.families import Bernoulli, Binomial, Categorical, Distribution, Gaussian


@pytest.mark.parametrize(
    ("ours", "theirs", "values"),
    [
        (Gaussian.of(0.3, 0.5), torch.distributions.Normal(0.3, math.sqrt(0.5)), (-2.0, 0.0, 1.7)),
        (Bernoulli.of(0.3), torch.distributions.Bernoulli(0.3), (0.0, 1.0)),
        (
            Categorical.of((0.2, 0.5, 0.3)),
            torch.distributions.Categorical(torch.tensor([0.2, 0.5, 0.3])),
            (0.0, 1.0, 2.0),
        ),
        (Binomial.of(7, 0.4), torch.distributions.Binomial(7, torch.tensor(0.4)), (0.0, 3.0, 7.0)),
    ],
)
def test_log_densities_equal_torchs(
    ours: Distribution, theirs: torch.distributions.Distribution, values: tuple[float, ...]
) -> None:
    for value in values:
        assert ours.log_density(value) == pytest.approx(float(theirs.log_prob(torch.tensor(value))), abs=1e-5)


@pytest.mark.parametrize(
    ("distribution", "value"),
    [(Bernoulli.of(0.5), 0.5), (Categorical.of((0.5, 0.5)), 2.0), (Binomial.of(3, 0.5), 4.0), (Bernoulli.of(0.0), 1.0)],
)
def test_impossible_values_have_no_probability(distribution: Distribution, value: float) -> None:
    assert distribution.log_density(value) == -math.inf


def test_certain_outcomes() -> None:
    assert Binomial.of(3, 1.0).log_density(3.0) == 0.0
    assert Bernoulli.of(1.0).log_density(1.0) == 0.0


def test_distributions_in_words() -> None:
    assert Gaussian.of(20.0, 4.0).describe() == "gaussian: mean 20, deviation 2"
    assert Bernoulli.of(0.3).describe() == "bernoulli: 0.3"
    assert Binomial.of(255, 0.25).describe() == "binomial: 255 trials of 0.25"
    assert Categorical.of((0.2, 0.8)).describe() == "categorical: 0.2, 0.8"
    assert Categorical.of((0.125,) * 8).describe().endswith("0.125 and 2 more")
    assert repr(Gaussian.of(20.0, 4.0)) == "Gaussian.of(mean=20.0, variance=4.0)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Gaussian.of(torch.zeros(()), 1.0),
            r"mean must be .* got tensor\(0.\); .tolist\(\) makes",
        ),
        (lambda: Gaussian.of(math.inf, 1.0), "mean must be a finite number; got inf"),
        (lambda: Gaussian.of(0.0, None), "variance must be a finite number of at least 1.18e-38; got None"),
        (lambda: Gaussian.of(0.0, 0.0), "variance must be a finite number of at least 1.18e-38; got 0.0"),
        (lambda: Bernoulli.of(1.5), "probability must be a finite number between 0 and 1; got 1.5"),
        (lambda: Bernoulli.of(np.array([0.5])), "probability must be a finite number .* got array"),
        (lambda: Categorical.of(None), "probabilities must be a tuple of numbers; got None"),
        (lambda: Categorical.of(()), "probabilities must be a tuple of numbers"),
        (
            lambda: Categorical.of((0.5, -0.5, 1.0)),
            r"probabilities\[1\] must be .* between 0 and 1; got -0.5",
        ),
        (lambda: Categorical.of((0.5, 0.4)), "probabilities must add up to 1"),
        (lambda: Binomial.of(0, 0.5), "n_trials must be a whole number of at least 1; got 0"),
        (lambda: Binomial.of(True, 0.5), "n_trials must be a whole number of at least 1; got True"),
    ],
)
def test_wrong_parameters_are_named(make: Callable[[], Distribution], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
