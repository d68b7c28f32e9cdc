"""The posterior that a classifier's uncertainty is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import socratic
from socratic.estimators import CircuitClassifier
from socratic.estimators.posterior import POSTERIORS, Randomness, circuit_posterior
from socratic.tables.inputs import encode_rows
from tests.estimators.test_classifier import mixed_frame

QUICK: dict[str, Any] = {"n_epochs": 3, "n_sums": 3, "n_repetitions": 2, "random_state": 0}


@pytest.mark.parametrize(
    ("structure", "posterior"),
    [
        *(("random", posterior) for posterior in POSTERIORS),
        *(("learnspn", posterior) for posterior in POSTERIORS if posterior != "log-moments"),
    ],
)
def test_each_is_one_of_the_library(structure: str, posterior: Any) -> None:
    frame, label = mixed_frame(200)
    model = CircuitClassifier(**QUICK, structure=structure, posterior=posterior, dropout=0.1).fit(frame, label)
    expected = socratic.dropout_posterior(
        model.circuit_.requires_grad_(False),
        encode_rows(model, frame),
        dropout=0.1,
        masks="edge",
        method=posterior,
        class_prior=model.class_prior_.tolist(),
        root_dropout=structure == "learnspn",
    )
    found = model.uncertainty(frame)
    np.testing.assert_allclose(found.mean, expected.mean.numpy())
    np.testing.assert_allclose(found.std, expected.std.numpy())
    assert found.std.max() > 0.0


def test_sampled_masks_replace_moments_that_are_only_bounds() -> None:
    x = np.random.default_rng(0).integers(0, 50, (120, 3)).astype(float)
    roots = [socratic.chow_liu_tree(half, socratic.families.Categorical(50)) for half in (x[:60], x[60:])]
    graph = socratic.Graph(roots, dtype=torch.float64).requires_grad_(False)
    rows = torch.as_tensor(x[::30])
    settings: dict[str, Any] = {"dropout": 0.05, "masks": "edge", "root_dropout": True}
    assert socratic.tdi(graph, rows, **settings).method == "bounds"
    expected = socratic.dropout_posterior(graph, rows, **settings, class_prior=[0.3, 0.7])
    found = circuit_posterior("expansion", graph, rows, Randomness(0.05, "edge"), [0.3, 0.7])
    assert found.method == expected.method == "monte-carlo"
    torch.testing.assert_close(found.mean, expected.mean)


def test_an_unknown_one_is_named() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="posterior must be one of 'expansion', 'auto', 'log-moments', 'monte-carlo'"):
        CircuitClassifier(posterior="exact").fit(x, y)


def test_graphs_have_no_log_moments() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="posterior='log-moments' is not for structure='learnspn'; use 'expansion'"):
        CircuitClassifier(structure="learnspn", posterior="log-moments").fit(x, y)
