"""One default for masks, everywhere."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass

import pytest
import torch

import socratic


def callables_with(argument: str) -> dict[str, inspect.Parameter]:
    """The public functions and classes that take an argument, and how."""
    found = {}
    for name in socratic.__all__:
        value = getattr(socratic, name)
        made_from = value.__init__ if inspect.isclass(value) else value
        if inspect.isfunction(made_from) and not is_dataclass(value):  # results only say which masks they had
            parameters = inspect.signature(made_from).parameters
            found.update({name: parameters[argument]} if argument in parameters else {})
    return found


def test_masks_have_one_default() -> None:
    defaults = {name: parameter.default for name, parameter in callables_with("masks").items()}
    inference = {"tdi", "monte_carlo_dropout", "sample_log_likelihoods", "dropout_posterior", "node_moments"}
    assert defaults.keys() >= {*inference, "CircuitClassifier"}
    assert set(defaults.values()) == {"edge"}


@pytest.mark.parametrize("name", ["dropout", "root_dropout"])
def test_what_goes_with_them_has_one_default_in_inference(name: str) -> None:
    found = callables_with(name)
    assert len({found[query].default for query in callables_with("masks") if query[0].islower()}) == 1


@pytest.mark.slow
def test_sampling_gives_the_same_as_tdi_without_naming_masks() -> None:
    """The README says "the same, by sampling": of two classes whose deviation depends on the kind of masks."""
    circuit = socratic.rat_spn(8, 2, n_sums=8, n_leaves=8, depth=3, n_repetitions=1, seed=1).double()
    x = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    n_passes, settings = 4000, {"dropout": 0.1}
    with torch.no_grad():
        moments = socratic.tdi(circuit, x, **settings)
        other = socratic.tdi(circuit, x, masks="unit", **settings).posterior()
    expanded = moments.posterior()
    sampled = socratic.monte_carlo_dropout(circuit, x, n_passes=n_passes, **settings)
    error = 4.0 * expanded.std.max() / n_passes**0.5
    torch.testing.assert_close(sampled.mean, expanded.mean, rtol=0.0, atol=2.0 * float(error))
    torch.testing.assert_close(sampled.std, expanded.std, rtol=0.05, atol=0.0)
    assert ((other.std - expanded.std).abs() > 0.1 * expanded.std).any()  # a wrong kind would have been seen
