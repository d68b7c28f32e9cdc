from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import socratic
from tests.inference.test_moments import build
from tests.oracles import enumerate_masks


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize(
    ("case", "root_dropout"), [("balanced", False), ("element-wise-odd", False), ("no-split", True)]
)
def test_samples_agree_with_enumeration(case: str, masks: str, root_dropout: bool) -> None:
    circuit = build(case)
    x = torch.randn(1, circuit.n_features, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    n = 1000
    prior = np.arange(1.0, circuit.n_classes + 1)
    prior /= prior.sum()
    found = socratic.monte_carlo_dropout(
        circuit, x, dropout=0.4, masks=masks, n_passes=n, root_dropout=root_dropout, class_prior=prior.tolist()
    )
    mean, std, dead = enumerate_masks(circuit.to_graph(), x[0].tolist(), 0.4, masks, root_dropout).posterior(prior)
    assert (np.abs(found.mean[0].numpy() - mean) < 4 * std / math.sqrt(n * (1 - dead)) + 1e-12).all()
    np.testing.assert_allclose(found.std[0], std, rtol=0.15)
    assert found.dead is not None
    assert abs(float(found.dead[0]) - dead) < 4 * math.sqrt(dead * (1 - dead) / n) + 1e-12


def test_dropped_winners_are_rescued_from_underflow() -> None:
    """Two leaves 600 nats apart in float32: when the better is dropped, the other still decides the class."""
    circuit = socratic.rat_spn(1, 2, n_leaves=2, depth=0, n_repetitions=1)
    with torch.no_grad():
        (group,) = circuit.leaves.leaf_groups()
        group.values["mean"].copy_(torch.tensor([[0.0, 35.0]]))
        group.values["raw_variance"].fill_(50.0)
        circuit.root_branches()[0].logits.copy_(torch.tensor([[[5.0, -5.0], [-5.0, 5.0]]]))
    x = torch.zeros(1, 1)
    found = socratic.monte_carlo_dropout(circuit, x, dropout=0.5, masks="unit", n_passes=1000, root_dropout=True)
    mean, _, dead = enumerate_masks(circuit.double().to_graph(), [0.0], 0.5, "unit", True).posterior([0.5, 0.5])
    np.testing.assert_allclose(found.mean[0], mean, atol=0.04)
    assert found.dead is not None
    assert float(found.dead[0]) == pytest.approx(dead, abs=0.04)
    assert dead == 0.25


def test_the_seed_alone_decides_and_rows_do_not_depend_on_their_batch() -> None:
    circuit = socratic.rat_spn(7, 3, n_sums=4, n_leaves=4, depth=2, n_repetitions=2)
    x = torch.randn(10, 7)
    settings = {"dropout": 0.3, "n_passes": 7, "leaf_dropout": 0.2}
    whole = socratic.monte_carlo_dropout(circuit, x, **settings, seed=4)
    torch.testing.assert_close(socratic.monte_carlo_dropout(circuit, x[3:5], **settings, seed=4).mean, whole.mean[3:5])
    chunked = socratic.monte_carlo_dropout(circuit, x, **settings, seed=4, chunk_size=3)
    torch.testing.assert_close(chunked.mean, whole.mean)
    torch.testing.assert_close(chunked.mutual_information, whole.mutual_information, atol=1e-6, rtol=1e-4)
    assert not torch.allclose(socratic.monte_carlo_dropout(circuit, x, **settings, seed=5).mean, whole.mean)


def test_one_mask_serves_all_rows_of_a_pass() -> None:
    circuit = socratic.rat_spn(7, 3, n_sums=4, n_leaves=4, depth=2)
    (values,) = socratic.sample_log_likelihoods(circuit, torch.zeros(5, 7), dropout=0.5, n_passes=1)
    assert (values == values[:1]).all()


def test_leaf_dropout_marginalises_in_expectation() -> None:
    """E[product of kept leaves] factorises: (p + (1 - p) density) for each univariate leaf."""
    circuit = socratic.rat_spn(2, 1, n_leaves=1, n_sums=1, depth=1, n_repetitions=1).double()
    x = torch.tensor([[0.3, -0.2]], dtype=torch.float64)
    p = 0.3
    regions = zip(circuit.leaves.distributions(), circuit.leaves.scopes, strict=True)
    leaves = [(found[v][0], v) for found, (v,) in regions]
    densities = [math.exp(leaf.log_density(float(x[0, v]))) for leaf, v in leaves]
    expected = math.prod(p + (1 - p) * density for density in densities)
    second = math.prod(p + (1 - p) * density**2 for density in densities)
    n = 1000
    samples = torch.stack(list(socratic.sample_log_likelihoods(circuit, x, dropout=0.0, leaf_dropout=p, n_passes=n)))
    deviation = math.sqrt((second - expected**2) / n)
    assert abs(float(samples.exp().mean()) - expected) < 4 * deviation


def test_no_dropout_no_doubt() -> None:
    circuit = socratic.rat_spn(5, 3, n_sums=3, n_leaves=3, depth=2)
    x = torch.randn(4, 5)
    found = socratic.monte_carlo_dropout(circuit, x, dropout=0.0, n_passes=3)
    torch.testing.assert_close(found.mean, torch.softmax(circuit.log_likelihood(x), -1), atol=1e-5, rtol=1e-4)
    assert float(found.std.max()) < 1e-3
    assert found.dead is not None
    assert not found.dead.any()


def test_a_row_that_is_always_dead_gets_the_prior() -> None:
    circuit = socratic.rat_spn(2, 2, n_sums=1, n_leaves=1, depth=2, n_repetitions=1)
    seed = 0
    found = socratic.monte_carlo_dropout(
        circuit, torch.zeros(1, 2), dropout=0.999, n_passes=2, root_dropout=True, class_prior=[0.7, 0.3], seed=seed
    )
    assert found.dead is not None
    assert found.dead.tolist() == [1.0]
    torch.testing.assert_close(found.mean, torch.tensor([[0.7, 0.3]]))
    assert not found.std.any()


@pytest.mark.parametrize("balanced", [False, True])
def test_passes_begun_in_inference_mode_go_on_outside(balanced: bool) -> None:
    circuit, x = socratic.rat_spn(8, 3, n_sums=3, n_leaves=3, depth=2), torch.zeros(2, 8)

    def passes() -> Iterator[torch.Tensor]:
        return socratic.sample_log_likelihoods(circuit, x, n_passes=5000, balanced=balanced)

    found = passes()
    with torch.inference_mode():
        first = next(found)
    assert all(torch.equal(*pair) for pair in zip([first, *found], passes(), strict=True))


MANY_PASSES = """
import resource, sys, torch, socratic
circuit = socratic.rat_spn(16, 10, n_sums=20, n_leaves=20, depth=4, n_repetitions=2)
for n_passes in (100, 10_000):
    socratic.monte_carlo_dropout(circuit, torch.zeros(1, 16), n_passes=n_passes, balanced=sys.argv[1] == "True")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10))
"""


@pytest.mark.slow
@pytest.mark.parametrize("balanced", [False, True])
def test_memory_does_not_grow_with_the_passes(balanced: bool) -> None:
    command = [sys.executable, "-c", MANY_PASSES, str(balanced)]
    few, many = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert many < few + 150  # it was 500 MB and more


def test_an_empty_batch_gives_an_empty_result() -> None:
    circuit = socratic.rat_spn(5, 3, n_sums=3, n_leaves=3, depth=2)
    found = socratic.monte_carlo_dropout(circuit, torch.zeros(0, 5), dropout=0.2, n_passes=2)
    assert found.mean.shape == (0, 3)
    assert found.entropy.shape == (0,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.2}, "dropout must be a number"),
        ({"leaf_dropout": -1}, "leaf_dropout must be a number"),
        ({"masks": "rows"}, "masks must be one of"),
        ({"n_passes": 0}, "n_passes must be a whole number of at least 1; got 0"),
        ({"seed": -3}, "seed must be a whole number of at least 0; got -3"),
    ],
)
def test_bad_settings_are_named_before_any_work(settings: dict[str, object], message: str) -> None:
    circuit = socratic.rat_spn(4, 2, depth=1)
    with pytest.raises(ValueError, match=message):
        socratic.monte_carlo_dropout(circuit, torch.zeros(1, 4), **{"dropout": 0.2, **settings})
    with pytest.raises(ValueError, match=message):
        socratic.sample_log_likelihoods(circuit, torch.zeros(1, 4), **{"dropout": 0.2, **settings})
