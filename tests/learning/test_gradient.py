from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import socratic
from socratic.errors import ModelFileError
from socratic.learning import Epoch, Rows, TrainingSettings, fit_gradient, initialise_leaves
from socratic.learning.gradient import learning_rate_factor
from socratic.learning.step import objective

LOG_PRIOR = torch.full((3,), -math.log(3))


def blobs(n: int = 90, seed: int = 0) -> Rows:
    """Three classes of four variables, each around a corner."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 3
    x = 0.5 * torch.randn(n, 4, generator=generator) + 2.0 * torch.eye(4)[y]
    return Rows(x, y, torch.ones(n))


def circuit(seed: int = 0) -> socratic.Circuit:
    return socratic.rat_spn(4, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, seed=seed)


def settings(**changes: object) -> TrainingSettings:
    return TrainingSettings(**{"n_epochs": 6, "batch_size": 20, "dropout": 0.1, "learning_rate": 0.05, **changes})


def test_training_learns() -> None:
    rows, model = blobs(), circuit()
    initialise_leaves(model, rows.x)
    history = fit_gradient(model, rows, settings(n_epochs=20), LOG_PRIOR)
    assert history.epochs[-1].loss < 0.5 * history.epochs[0].loss
    assert float((model.log_likelihood(blobs(seed=1).x).argmax(1) == blobs(seed=1).y).float().mean()) > 0.9


def test_the_objective_mixes_cross_entropy_and_likelihood() -> None:
    rows = blobs(6)
    values = torch.randn(6, 3)
    joint = values + LOG_PRIOR
    own = joint[torch.arange(6), rows.y]
    cross_entropy = torch.nn.functional.cross_entropy(values, rows.y)
    for weight in (0.0, 0.3, 1.0):
        expected = weight * cross_entropy - (1 - weight) * own.mean() / 4
        torch.testing.assert_close(objective(values, rows, LOG_PRIOR, 4, weight), expected)


def test_weights_count_as_copies() -> None:
    rows = blobs(4)
    values = torch.randn(4, 3)
    weighted = objective(values, replace(rows, weight=torch.tensor([2.0, 1.0, 1.0, 1.0])), LOG_PRIOR, 4, 1.0)
    index = torch.tensor([0, 0, 1, 2, 3])
    torch.testing.assert_close(weighted, objective(values[index], rows.take(index), LOG_PRIOR, 4, 1.0))


def test_the_learning_rate_warms_up_and_decays() -> None:
    factors = [learning_rate_factor(step, 100) for step in range(100)]
    assert factors[0] == pytest.approx(0.1)
    assert max(factors) == pytest.approx(1.0)
    assert factors.index(max(factors)) == 9
    assert factors[-1] < 0.01
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)


def test_the_learning_rate_can_stay_the_same() -> None:
    assert {learning_rate_factor(step, 100, "constant") for step in range(100)} == {1.0}
    rows = blobs(30)
    losses = [
        fit_gradient(circuit(), rows, settings(schedule=schedule), LOG_PRIOR).epochs[-1].loss
        for schedule in ("cosine", "constant")
    ]
    assert losses[0] != losses[1]
    with pytest.raises(ValueError, match="schedule must be one of 'cosine', 'constant'; got 'linear'"):
        settings(schedule="linear")


def test_the_best_epoch_is_kept_and_training_stops_early() -> None:
    rows, validation = blobs(30), blobs(30, seed=1)
    shuffled = replace(validation, y=validation.y.roll(1))  # labels that cannot be learned
    model = circuit()
    history = fit_gradient(model, rows, settings(n_epochs=50, patience=3), LOG_PRIOR, validation=shuffled)
    assert len(history.epochs) == history.best + 4 < 50
    with torch.no_grad():
        loss = float(objective(model.log_likelihood(shuffled.x), shuffled, LOG_PRIOR, 4, 1.0))
    assert loss == pytest.approx(min(epoch.validation_loss for epoch in history.epochs), rel=1e-4)


def same(a: socratic.Circuit, b: socratic.Circuit) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_an_interrupted_training_resumes_to_the_same_result(tmp_path: Path) -> None:
    rows, validation = blobs(), blobs(seed=1)
    whole = circuit()
    reference = fit_gradient(whole, rows, settings(), LOG_PRIOR, validation=validation)

    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint"
    resumed = circuit()
    with pytest.raises(KeyboardInterrupt):
        fit_gradient(resumed, rows, settings(), LOG_PRIOR, validation=validation, checkpoint=path, progress=interrupt)
    assert path.is_file()
    resumed = circuit()
    seen: list[int] = []
    history = fit_gradient(
        resumed,
        rows,
        settings(),
        LOG_PRIOR,
        validation=validation,
        checkpoint=path,
        progress=lambda epoch: seen.append(epoch.number),
    )
    assert seen == [3, 4, 5]
    assert history == reference
    assert same(resumed, whole)
    assert not path.exists()


@pytest.mark.parametrize("damage", ["other data", "other settings"])
def test_a_checkpoint_of_something_else_is_not_resumed(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "checkpoint"

    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    other = {"other data": (blobs(seed=5), settings()), "other settings": (blobs(), settings(seed=1))}
    rows, changed = other[damage]
    with pytest.raises(KeyboardInterrupt):
        fit_gradient(circuit(), rows, changed, LOG_PRIOR, checkpoint=path, progress=interrupt)
    whole, resumed = circuit(), circuit()
    fit_gradient(whole, blobs(), settings(), LOG_PRIOR)
    fit_gradient(resumed, blobs(), settings(), LOG_PRIOR, checkpoint=path)
    assert same(whole, resumed)


def test_a_file_that_is_no_checkpoint_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ModelFileError, match="is damaged or no model file"):
        fit_gradient(circuit(), blobs(), settings(), LOG_PRIOR, checkpoint=path)
    assert path.read_bytes() == b"not a checkpoint"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_epochs": 0}, "n_epochs must be a whole number of at least 1; got 0"),
        ({"dropout": 1.0}, "dropout must be a number"),
        ({"cross_entropy_weight": 1.5}, "cross_entropy_weight must be between 0 and 1; got 1.5"),
        ({"learning_rate": 0.0}, "learning_rate must be positive; got 0.0"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings(**changes)
