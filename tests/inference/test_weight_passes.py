"""Sampled weights: as distributed as they should be, from the seed alone, in layers as in graphs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from tests.inference.test_weight_moments import build, of_graph


@pytest.mark.parametrize("case", ["three-children", "root-of-repetitions", "correlated-pairs"])
def test_passes_have_the_moments(case: str) -> None:
    """|z| < 4 for means and covariances, of a circuit and of its graph."""
    circuit, posterior, x = build(case, seed=2)
    exact = socratic.moments(circuit, x, posterior)
    for model, doubt in ((circuit, posterior), of_graph(circuit, posterior)):
        drawn = torch.stack(list(socratic.passes(model, x, doubt, n_passes=500, seed=3))).detach()
        values = torch.exp(drawn - exact.log_mean.detach())  # (P, N, C)
        error = values - 1.0
        products = error.unsqueeze(-1) * error.unsqueeze(-2)
        for sample, mean in ((values, torch.ones_like(values[0])), (products, exact.relative_covariance.detach())):
            z = (sample.mean(0) - mean) / (sample.std(0) / len(sample) ** 0.5)
            assert (z.abs() < 4.0).all(), z


def test_passes_come_from_the_seed_alone() -> None:
    circuit, posterior, x = build("branches")

    def drawn(rows: np.ndarray, seed: int) -> torch.Tensor:
        return torch.stack(list(socratic.passes(circuit, rows, posterior, n_passes=3, seed=seed)))

    assert torch.equal(drawn(x, 1), drawn(x, 1))
    assert not torch.equal(drawn(x, 1), drawn(x, 2))
    torch.testing.assert_close(drawn(x, 1)[:, 1:2], drawn(x[1:2], 1))
    options = {"method": "monte-carlo", "n_passes": 20, "seed": 4}
    whole, parts = (socratic.class_posterior(circuit, x, posterior, chunk_size=n, **options) for n in (None, 1))
    torch.testing.assert_close(whole.mutual_information, parts.mutual_information)
    torch.testing.assert_close(whole.log_density_std, parts.log_density_std)


@pytest.mark.parametrize("graph", [False, True])
def test_tiny_strengths_leave_one_child(graph: bool) -> None:
    """A Dirichlet of tiny parameters gives everything to one child; in logarithms nothing underflows to 0 / 0."""
    circuit, posterior, x = build("two-children")
    doubt = posterior.tempered(prior_strength=1e-7, worth=0.0)
    model, doubt = of_graph(circuit, doubt) if graph else (circuit, doubt)
    drawn = torch.stack(list(socratic.passes(model, x, doubt, n_passes=200)))
    assert torch.isfinite(drawn).all()
    assert len(drawn[:, 0, 0].unique()) < 30  # so many induced trees there are, not 200


def test_what_has_no_weight_gets_none() -> None:
    circuit, posterior, x = build("two-children")
    with torch.no_grad():
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits[:, :, 1:] = -torch.inf
    for drawn in socratic.passes(circuit, x, posterior, n_passes=5):
        torch.testing.assert_close(drawn, circuit.log_likelihood(torch.as_tensor(x)).detach())


def test_masks_are_no_weights() -> None:
    circuit, posterior, x = build("branches")
    with pytest.raises(ValueError, match="balanced and leaf_dropout are for dropout; a weight posterior has no masks"):
        socratic.class_posterior(circuit, x, posterior, method="monte-carlo", balanced=True)
    with pytest.raises(ValueError, match="balanced and leaf_dropout are for dropout; a weight posterior has no masks"):
        socratic.passes(circuit, x, posterior, leaf_dropout=0.1)
    same = socratic.passes(circuit, x, socratic.Dropout(0.3), n_passes=2, seed=1)
    for one, other in zip(
        same, socratic.sample_log_likelihoods(circuit, x, dropout=0.3, n_passes=2, seed=1), strict=True
    ):
        assert torch.equal(one, other)
