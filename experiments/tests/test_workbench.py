from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from socratic.errors import ModelFileError
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.methods import method_names, methods_for
from socratic_experiments.settings import ExperimentSettings
from socratic_experiments.workbench import Workbench


def test_images_are_apart(bench: Workbench) -> None:
    assert (len(bench.train), len(bench.held_out), len(bench.test)) == (1038, 259, 80)
    seen = {image.tobytes() for image in bench.train.images}
    assert not any(image.tobytes() in seen for image in bench.held_out.images)
    assert bench.unknown[0].images.shape == (60, 8, 8, 1)
    assert bench.n_classes == 10


def test_the_plan(bench: Workbench) -> None:
    tasks = bench.plan(None, [4, 5])
    seeds = {name: [task.seed for task in tasks if task.model == name] for name in {task.model for task in tasks}}
    assert seeds["circuit"] == seeds["MLP"] == [4, 5]
    assert seeds["paper's circuit"] == [4, 5]
    assert seeds["paper's circuit with dropout"] == seeds["circuit without dropout"] == [4]
    assert [task.model for task in bench.plan(["MLP"], [0])] == ["MLP"]
    assert all("LeNet" not in task.model for task in bench.plan(None, [0], circuits_only=True))
    with pytest.raises(ValueError, match=r"model must be one of 'circuit', .*; got 'MPL'"):
        bench.plan(["MPL"], [0])


@pytest.mark.parametrize("name", ["circuit", "MLP", "LeNet-5", "LeNet-5 ensemble"])
def test_a_model_from_its_file_answers_the_same(bench: Workbench, name: str) -> None:
    [(_, model, trained)] = bench.models(bench.plan([name], [0]))
    [(_, again, facts)] = bench.models(bench.plan([name], [0]))
    assert again is not model
    assert facts == trained
    assert 0.0 <= facts["accuracy"] <= 1.0
    assert facts["n_parameters"] == model.n_parameters > 1000
    images = bench.test.images[:20]
    for label, method in methods_for(model, 3).items():
        np.testing.assert_array_equal(method(images).score, methods_for(again, 3)[label](images).score)


def test_circuits_learn_and_their_detector_knows_noise(bench: Workbench) -> None:
    [(_, model, facts)] = bench.models(bench.plan(["circuit"], [0]))
    assert facts["accuracy"] > 0.5
    assert isinstance(model, CircuitModel)
    assert np.mean(model.classifier.reject(bench.unknown[0].images)) > 0.9


def test_a_perceptron_is_about_as_large_as_the_circuit(bench: Workbench) -> None:
    [(_, network, _)] = bench.models(bench.plan(["MLP"], [0]))
    assert abs(network.n_parameters / bench._main_size() - 1) < 0.1


def test_other_recipes_have_other_files(bench: Workbench) -> None:
    [first] = bench.plan(["circuit"], [0])
    assert bench._name(first) != bench._name(replace(first, seed=1))
    assert bench._name(first) != bench._name(replace(first, recipe=first.recipe.changed({"n_epochs": 1})))
    assert "'" not in bench._name(bench.plan(["paper's circuit"], [0])[0])


@pytest.mark.parametrize(("name", "ending"), [("MLP", ".pt"), ("circuit", ".safetensors")])
def test_a_foreign_model_file_is_named(bench: Workbench, name: str, ending: str, tmp_path: Path) -> None:
    elsewhere = replace(bench, folder=tmp_path)
    [task] = elsewhere.plan([name], [0])
    (tmp_path / f"{elsewhere._name(task)}.json").write_text("{}")
    (tmp_path / f"{elsewhere._name(task)}{ending}").write_bytes(b"nothing of use")
    with pytest.raises(ModelFileError, match=f"digits-{name}-0"):
        list(elsewhere.models([task]))


def test_too_few_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n_train must leave at least 15 images; 'digits' gives 10"):
        Workbench.open(ExperimentSettings("digits", n_train=10), None, tmp_path, torch.device("cpu"))
    with pytest.raises(ValueError, match="n_train must leave images of every class; none of class"):
        Workbench.open(ExperimentSettings("digits", n_train=15), None, tmp_path, torch.device("cpu"))


def write_classes(folder: Path, classes: dict[str, int], size: tuple[int, int] = (8, 8)) -> None:
    """A folder of classes, each with so many images of one grey level of its own."""
    from PIL import Image

    for level, (name, n) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for number in range(n):
            pixels = np.full(size, 40 * level + number % 30, dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:03d}.png")


def opened(data: Path, train: str, *unknown: str) -> Workbench:
    return Workbench.open(ExperimentSettings(train, unknown), data, data / "models", torch.device("cpu"))


