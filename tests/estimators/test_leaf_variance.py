"""Columns whose densities are to be trusted less, in all that estimators say of their doubt."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import socratic
from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitImageClassifier, storage
from socratic.estimators.posterior import DOUBTS, POSTERIORS, Uncertain, dropout_of
from socratic.model_files import read_tensors, write_tensors
from socratic.tables.inputs import encode_rows
from socratic.uncertainty.conformal import on_grid
from tests.estimators.test_classifier import mixed_frame

QUICK: dict[str, Any] = {"n_epochs": 3, "n_sums": 3, "n_repetitions": 2, "random_state": 0}
FRAME, LABELS = mixed_frame(200)
BY_NAME = {"weight": 0.3, "size": 0.1, "age": 0.0}
BY_NUMBER = {0: 0.3, 4: 0.1}


@pytest.mark.parametrize(
    ("structure", "posterior"),
    [
        *(("random", posterior) for posterior in POSTERIORS if posterior != "monte-carlo"),
        *(("learnspn", posterior) for posterior in ("one-pass", "expansion", "auto")),
    ],
)
@pytest.mark.parametrize("doubt", DOUBTS)
def test_posteriors_are_those_of_the_library(structure: str, posterior: Any, doubt: str) -> None:
    settings: dict[str, Any] = {**QUICK, "structure": structure, "posterior": posterior, "dropout": 0.1}
    model = CircuitClassifier(**settings, doubt=doubt, leaf_variance=BY_NAME).fit(FRAME, LABELS)
    doubted = dropout_of(model.circuit_, 0.1, "edge") if doubt == "dropout" else model.weight_posterior_
    one_pass = "expansion" if doubt == "dropout" else "log-moments"
    expected = socratic.class_posterior(
        model.circuit_.requires_grad_(False),
        encode_rows(model, FRAME),
        doubted,
        method=one_pass if posterior == "one-pass" else posterior,
        class_prior=model.class_prior_.tolist(),
        leaf_variance=BY_NUMBER,
    )
    found = model.uncertainty(FRAME)
    np.testing.assert_array_equal(found.mean, expected.mean.numpy())
    np.testing.assert_array_equal(found.std, expected.std.numpy())
    certain = model.set_params(leaf_variance=0.0).uncertainty(FRAME)
    assert (found.std != certain.std).mean() > 0.5
    unknown = FRAME["weight"].isna() & FRAME["size"].isna()
    assert unknown.any()
    if posterior == "expansion":  # "auto" samples masks where no column is uncertain
        np.testing.assert_allclose(found.std[unknown], certain.std[unknown], rtol=1e-9)


def test_one_number_is_for_every_column() -> None:
    model = CircuitClassifier(**QUICK, dropout=0.1, leaf_variance=0.2).fit(FRAME, LABELS)
    found = model.uncertainty(FRAME)
    by_name = model.set_params(leaf_variance=dict.fromkeys(FRAME.columns, 0.2)).uncertainty(FRAME)
    np.testing.assert_array_equal(found.std, by_name.std)
    np.testing.assert_array_equal(found.p_value, by_name.p_value)


@pytest.mark.parametrize("posterior", ["expansion", "auto"])
def test_none_is_as_if_there_were_no_such_argument(posterior: str) -> None:
    """Bit by bit: how much is in doubt, what rejection is calibrated on, and every answer."""
    plain = CircuitClassifier(**QUICK, posterior=posterior).fit(FRAME, LABELS)
    for nothing in (0, {"age": 0.0}):
        model = CircuitClassifier(**QUICK, posterior=posterior, leaf_variance=nothing).fit(FRAME, LABELS)
        assert model.dropout_ == plain.dropout_
        assert model.weight_posterior_.worth == plain.weight_posterior_.worth
        np.testing.assert_array_equal(model.detector_.calibration.scores, plain.detector_.calibration.scores)
        np.testing.assert_array_equal(model.uncertainty(FRAME).std, plain.uncertainty(FRAME).std)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # that is how the rows of calibration are known
def test_rejection_is_calibrated_with_it() -> None:
    settings: dict[str, Any] = {**QUICK, "detector": "entropy", "calibration_fraction": 0.0, "dropout": 0.1}
    rows = np.random.default_rng(0).normal(size=(80, 3)) + np.arange(80)[:, None] % 2
    certain, model = (
        CircuitClassifier(**settings, leaf_variance=variance).fit(rows, np.arange(80) % 2) for variance in (0.0, 0.5)
    )
    expected = on_grid(np.sort(model.uncertainty(rows).entropy))
    np.testing.assert_allclose(model.detector_.calibration.scores, expected, atol=1e-6)
    assert (model.detector_.calibration.scores != certain.detector_.calibration.scores).all()


def test_the_rate_of_dropout_is_chosen_with_it() -> None:
    model = CircuitClassifier(**QUICK, leaf_variance={"weight": 1.0}).fit(FRAME, LABELS)
    assert 0.0 < model.dropout_ < 1.0
    alone = model.set_params(leaf_variance=0.0).uncertainty(FRAME).std
    assert (model.set_params(leaf_variance={"weight": 1.0}).uncertainty(FRAME).std != alone).mean() > 0.8


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_more_of_it_never_gives_a_smaller_deviation_on_a_tree(dropout: float) -> None:
    model = CircuitDensity(structure="learnspn", random_state=0, doubt="dropout", dropout=dropout).fit(FRAME)
    before = model.uncertainty(FRAME)
    known = FRAME["weight"].notna().to_numpy()
    for variance in (1e-3, 0.1, 1.0, 10.0):
        found = model.set_params(leaf_variance={"weight": variance}).uncertainty(FRAME)
        assert found.method == "tree"
        assert (found.relative_std[known] > before.relative_std[known]).all()
        np.testing.assert_allclose(found.relative_std[~known], before.relative_std[~known], rtol=1e-9)
        np.testing.assert_allclose(found.log_mean, before.log_mean, rtol=1e-9)
        before = found
    if dropout == 0.0:  # the only thing that is random
        assert (found.relative_std[known] <= np.sqrt(10.0) * (1 + 1e-9)).all()


def test_images_have_one_variance_for_all_pixels() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (150, 4, 6)).astype(np.uint8), rng.integers(0, 2, 150)
    settings: dict[str, Any] = {"n_epochs": 1, "n_sums": 2, "random_state": 0}
    model = CircuitImageClassifier(**settings, doubt="dropout", dropout=0.1, leaf_variance=0.02)
    model.fit(images, labels)
    (x,) = model._batches(images)
    expected = socratic.tdi(
        model.circuit_.requires_grad_(False), x, dropout=0.1, leaf_variance=dict.fromkeys(range(24), 0.02)
    )
    posterior = expected.posterior(model.class_prior_.tolist())
    np.testing.assert_array_equal(model.uncertainty(images).std, posterior.std.double().cpu().numpy())
    with pytest.raises(ValueError, match=r"leaf_variance must be a number of at least 0; got \{'x0': 1.0\}"):
        CircuitImageClassifier(leaf_variance={"x0": 1.0}).fit(images, labels)


def test_it_is_kept_with_the_model(tmp_path: Path) -> None:
    model = CircuitClassifier(**QUICK, dropout=0.1, leaf_variance={"weight": np.float32(0.5)}).fit(FRAME, LABELS)
    expected = model.uncertainty(FRAME)
    model.save(tmp_path / "model")
    for copy in (socratic.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.uncertainty(FRAME).std, expected.std)
        assert copy.leaf_variance == {"weight": 0.5}
    assert clone(model).leaf_variance == {"weight": 0.5}
    tensors, config = read_tensors(tmp_path / "model", storage.FORMAT, storage.VERSION)
    del config["parameters"]["leaf_variance"]  # as files were before there was such an argument
    write_tensors(tmp_path / "before", storage.FORMAT, storage.VERSION, tensors, config)
    certain = model.set_params(leaf_variance=0.0).uncertainty(FRAME)
    np.testing.assert_array_equal(socratic.load(tmp_path / "before").uncertainty(FRAME).std, certain.std)
    for wrong in (-1.0, {"weight": "much"}, {"height": 0.5}):
        config["parameters"]["leaf_variance"] = wrong
        write_tensors(tmp_path / "wrong", storage.FORMAT, storage.VERSION, tensors, config)
        with pytest.raises(socratic.ModelFileError, match=r"does not describe a CircuitClassifier \(leaf_variance"):
            socratic.load(tmp_path / "wrong")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leaf_variance": -0.1}, "leaf_variance must be a number of at least 0; got -0.1"),
        ({"leaf_variance": [0.1]}, r"leaf_variance must be a number, or map names of columns to numbers; got \[0.1\]"),
        ({"leaf_variance": {"age": None}}, r"leaf_variance\['age'\] must be a number of at least 0; got None"),
        (
            {"leaf_variance": {"height": 0.1}},
            r"leaf_variance names the column 'height', which is not in the data \(weight, age, barks, colour, size\)",
        ),
        (
            {"leaf_variance": {"age": 0.1}, "posterior": "monte-carlo"},
            r"posterior='monte-carlo' samples weights or masks alone, and leaf_variance={'age': 0.1} cannot be "
            r"sampled; use 'one-pass', 'expansion', 'log-moments' or 'auto', or set leaf_variance to 0",
        ),
    ],
)
def test_what_cannot_be_is_named_before_training(settings: dict[str, Any], message: str) -> None:
    model = CircuitClassifier(**settings)
    with pytest.raises(ValueError, match=message):
        model.fit(FRAME, LABELS)
    assert not hasattr(model, "circuit_")


@pytest.mark.parametrize("posterior", ["one-pass", "expansion", "auto"])
def test_columns_cannot_be_uncertain_where_moments_are_only_bounds(posterior: str) -> None:
    x = np.random.default_rng(0).integers(0, 50, (120, 3)).astype(float)
    roots = [socratic.chow_liu_tree(half, socratic.families.Categorical(50)) for half in (x[:60], x[60:])]
    graph = socratic.Graph(roots, dtype=torch.float64).requires_grad_(False)
    uncertain = Uncertain(dropout_of(graph, 0.05, "edge"), {0: 0.1})
    with pytest.raises(
        ValueError, match="leaf_variance is not possible here: exact moments of this circuit would cost"
    ):
        uncertain.posterior(posterior, graph, torch.as_tensor(x[:2]), [0.5, 0.5])
