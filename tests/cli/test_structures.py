"""Structures on the command line: fit, info, predict and evaluate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from socratic import load
from socratic.cli import parsing
from tests.cli.conftest import Run, assert_one_line, read_csv, table, write_csv


@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_learned_models_from_fit_to_evaluation(run: Run, folder: Path, tmp_path: Path, structure: str) -> None:
    drop = ["--drop", "age", "--drop", "income"] if structure == "chow-liu" else []
    model = tmp_path / "model"
    options = ["--target", "outcome", "--structure", structure, "--jobs", 1, *drop]
    done = run("fit", folder / "train.csv", *options, "-o", model)
    assert (done.code, done.err) == (0, "")
    assert "epochs       none: structure and parameters are learned from the table" in done.out
    loaded = load(model)
    assert loaded.structure == structure

    done = run("info", model)
    assert (done.code, done.err) == (0, "")
    assert f"{structure} ({loaded.circuit_.n_nodes:,} nodes)" in done.out
    assert "none: structure and parameters are learned" in done.out

    answers = tmp_path / "answers.csv"
    done = run("predict", model, folder / "test.csv", "-o", answers)
    assert done.code == 0, done.err
    header, rows = read_csv(answers)
    assert len(rows) == 60
    truth = [row[-1] for row in read_csv(folder / "test.csv")[1]]
    said = [row[header.index("label")] for row in rows]
    assert np.mean([a == b for a, b in zip(truth, said, strict=True)]) > 0.7

    other = write_csv(tmp_path / "other.csv", [["900", "70", "red", "true", "yes"]] * 5)
    done = run("evaluate", model, folder / "test.csv", "--target", "outcome", "--ood", other)
    assert done.code == 0, done.err
    assert "accuracy" in done.out


def test_a_time_budget_and_what_it_chose(run: Run, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "train.csv", table(60, 0))
    done = run("fit", data, "--target", "outcome", "-o", tmp_path / "m", "--time-budget", 1e-9, "--jobs", 1)
    assert (done.code, done.err) == (0, "")
    reason = load(tmp_path / "m").structure_reason_
    assert reason.endswith("of 60 rows, with no time left for learnspn and random")
    for told in (done, run("info", tmp_path / "m")):
        assert f"forest: {reason}" in told.out


def test_images_in_tables(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[*(f"{value:.2f}" for value in rng.normal(i % 2, 1.0, 6)), "ab"[i % 2]] for i in range(150)]
    data = write_csv(tmp_path / "train.csv", rows, [*(f"p{i}" for i in range(6)), "y"])
    command = ["fit", data, "--target", "y", "-o", tmp_path / "m", "--structure", "spatial", "--epochs", 1, "--jobs", 1]
    assert "6 columns are no square image" in assert_one_line(run(*command))
    done = run(*command, "--image-shape", "2x3")
    assert (done.code, done.err) == (0, "")
    model = load(tmp_path / "m")
    assert list(model.image_shape or ()) == [2, 3]
    assert "spatial" in run("info", tmp_path / "m").out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--structure", "learnspm"],
            "must be one of auto, random, spatial, hidden-chow-liu, learnspn, chow-liu, kernels, forest",
        ),
        (["--structure", "learnspm"], "did you mean 'learnspn'?"),
        (["--structure", "learnspn", "--epochs", 3], "--epochs is for circuits that are trained"),
        (["--structure", "chow-liu", "--checkpoint", "state"], "--checkpoint is for circuits that are trained"),
        (["--structure", "forest", "--time-budget", 5], "--time-budget is for --structure auto; got"),
        (["--time-budget", -1], "--time-budget must be at least 0 seconds; got -1"),
        (["--structure", "chow-liu"], "takes bernoulli and categorical columns; got 'age' (gaussian)"),
        (["--structure", "spatial", "--image-shape", "28"], "--image-shape takes HEIGHTxWIDTH"),
        (["--structure", "spatial", "--image-shape", "2x3"], "has 6 values, and the table 4 columns"),
    ],
)
def test_wrong_options(run: Run, tmp_path: Path, options: list[object], message: str) -> None:
    data = write_csv(tmp_path / "train.csv", table(60, 0))
    done = run("fit", data, "--target", "outcome", "-o", tmp_path / "m", "--quiet", *options)
    assert message in assert_one_line(done)
    assert not (tmp_path / "m").exists()


def test_the_names_are_those_of_the_library() -> None:
    from socratic.estimators.building import STRUCTURES
    from socratic.estimators.learned import LEARNED
    from socratic.estimators.posterior import DOUBTS

    assert (parsing.STRUCTURES, parsing.LEARNED_STRUCTURES, parsing.DOUBTS) == (STRUCTURES, LEARNED, DOUBTS)