def test_an_undivided_folder_is_divided(tmp_path: Path) -> None:
    write_classes(tmp_path / "shapes", {"a": 30, "b": 30})
    bench = opened(tmp_path, "shapes")
    assert (len(bench.train) + len(bench.held_out), len(bench.test)) == (48, 12)
    seen = {image.tobytes() for image in np.concatenate([bench.train.images, bench.held_out.images])}
    assert not any(image.tobytes() in seen for image in bench.test.images)


def test_classes_have_the_same_numbers_in_both_parts(tmp_path: Path) -> None:
    write_classes(tmp_path / "shapes" / "train", {"a": 20, "b": 20, "c": 20})
    write_classes(tmp_path / "shapes" / "test", {"a": 3, "c": 3})
    bench = opened(tmp_path, "shapes")
    assert bench.test.labels.tolist() == [0, 0, 0, 2, 2, 2]
    assert bench.n_classes == 3
    write_classes(tmp_path / "others" / "train", {"a": 20, "b": 20})
    write_classes(tmp_path / "others" / "test", {"a": 3, "z": 3})
    with pytest.raises(ValueError, match="the test images of 'others' have a class 'z' that its training images lack"):
        opened(tmp_path, "others")


def test_one_class_is_no_problem_to_solve(tmp_path: Path) -> None:
    write_classes(tmp_path / "shapes", {"a": 30})
    with pytest.raises(ValueError, match="train must be a set of at least two classes; 'shapes' has one"):
        opened(tmp_path, "shapes")


def test_sets_are_told_apart_by_name(tmp_path: Path) -> None:
    write_classes(tmp_path / "one" / "noise", {"a": 5})
    write_classes(tmp_path / "two" / "noise", {"a": 5})
    with pytest.raises(ValueError, match="each once; got 'noise' twice"):
        opened(tmp_path, "digits", str(tmp_path / "one" / "noise"), str(tmp_path / "two" / "noise"))
    with pytest.raises(ValueError, match="besides the training set, each once; got 'digits' twice"):
        opened(tmp_path, "digits", "Digits")


def test_unknown_images_of_any_size_are_brought_to_one(tmp_path: Path) -> None:
    write_classes(tmp_path / "mixed" / "a", {"x": 3}, (12, 9))
    write_classes(tmp_path / "mixed" / "b", {"x": 3}, (20, 30))
    assert opened(tmp_path, "digits", "mixed").unknown[0].images.shape == (6, 8, 8, 1)


def test_other_images_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    write_classes(tmp_path / "one" / "shapes", {"a": 30, "b": 30})
    write_classes(tmp_path / "two" / "shapes", {"b": 30, "a": 30})
    first, second = opened(tmp_path / "one", "shapes"), opened(tmp_path / "two", "shapes")
    assert first.digest != second.digest
    assert first._name(first.plan(["MLP"], [0])[0]) != second._name(second.plan(["MLP"], [0])[0])


def test_circuits_only(bench: Workbench) -> None:
    with pytest.raises(ValueError, match="models must name a circuit here, such as 'circuit'; got MLP"):
        bench.plan(["MLP"], [0], circuits_only=True)


def test_a_training_that_diverges_is_refused(bench: Workbench) -> None:
    [task] = bench.plan(["MLP"], [0])
    wild = replace(task, recipe=replace(task.recipe, learning_rate=1e30))
    with pytest.raises(ValueError, match="the training of MLP diverged; choose a smaller learning_rate"):
        list(bench.models([wild]))


def test_only_some_ways_to_ask(bench: Workbench) -> None:
    ((_, model, _),) = bench.models(bench.plan(["circuit"], [0]))
    some = replace(bench, methods=("circuit alone", "TDI exact"))
    assert list(some.ways(model)) == ["circuit alone", "TDI exact, edge masks", "TDI exact, unit masks"]


def test_wrong_ways_to_ask_are_refused_before_training(bench: Workbench) -> None:
    with pytest.raises(ValueError, match=r"methods must begin the name of a way to ask, one of .*; got 'sampling'"):
        replace(bench, methods=("circuit alone", "sampling")).plan(["circuit"], [0])
    with pytest.raises(ValueError, match="methods leave no way to ask 'MLP'; add one of 'network alone'"):
        replace(bench, methods=("TDI",)).plan(["circuit", "MLP"], [0])
    assert replace(bench, methods=("TDI", "network")).plan(["circuit", "MLP"], [0])


def test_names_of_methods_are_those_of_the_models(bench: Workbench) -> None:
    for task, model, _ in bench.models(bench.plan(["circuit", "MLP", "LeNet-5 ensemble"], [0])):
        assert method_names(task.recipe, 3) == list(methods_for(model, 3))
