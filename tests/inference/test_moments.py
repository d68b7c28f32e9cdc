"""TDI against brute-force enumeration of every mask, in float64: exact to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from tests.oracles import count_masks, enumerate_masks

# (features, depth, repetitions, sums, leaves, classes, product)
CASES = {
    "two-leaves": (2, 1, 1, 2, 2, 2, "all-pairs"),
    "one-feature": (1, 1, 2, 2, 3, 2, "all-pairs"),
    "no-split": (3, 0, 2, 2, 3, 2, "all-pairs"),
    "balanced": (4, 2, 1, 2, 2, 2, "all-pairs"),
    "odd": (3, 2, 1, 2, 2, 2, "all-pairs"),
    "odd-deep": (5, 3, 1, 1, 2, 2, "all-pairs"),
    "repetitions": (4, 2, 2, 1, 2, 2, "all-pairs"),
    "odd-repetitions": (3, 2, 3, 2, 1, 2, "all-pairs"),
    "unequal-widths": (3, 2, 2, 1, 3, 3, "all-pairs"),
    "deep-single": (8, 3, 1, 1, 1, 2, "all-pairs"),
    "element-wise": (4, 2, 1, 2, 2, 3, "element-wise"),
    "element-wise-odd": (3, 2, 2, 2, 2, 2, "element-wise"),
    "element-wise-deep": (5, 3, 1, 2, 2, 2, "element-wise"),
    "wide": (4, 2, 1, 3, 3, 2, "element-wise"),
    "deep-correlated": (4, 4, 2, 2, 2, 2, "element-wise"),
}
MAX_MASKS = 20


def build(case: str, seed: int = 0) -> socratic.Circuit:
    features, depth, repetitions, sums, leaves, classes, product = CASES[case]
    circuit = socratic.rat_spn(
        features,
        classes,
        n_sums=sums,
        n_leaves=leaves,
        depth=depth,
        n_repetitions=repetitions,
        product=product,
        seed=seed,
    ).double()
    with torch.no_grad():  # peakier than at the start, as after training
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits.mul_(2.0)
    return circuit


def enumerable() -> list[tuple[str, str, bool]]:
    """Every case, mask kind and root setting that is small enough."""
    found = []
    for case in CASES:
        roots = build(case).to_graph()
        for masks in ("edge", "unit"):
            for root_dropout in (False, True):
                if count_masks(roots, masks, root_dropout) <= MAX_MASKS:
                    found.append((case, masks, root_dropout))
    return found


@pytest.mark.parametrize(("case", "masks", "root_dropout"), enumerable())
def test_moments_equal_enumeration(case: str, masks: str, root_dropout: bool) -> None:
    circuit = build(case)
    x = torch.tensor(np.random.default_rng(1).normal(size=(2, circuit.n_features)))
    roots = circuit.to_graph()
    for dropout in (0.2, 0.6):
        settings = {"dropout": dropout, "masks": masks, "root_dropout": root_dropout}
        exact = socratic.tdi(circuit, x, **settings)
        lower = socratic.tdi(circuit, x, covariance="independent", **settings)
        upper = socratic.tdi(circuit, x, covariance="upper", **settings)
        for row in range(len(x)):
            truth = enumerate_masks(roots, x[row].tolist(), dropout, masks, root_dropout)
            np.testing.assert_allclose(exact.log_mean[row].detach(), np.log(truth.mean), rtol=0, atol=1e-9)
            np.testing.assert_allclose(
                exact.relative_covariance[row].detach(), truth.relative_covariance, rtol=1e-9, atol=1e-9
            )
            variance = np.diag(truth.relative_covariance)
            assert (lower.relative_variance[row].detach().numpy() <= variance * (1 + 1e-9) + 1e-12).all()
            assert (upper.relative_variance[row].detach().numpy() >= variance * (1 - 1e-9) - 1e-12).all()
