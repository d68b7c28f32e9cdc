"""The posterior that a classifier's uncertainty is made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import socratic
from socratic.estimators import CircuitClassifier
from socratic.estimators.posterior import POSTERIORS, Uncertain, dropout_of
from socratic.tables.inputs import encode_rows
from socratic.uncertainty.answers import Uncertainty
from tests.estimators.test_classifier import mixed_frame

QUICK: dict[str, Any] = {"n_epochs": 3, "n_sums": 3, "n_repetitions": 2, "random_state": 1}


METHODS = {"one-pass": "expansion"}
"""What methods for dropout are called by the library, if by another name."""


@pytest.mark.parametrize(
    ("structure", "posterior"),
    [
        *(("random", posterior) for posterior in POSTERIORS),
        *(("learnspn", posterior) for posterior in POSTERIORS if posterior != "log-moments"),
    ],
)
def test_each_is_one_of_the_library_for_dropout(structure: str, posterior: Any) -> None:
    frame, label = mixed_frame(200)
    model = CircuitClassifier(**QUICK, doubt="dropout", structure=structure, posterior=posterior, dropout=0.1)
    model.fit(frame, label)
    expected = socratic.dropout_posterior(
        model.circuit_.requires_grad_(False),
        encode_rows(model, frame),
        dropout=0.1,
        masks="edge",
        method=METHODS.get(posterior, posterior),
        class_prior=model.class_prior_.tolist(),
        root_dropout=structure == "learnspn",
    )
    check_equal(model.uncertainty(frame), expected)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_each_is_one_of_the_library_for_weights(structure: str, posterior: Any) -> None:
    frame, label = mixed_frame(200)
    model = CircuitClassifier(**QUICK, structure=structure, posterior=posterior).fit(frame, label)
    expected = socratic.class_posterior(
        model.circuit_.requires_grad_(False),
        encode_rows(model, frame),
        model.weight_posterior_,
        method="log-moments" if posterior == "one-pass" else posterior,
        class_prior=model.class_prior_.tolist(),
    )
    check_equal(model.uncertainty(frame), expected)


def check_equal(found: Uncertainty, expected: socratic.Posterior) -> None:
    """Of every method all is known that detectors look at."""
    np.testing.assert_allclose(found.mean, expected.mean.numpy())
    np.testing.assert_allclose(found.std, expected.std.numpy())
    np.testing.assert_allclose(found.mutual_information, expected.mutual_information.numpy())
    assert expected.log_density_std is not None
    np.testing.assert_allclose(found.log_std, expected.log_density_std.numpy())
    assert found.std.max() > 0.0
    assert found.log_std.max() > 0.0
    assert (found.log_std >= 0.0).all()


def test_sampled_masks_replace_moments_that_are_only_bounds() -> None:
    graph, rows = costly_graph()
    settings: dict[str, Any] = {"dropout": 0.05, "masks": "edge", "root_dropout": True}
    assert socratic.tdi(graph, rows, **settings).method == "bounds"
    expected = socratic.dropout_posterior(graph, rows, **settings, class_prior=[0.3, 0.7])
    for name in ("one-pass", "expansion"):
        found = Uncertain(dropout_of(graph, 0.05, "edge")).posterior(name, graph, rows, [0.3, 0.7])
        assert found.method == expected.method == "monte-carlo"
        torch.testing.assert_close(found.mean, expected.mean)


def test_sampled_weights_replace_moments_that_are_only_bounds() -> None:
    graph, rows = costly_graph()
    doubt = socratic.weight_posterior(graph, rows, torch.arange(len(rows)) % 2)
    expected = socratic.class_posterior(graph, rows, doubt, class_prior=[0.3, 0.7])
    found = Uncertain(doubt).posterior("one-pass", graph, rows, [0.3, 0.7])
    assert found.method == expected.method
    torch.testing.assert_close(found.mean, expected.mean)
    assert found.log_density_std is not None


def costly_graph() -> tuple[socratic.Graph, torch.Tensor]:
    """A graph whose exact moments would cost too much, and some rows."""
    x = np.random.default_rng(0).integers(0, 50, (120, 3)).astype(float)
    roots = [socratic.chow_liu_tree(half, socratic.families.Categorical(50)) for half in (x[:60], x[60:])]
    return socratic.Graph(roots, dtype=torch.float64).requires_grad_(False), torch.as_tensor(x[::30])


def test_an_unknown_one_is_named() -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="posterior must be one of 'one-pass', 'expansion', 'auto', 'log-moments'"):
        CircuitClassifier(posterior="exact").fit(x, y)
    with pytest.raises(ValueError, match="doubt must be one of 'weights', 'dropout'; got 'both'"):
        CircuitClassifier(doubt="both").fit(x, y)


def test_graphs_have_no_log_moments_of_dropout() -> None:
    x, y = load_iris(return_X_y=True)
    message = "posterior='log-moments' is not for doubt='dropout' with structure='learnspn'; use 'one-pass'"
    with pytest.raises(ValueError, match=message):
        CircuitClassifier(structure="learnspn", doubt="dropout", posterior="log-moments").fit(x, y)
