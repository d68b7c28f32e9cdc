from __future__ import annotations

import pytest

from socratic_experiments.settings import CircuitRecipe, ExperimentSettings, NetworkRecipe, recipes_for


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3)])
def test_every_shape_has_all_models(shape: tuple[int, int, int]) -> None:
    recipes = recipes_for(shape)
    circuits = ["circuit", "three circuits", "circuit without dropout", "circuit with noise"]
    papers = ["paper's circuit", "paper's circuit with dropout"]
    assert list(recipes) == [*circuits, *papers, "MLP", "LeNet-5", "LeNet-5 ensemble"]
    without = recipes["circuit without dropout"]
    assert recipes["circuit"] == CircuitRecipe()  # as the classifier comes
    assert without == CircuitRecipe({"training_dropout": 0.0, "leaf_dropout": 0.0})
    ensemble = recipes["LeNet-5 ensemble"]
    assert isinstance(ensemble, NetworkRecipe)
    assert ensemble.n_members == 5


def test_the_papers_sizes() -> None:
    recipes = recipes_for((32, 32, 3))
    paper, other = recipes["paper's circuit"], recipes["paper's circuit with dropout"]
    assert isinstance(paper, CircuitRecipe)
    assert isinstance(other, CircuitRecipe)
    sizes = {"structure": "random", "n_sums": 20, "depth": 5, "n_repetitions": 5}
    training = {"batch_size": 200, "n_epochs": 200, "learning_rate": 0.001, "learning_rate_schedule": "constant"}
    rates = {"training_dropout": 0.0, "leaf_dropout": 0.0, "dropout": 0.1}
    assert {**paper.settings, **sizes, **training, **rates} == paper.settings
    differing = {name for name in paper.settings if paper.settings[name] != other.settings[name]}
    assert differing == {"training_dropout", "leaf_dropout"}
    assert recipes_for((28, 28, 1))["paper's circuit"] == paper.changed({"dropout": 0.2})


def test_overrides() -> None:
    settings = ExperimentSettings("mnist", overrides={"circuit": {"n_epochs": 3}, "MLP": {"dropout": 0.5}})
    recipes = settings.recipes((28, 28, 1))
    assert recipes["circuit"] == CircuitRecipe({"n_epochs": 3})
    assert recipes["MLP"] == NetworkRecipe("MLP", dropout=0.5)
    assert recipes["LeNet-5"] == NetworkRecipe("LeNet-5")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"circus": {}}, "overrides must be one of 'circuit', .*; got 'circus'"),
        ({"circuit": {"epochs": 3}}, "a setting of a circuit must be one of .*'n_sums', .*; got 'epochs'"),
        ({"circuit": {"device": "cpu"}}, "a setting of a circuit must be one of .*; got 'device'"),
        ({"MLP": {"epochs": 3}}, "a setting of a network must be one of 'kind', .*; got 'epochs'"),
        ({"MLP": {"max_shift": -1}}, "max_shift must be a whole number of at least 0; got -1"),
        ({"MLP": {"max_noise": "a"}}, "max_noise must be a number of at least 0; got 'a'"),
        ({"MLP": {"n_epochs": 0}}, "n_epochs must be a whole number of at least 1; got 0"),
        ({"MLP": {"learning_rate": "x"}}, "learning_rate must be a number of at least 0; got 'x'"),
        ({"LeNet-5 ensemble": {"n_members": 0}}, "n_members must be a whole number of at least 1; got 0"),
    ],
    ids=["model", "circuit", "ours", "network", "shift", "noise", "epochs", "rate", "members"],
)
def test_wrong_overrides(overrides: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ExperimentSettings("mnist", overrides=overrides).recipes((28, 28, 1))


def test_wrong_settings() -> None:
    with pytest.raises(ValueError, match="normalise must be one of 'train', 'own'; got 'all'"):
        ExperimentSettings("mnist", normalise="all")
    with pytest.raises(ValueError, match="n_images must be a whole number of at least 1; got 0"):
        ExperimentSettings("mnist", n_images=0)
    with pytest.raises(ValueError, match="train and unknown must be names of image sets; got 3 and"):
        ExperimentSettings(3)
    with pytest.raises(ValueError, match="overrides must hold settings by model"):
        ExperimentSettings("mnist", overrides={"circuit": 3})  # type: ignore[dict-item]
