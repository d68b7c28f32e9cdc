"""Several circuits of a classifier that answer together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import socratic
from socratic.errors import ModelFileError
from socratic.estimators import CircuitClassifier, storage
from socratic.model_files import read_tensors, write_tensors
from socratic.tables.inputs import encode_rows

X, Y = load_iris(return_X_y=True)
FAR = np.vstack([X, X[::5] + 9.0])
QUICK: dict[str, Any] = {"n_epochs": 4, "n_sums": 3, "n_repetitions": 2, "n_circuits": 3, "random_state": 1}
pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows


@pytest.fixture(scope="module", params=["random", "learnspn"])
def model(request: pytest.FixtureRequest) -> CircuitClassifier:
    return CircuitClassifier(**QUICK, structure=request.param).fit(X, Y)


def by_each(model: CircuitClassifier) -> list[CircuitClassifier]:
    """The same classifier with one of the circuits alone."""
    alone = []
    for circuit, posterior in zip(model.committee_.circuits, model.committee_.weight_posteriors, strict=True):
        one = CircuitClassifier(**{**QUICK, "n_circuits": 1}, structure=model.structure, doubt=model.doubt)
        for name, value in vars(model).items():
            if name.endswith("_") and name not in ("committee_", "profile_", "class_profile_"):
                setattr(one, name, value)
        one.circuit_, one.weight_posterior_ = circuit, posterior
        alone.append(one)
    return alone


def test_probabilities_are_averaged(model: CircuitClassifier) -> None:
    each = [one.predict_proba(FAR) for one in by_each(model)]
    found = model.predict_proba(FAR)
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(model.answer(FAR).probabilities, found)
    assert np.abs(each[0] - each[1]).max() > 1e-3


@pytest.mark.parametrize("doubt", ["weights", "dropout"])
def test_doubts_are_those_of_each_and_that_they_differ(model: CircuitClassifier, doubt: str) -> None:
    model.set_params(doubt=doubt)
    each = [one.uncertainty(FAR) for one in by_each(model)]
    found = model.uncertainty(FAR)
    mean = np.mean([one.mean for one in each], axis=0)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-5, atol=1e-9)
    variance = np.mean([one.std**2 + one.mean**2 for one in each], axis=0) - mean**2
    np.testing.assert_allclose(found.std**2, variance, rtol=1e-3, atol=1e-6)
    within = np.mean([one.entropy - one.mutual_information for one in each], axis=0)
    np.testing.assert_allclose(found.entropy - found.mutual_information, within, rtol=1e-3, atol=1e-5)
    assert (found.mutual_information >= -1e-9).all()
    model.set_params(doubt="weights")


def test_the_density_is_that_of_the_joined_circuit(model: CircuitClassifier) -> None:
    x = encode_rows(model, FAR)
    joined = socratic.join_circuits(model.committee_.circuits)
    torch.testing.assert_close(model.circuit_.log_likelihood(x), joined.log_likelihood(x))
    log_prior = torch.as_tensor(model.class_prior_).log()
    expected = torch.logsumexp(model.circuit_.log_likelihood(x).double() + log_prior, 1).detach().numpy()
    np.testing.assert_allclose(model.score_samples(FAR) + model._log_volume(x), expected, rtol=1e-6)
    np.testing.assert_array_equal(model.uncertainty(FAR).log_likelihood, model.score_samples(FAR))


def test_the_doubts_are_of_circuits_and_of_all_of_them_joined(model: CircuitClassifier) -> None:
    x, rows = encode_rows(model, FAR), model.committee_
    assert {posterior.worth for posterior in rows.weight_posteriors} == {model.weight_posterior_.worth}
    for circuit, posterior in zip(rows.circuits, rows.weight_posteriors, strict=True):
        assert (socratic.moments(circuit.requires_grad_(False), x, posterior).relative_variance >= 0.0).all()
    moments = socratic.moments(model.circuit_.requires_grad_(False), x, model.weight_posterior_)
    assert (moments.relative_variance > 0.0).any()


def test_it_comes_back_from_a_file(model: CircuitClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert vars(loaded).keys() == vars(model).keys()
    assert len(loaded.committee_.circuits) == 3
    found, expected = loaded.answer(FAR), model.answer(FAR)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    for name in ("mean", "std", "log_likelihood", "log_std", "profile", "class_profile", "p_value"):
        np.testing.assert_array_equal(getattr(found.uncertainty, name), getattr(expected.uncertainty, name))
    x = encode_rows(model, FAR)
    assert torch.equal(loaded.circuit_.log_likelihood(x), model.circuit_.log_likelihood(x))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_posteriors_that_are_not_of_the_circuits_are_refused(model: CircuitClassifier, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    tensors, config = read_tensors(tmp_path / "model", storage.FORMAT, storage.VERSION)
    name = next(name for name in tensors if name.startswith("committee_/1/weights/"))
    tensors[name] = torch.cat([tensors[name], tensors[name]])
    write_tensors(tmp_path / "model", storage.FORMAT, storage.VERSION, tensors, config)
    with pytest.raises(ModelFileError, match="is damaged: it does not describe a CircuitClassifier"):
        socratic.load(tmp_path / "model")


@pytest.mark.slow
def test_fitting_again_with_one_circuit_forgets_the_others() -> None:
    model = CircuitClassifier(**{**QUICK, "n_epochs": 1}).fit(X, Y)
    model.set_params(n_circuits=1).fit(X, Y)
    assert not hasattr(model, "committee_")


@pytest.mark.slow
def test_no_rows_have_no_answers() -> None:
    x, y = load_iris(return_X_y=True)
    model = CircuitClassifier(n_epochs=2, n_sums=2, n_circuits=2, random_state=0).fit(x, y)
    assert model.answer_rows(encode_rows(model, x)[:0]).probabilities.shape == (0, len(model.classes_))
