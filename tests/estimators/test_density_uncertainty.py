"""p(x) over weights or dropout masks: what densities and detectors of outliers say of their doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import socratic
from socratic.estimators import CircuitDensity, CircuitOutlierDetector, DensityUncertainty, storage
from socratic.model_files import read_tensors, write_tensors
from socratic.tables.columns import Table
from socratic.tables.inputs import encode_rows
from tests.estimators.test_classifier import mixed_frame
from tests.oracles import count_masks, enumerate_masks

QUICK: dict[str, Any] = {"n_epochs": 5, "n_sums": 4, "n_repetitions": 3, "random_state": 0}
DROPPING: dict[str, Any] = {**QUICK, "doubt": "dropout", "random_state": 1}
IRIS = load_iris().data
SMALL: dict[str, dict[str, Any]] = {
    "layered": {"structure": "random", "n_sums": 2, "n_repetitions": 1, "depth": 2},
    "roots-alone": {"structure": "random", "n_sums": 3, "n_repetitions": 2, "depth": 0},
    "graph": {"structure": "learnspn"},
}


def two_groups(n: int = 150) -> np.ndarray:
    """Rows of two groups that differ in all columns, of different units, some values missing."""
    rng = np.random.default_rng(0)
    rows = rng.normal(5.0 * (np.arange(n) % 2)[:, None], 1.0, (n, 3)) * [1.0, 30.0, 0.1]
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows


@pytest.mark.parametrize("estimator", [CircuitDensity, CircuitOutlierDetector])
@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("case", SMALL)
def test_moments_equal_enumeration_of_all_masks(estimator: Any, masks: str, case: str) -> None:
    rows = two_groups()
    settings = {**SMALL[case], "n_epochs": 3, "random_state": 0}
    model = estimator(**settings, doubt="dropout", dropout=0.3, masks=masks).fit(rows)
    graph = model.circuit_ if case == "graph" else model.circuit_.to_graph()
    assert 2 <= count_masks(graph, masks, root_dropout=case != "layered") <= 20
    asked = np.array([[0.0, 30.0, 0.0], [5.0, 0.0, 0.5], [15.0, -200.0, 2.0], [5.0, np.nan, 0.3], [np.nan] * 3])
    found = model.uncertainty(asked)
    for row, code in enumerate(encode_rows(model, asked).double().numpy()):
        truth = enumerate_masks(graph, code, 0.3, masks, root_dropout=case != "layered")
        log_mean = np.log(truth.mean[0]) - ~np.isnan(asked[row]) @ model.table_.log_scale
        deviation = np.sqrt(truth.relative_covariance[0, 0])
        assert found.log_mean[row] == pytest.approx(log_mean, rel=1e-9)
        assert found.relative_std[row] == pytest.approx(deviation, rel=1e-9)
        assert found.log_std[row] == pytest.approx(np.sqrt(np.log1p(deviation**2)), rel=1e-9)
    if estimator is CircuitDensity:
        np.testing.assert_array_equal(found.log_likelihood, model.score_samples(asked))
    assert found.method == {"graph": "tree"}.get(case, "layered")


@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_moments_agree_with_sampled_masks(structure: str) -> None:
    frame, _ = mixed_frame(200)
    model = CircuitDensity(**DROPPING, structure=structure, dropout=0.05).fit(frame)
    x = encode_rows(model, frame[:10])
    n_passes = 2000
    passes = socratic.sample_log_likelihoods(
        model.circuit_, x, dropout=0.05, n_passes=n_passes, root_dropout=structure == "learnspn"
    )
    sampled = np.stack([log_value.squeeze(1).numpy() for log_value in passes])  # (T, N)
    found = model.uncertainty(frame[:10])
    ratio = np.exp(sampled - model._log_volume(x) - found.log_mean)  # p(x) divided by its mean
    error = found.relative_std / np.sqrt(n_passes)
    assert (np.abs(ratio.mean(0) - 1.0) < 4.0 * error).all()
    np.testing.assert_allclose(ratio.std(0), found.relative_std, rtol=0.15)
    if structure == "random":  # of trees some masks leave nothing, and the deviation of log p(x) is infinite
        np.testing.assert_allclose(sampled.std(0), found.log_std, rtol=0.5)  # p(x) is only roughly log-normal


@pytest.mark.parametrize("estimator", [CircuitDensity, CircuitOutlierDetector])
@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_weights_are_in_doubt_by_default(estimator: Any, structure: str) -> None:
    """As much as the rows that were trained on leave open: with ten times as many rows, the less."""
    model = estimator(**QUICK, structure=structure).fit(IRIS)
    x = encode_rows(model, IRIS)
    moments = socratic.moments(model.circuit_.requires_grad_(False), x, model.weight_posterior_)
    found = model.uncertainty(IRIS)
    log_mean = moments.log_mean.squeeze(1).numpy() - model._log_volume(x)
    np.testing.assert_allclose(found.log_mean, log_mean, rtol=1e-9)
    np.testing.assert_allclose(found.relative_std**2, moments.relative_variance.squeeze(1).numpy(), rtol=1e-9)
    np.testing.assert_allclose(found.log_mean, found.log_likelihood, rtol=1e-6)  # weights are right on average
    assert (found.relative_std > 0.0).all()
    certain = model.weight_posterior_.tempered(worth=10.0)
    more = socratic.moments(model.circuit_, x, certain).relative_variance.squeeze(1).sqrt().numpy()
    assert (more < 0.5 * found.relative_std).all()


def test_the_weights_are_doubted_by_the_rows_that_were_trained_on() -> None:
    model = CircuitDensity(**QUICK).fit(IRIS)
    expected = socratic.weight_posterior(model.circuit_, encode_rows(model, IRIS))
    for found, visits in zip(model.weight_posterior_.visits, expected.visits, strict=True):
        np.testing.assert_allclose(found.numpy(), visits.numpy(), rtol=1e-6)


@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_deviations_have_no_units(structure: str) -> None:
    model = CircuitDensity(**QUICK, structure=structure).fit(IRIS)
    found = model.uncertainty(IRIS)
    columns = [replace(each, mean=1000.0 * each.mean, scale=1000.0 * each.scale) for each in model.table_.columns]
    model.table_ = Table(tuple(columns))  # the same density of rows in other units
    other = model.uncertainty(IRIS * 1000.0)
    np.testing.assert_allclose(other.relative_std, found.relative_std, rtol=1e-9)
    np.testing.assert_allclose(other.log_std, found.log_std, rtol=1e-9)
    for name in ("log_mean", "log_likelihood"):
        np.testing.assert_allclose(getattr(other, name), getattr(found, name) - 4.0 * np.log(1000.0), rtol=1e-9)


@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_single_precision_is_enough(structure: str) -> None:
    model = CircuitDensity(**QUICK, structure=structure).fit(IRIS)
    far = np.vstack([IRIS[:50], IRIS[:50] + 40.0])
    expected = model.uncertainty(far)
    model.circuit_.float()
    found = model.uncertainty(far)
    np.testing.assert_allclose(found.log_mean, expected.log_mean, rtol=1e-4)
    np.testing.assert_allclose(found.relative_std, expected.relative_std, rtol=1e-3)
    assert found.relative_std.dtype == np.float64


def test_without_dropout_there_is_no_doubt_and_more_of_it_gives_more() -> None:
    model = CircuitOutlierDetector(**DROPPING, dropout=0.0).fit(IRIS)
    certain = model.uncertainty(IRIS)
    np.testing.assert_allclose(certain.log_mean, certain.log_likelihood, rtol=1e-9)
    assert (certain.relative_std < 1e-6).all()
    assert (certain.log_std < 1e-6).all()
    p_value, deviation = model.p_value(IRIS), certain.relative_std
    for rate in (0.05, 0.2, 0.5):
        found = model.set_params(dropout=rate).uncertainty(IRIS)
        assert (found.relative_std > deviation).all()
        assert (found.log_mean < found.log_likelihood).all()
        deviation = found.relative_std
    np.testing.assert_array_equal(model.p_value(IRIS), p_value)  # the density alone decides on outliers


def test_what_no_mask_makes_possible_has_no_deviation() -> None:
    possible, never = (socratic.Leaf(0, socratic.families.Categorical.of([share, 1.0 - share])) for share in (0.4, 0.0))
    graph = socratic.Graph(socratic.Sum([possible, possible], [0.5, 0.5]), dtype=torch.float64)
    dead = socratic.Graph(socratic.Sum([never, never], [0.5, 0.5]), dtype=torch.float64)
    for circuit, deviation in ((graph, np.sqrt(0.5 * 0.2 / 0.8)), (dead, 0.0)):
        moments = socratic.tdi(circuit.requires_grad_(False), [[0.0]], dropout=0.2, root_dropout=True)
        found = DensityUncertainty.of_moments(moments, np.zeros(1), 0.0)
        np.testing.assert_allclose(found.relative_std, [deviation], rtol=1e-9)
        np.testing.assert_allclose(found.log_std, np.sqrt(np.log1p([deviation**2])), rtol=1e-9)


def test_upper_bounds_stand_in_for_moments_that_cost_too_much() -> None:
    x = np.random.default_rng(0).integers(0, 60, (60, 3)).astype(float)
    root = socratic.chow_liu_tree(x, socratic.families.Categorical(60))
    graph = socratic.Graph([root], dtype=torch.float64).requires_grad_(False)
    moments = socratic.tdi(graph, x[:3], dropout=0.05, root_dropout=True)
    found = DensityUncertainty.of_moments(moments, np.zeros(3), 0.0)
    assert moments.variance_bounds is not None
    assert found.method == "bounds"
    np.testing.assert_allclose(found.relative_std**2, moments.variance_bounds[1].squeeze(1).numpy())


def test_what_cannot_be_is_named(tmp_path: Any) -> None:
    with pytest.raises(NotFittedError):
        CircuitDensity().uncertainty(IRIS)
    with pytest.raises(ValueError, match="doubt must be one of 'weights', 'dropout'; got 'both'"):
        CircuitDensity(doubt="both").fit(IRIS)
    for wrong in ("auto", None, 1.0):
        with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\); got"):
            CircuitDensity(dropout=wrong).fit(IRIS)
    model = CircuitDensity(**DROPPING).fit(IRIS)
    with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\); got 2"):
        model.set_params(dropout=2).uncertainty(IRIS)
    path = tmp_path / "model"
    model.save(path)
    with pytest.raises(socratic.ModelFileError, match=r"it does not describe a CircuitDensity \(dropout must be"):
        socratic.load(path)
    tensors, config = read_tensors(path, storage.FORMAT, storage.VERSION)
    del config["parameters"]["dropout"], config["parameters"]["masks"]  # as files were before there was a choice
    write_tensors(path, storage.FORMAT, storage.VERSION, tensors, config)
    expected = model.set_params(dropout=0.1).uncertainty(IRIS)
    np.testing.assert_array_equal(socratic.load(path).uncertainty(IRIS).relative_std, expected.relative_std)
