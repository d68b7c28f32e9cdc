"""Several circuits in one estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris

import socratic
from socratic import (
    Circuit,
    CircuitClassifier,
    CircuitDensity,
    CircuitImageClassifier,
    CircuitImageDensity,
    CircuitOutlierDetector,
    Graph,
)
from socratic.estimators import members
from socratic.learning.checkpoint import Checkpoint

Circuits = list[Circuit | Graph]
QUICK: dict[str, Any] = {"n_epochs": 2, "n_sums": 3, "n_repetitions": 2, "random_state": 0}
X, Y = load_iris(return_X_y=True)
IMAGES, DIGITS = load_digits().images[:90, 2:6, 2:6].astype(np.uint8) * 15, load_digits().target[:90] % 3

UNCALIBRATED = {"calibration_fraction": 0.0}  # or there would be models of folds, too
ESTIMATORS: dict[str, Callable[..., Any]] = {
    "classifier": lambda **more: CircuitClassifier(**QUICK, **UNCALIBRATED, **more).fit(X, Y),
    "learned": lambda **more: CircuitClassifier(structure="learnspn", random_state=0, **UNCALIBRATED, **more).fit(X, Y),
    "density": lambda **more: CircuitDensity(**QUICK, **more).fit(X),
    "density by gradient": lambda **more: CircuitDensity(**QUICK, optimiser="adam", **more).fit(X),
    "detector": lambda **more: CircuitOutlierDetector(**QUICK, **UNCALIBRATED, **more).fit(X),
    "images": lambda **more: CircuitImageClassifier(**QUICK, **more).fit(IMAGES, DIGITS),
    "random images": lambda **more: CircuitImageClassifier(**QUICK, structure="random", depth=2, **more).fit(
        IMAGES, DIGITS
    ),
    "density of images": lambda **more: CircuitImageDensity(**QUICK, **more).fit(IMAGES),
}
pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Circuits]:
    """The circuits that were joined, fit by fit."""
    seen: list[Circuits] = []

    def watched(circuits: Circuits) -> Circuit | Graph:
        seen.append(list(circuits))
        return socratic.join_circuits(circuits)

    monkeypatch.setattr(members, "join_circuits", watched)
    return seen


def same(a: Circuit | Graph, b: Circuit | Graph) -> bool:
    one, other = a.state_dict(), b.state_dict()
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def data_of(model: Any) -> np.ndarray:
    return IMAGES if hasattr(model, "image_shape_") else X


@pytest.mark.parametrize("name", ESTIMATORS)
def test_circuits_are_those_of_their_seeds_joined(name: str, joined: list[Circuits], tmp_path: Path) -> None:
    single = ESTIMATORS[name]()
    assert not joined
    two, three = (ESTIMATORS[name](n_circuits=number) for number in (2, 3))
    assert [len(circuits) for circuits in joined] == [2, 3]
    assert same(joined[0][0], single.circuit_)
    assert same(joined[0][0], joined[1][0])  # more circuits keep those that fewer have
    assert same(joined[0][1], joined[1][1])
    assert not same(joined[0][0], joined[0][1])
    assert isinstance(three.circuit_, Graph if name == "learned" else Circuit)
    assert two.n_iter_ == len(two.history_.epochs) > single.n_iter_ or name == "learned"
    assert [epoch.number for epoch in two.history_.epochs].count(0) == (0 if name == "learned" else 2)

    rows = data_of(three)
    apart = [circuit.log_likelihood(x) for circuit in joined[1] for x in three._batches(rows)]
    expected = torch.logsumexp(torch.stack(apart) - np.log(3.0), dim=0).detach()
    found = torch.cat([three.circuit_.log_likelihood(x) for x in three._batches(rows)]).detach()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3 if found.dtype == torch.float32 else 1e-9)

    three.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert loaded.n_circuits == 3
    assert np.array_equal(loaded.score_samples(rows), three.score_samples(rows))


@pytest.mark.parametrize("name", ["classifier", "learned", "images"])
def test_a_joined_classifier_answers(name: str) -> None:
    model = ESTIMATORS[name](n_circuits=2)
    answer = model.answer(data_of(model)[:20])
    np.testing.assert_allclose(answer.probabilities.sum(1), 1.0, rtol=1e-6)
    assert (answer.uncertainty.std >= 0).all()
    assert answer.uncertainty.std.max() > 0


def test_a_joined_density_completes_and_draws_rows() -> None:
    model = ESTIMATORS["density"](n_circuits=2)
    holes = X.copy()
    holes[::2, 1] = np.nan
    assert np.isfinite(model.impute(holes, method="mpe")).all()
    assert model.sample(50, random_state=0).shape == (50, 4)
    assert (model.uncertainty(X).relative_std >= 0).all()


@pytest.mark.parametrize("name", ["classifier", "density by gradient", "images"])
def test_an_interrupted_fit_resumes_with_the_circuit_that_was_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ESTIMATORS[name](n_circuits=3)
    save, files = Checkpoint.save, []

    def watched(self: Checkpoint, *arguments: Any) -> None:
        save(self, *arguments)
        files.append(self.path.name)
        if files[-1] == "state.2" and files.count("state.2") == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", watched)
    with pytest.raises(KeyboardInterrupt):
        ESTIMATORS[name](n_circuits=3, checkpoint=tmp_path / "state")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "state.2"]
    trained = files.count("state")
    resumed = ESTIMATORS[name](n_circuits=3, checkpoint=tmp_path / "state")
    assert files.count("state") == trained + 1  # its end alone
    assert same(resumed.circuit_, whole.circuit_)
    assert str(resumed.history_) == str(whole.history_)  # losses that are NaN differ from themselves
    assert not list(tmp_path.iterdir())


def test_what_is_not_trained_by_gradient_leaves_other_files_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    for name in ("density", "learned"):
        precious.write_bytes(b"no checkpoint")
        ESTIMATORS[name](n_circuits=2, checkpoint=precious)
        assert precious.read_bytes() == b"no checkpoint"


def test_a_structure_without_a_seed_has_one_circuit() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(60, 3)).astype(bool)
    with pytest.raises(ValueError, match=r"n_circuits must be 1 for structure='chow-liu', which learns the same .* 2"):
        CircuitDensity(structure="chow-liu", n_circuits=2).fit(rows)
    CircuitDensity(structure="chow-liu").fit(rows)
