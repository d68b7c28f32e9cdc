"""The doubt of a circuit trained on handwritten digits, against 2,000 sampled weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import socratic
from socratic.learning.gradient import fit_gradient
from socratic.learning.initialise import initialise_leaves
from socratic.learning.settings import Rows, TrainingSettings

KNOWN = 8
"""Digits from 8 on are not trained on."""


def trained(
    seed: int,
) -> tuple[socratic.Circuit, socratic.WeightPosterior, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A circuit, its weight posterior, test rows of digits it knows, of those it does not, and labels of the former."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    x = torch.as_tensor(digits.data[order] / 16.0, dtype=torch.float32)
    y = torch.as_tensor(digits.target[order])
    train, test = (y < KNOWN) & (torch.arange(len(y)) < 1200), (y < KNOWN) & (torch.arange(len(y)) >= 1200)
    circuit = socratic.rat_spn(64, KNOWN, n_sums=8, n_leaves=8, depth=3, n_repetitions=5, seed=seed)
    initialise_leaves(circuit, x[train], seed)
    rows = Rows(x[train], y[train], torch.ones(int(train.sum())))
    settings = TrainingSettings(n_epochs=40, batch_size=100, cross_entropy_weight=0.8, seed=seed)
    fit_gradient(circuit, rows, settings, torch.full((KNOWN,), -float(np.log(KNOWN))))
    posterior = socratic.weight_posterior(circuit, x[train], y[train])
    return circuit.requires_grad_(False), posterior, x[test][:150], x[y >= KNOWN][:150], y[test][:150]


def rank_correlation(one: socratic.Posterior, other: socratic.Posterior) -> float:
    return float(spearmanr(one.mutual_information, other.mutual_information).statistic)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_worth_that_is_chosen_finds_unknown_digits_better(seed: int) -> None:
    circuit, posterior, known, unknown, labels = trained(seed)
    chosen = socratic.temper(circuit, posterior, known[:75], labels[:75])
    rows, is_unknown = torch.cat([known[75:], unknown]), [0] * 75 + [1] * len(unknown)
    found, before = (
        roc_auc_score(is_unknown, socratic.class_posterior(circuit, rows, doubt).mutual_information)
        for doubt in (chosen, posterior)
    )
    assert chosen.worth <= posterior.worth
    assert found >= before - 0.01
    assert found >= 0.85


@pytest.mark.slow
def test_doubt_orders_rows_as_2000_samples_do() -> None:
    circuit, posterior, known, unknown, _ = trained(seed=0)
    for rows, least in ((known, 0.8), (unknown, 0.95)):
        sampled = socratic.class_posterior(circuit, rows, posterior, method="monte-carlo", n_passes=2000)
        fewer = socratic.class_posterior(circuit, rows, posterior, method="monte-carlo", n_passes=256, seed=1)
        found = socratic.class_posterior(circuit, rows, posterior)
        assert rank_correlation(found, sampled) >= least
        # Known rows are ordered better than by 256 other samples: much of what is left is the noise of the 2,000.
        assert rank_correlation(found, sampled) >= rank_correlation(fewer, sampled) - 0.05
        torch.testing.assert_close(found.mean, sampled.mean, rtol=0.0, atol=0.05)
