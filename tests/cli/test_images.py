"""The commands on folders of images."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from socratic import load
from socratic.images import load_image_folder
from socratic.scoring import ANSWER_COLUMNS
from tests.cli.conftest import Run, assert_one_line, finished, launch, read_csv, table, write_csv
from tests.cli.test_evaluate import measured

Image = pytest.importorskip("PIL.Image")
FIT = ["--epochs", "2", "--jobs", "1"]


def write_images(folder: Path, n_images: int, *, seed: int = 0, side: int = 8, colour: bool = False) -> Path:
    """Bright left halves and bright right halves, one subfolder each."""
    rng = np.random.default_rng(seed)
    for name in ("left", "right"):
        (folder / name).mkdir(parents=True)
        for place in range(n_images):
            pixels = rng.integers(0, 80, size=(side, side, 3) if colour else (side, side))
            half = slice(None, side // 2) if name == "left" else slice(side // 2, None)
            pixels[:, half] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{place}.png")
    return folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train``, ``test`` and ``model``, which no test changes."""
    from socratic.cli.app import main

    place = tmp_path_factory.mktemp("images")
    write_images(place / "train", 80)
    write_images(place / "test", 12, seed=1)
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(place / "train"), *FIT, "-o", str(place / "model"), "--quiet"])
    assert not stop.value.code
    return place


def test_fit_says_what_it_learned_from(run: Run, images: Path, tmp_path: Path) -> None:
    done = run("fit", images / "train", *FIT, "-o", tmp_path / "model", "--checkpoint", tmp_path / "state")
    assert (done.code, done.err) == (0, "")
    assert "160, 8 x 8 pixels, grey" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == (images / "model").read_bytes()


def test_predictions_are_those_of_the_library(run: Run, images: Path, tmp_path: Path) -> None:
    done = run("predict", images / "model", images / "test", "-o", tmp_path / "out.csv")
    assert (done.code, done.err) == (0, "")
    header, rows = read_csv(tmp_path / "out.csv")
    assert header == ["path", *ANSWER_COLUMNS, "p(left)", "p(right)", "reasons"]
    expected = [images / "test" / name / f for name in ("left", "right") for f in sorted(f"{i}.png" for i in range(12))]
    assert [row[0] for row in rows] == [str(path) for path in expected]
    model, data = load(images / "model"), load_image_folder(images / "test")
    answer = model.answer(data.images)
    assert [row[1] for row in rows] == model.predict(data.images).tolist()
    np.testing.assert_allclose([float(row[5]) for row in rows], answer.uncertainty.p_value, rtol=1e-4)
    assert np.mean([row[1] == path.parent.name for row, path in zip(rows, expected, strict=True)]) > 0.9


def test_a_flat_folder_and_a_table_of_paths(
    run: Run, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socratic.cli.folders.CHUNK_IMAGES", 5)
    assert run("predict", images / "model", images / "test" / "left", "-o", tmp_path / "flat.csv").code == 0
    rows = read_csv(tmp_path / "flat.csv")[1]
    assert len(rows) == 12
    listed = write_csv(tmp_path / "list.csv", [["x", row[0]] for row in rows], ["note", "path"])
    assert run("predict", images / "model", listed, "-o", tmp_path / "listed.csv").code == 0
    found = read_csv(tmp_path / "listed.csv")[1]
    assert [row[1:3] for row in found] == [row[:2] for row in rows]
    answers, expected = (np.array([row[-9:-4] for row in each], dtype=float) for each in (found, rows))
    np.testing.assert_allclose(answers, expected, rtol=1e-3)  # in pieces of another size


def test_evaluate(run: Run, images: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for place in range(6):
        Image.fromarray(rng.integers(0, 256, (8, 8)).astype(np.uint8)).save(tmp_path / f"{place}.png")
    done = run("evaluate", images / "model", images / "test", "--ood", tmp_path)
    assert (done.code, done.err) == (0, "")
    found = measured(done.out)
    assert found["rows"] == "24"
    assert float(found["accuracy"]) > 0.9
    assert "telling 6 other rows apart" in done.out


def test_info(run: Run, images: Path) -> None:
    done = run("info", images / "model")
    assert (done.code, done.err) == (0, "")
    assert "8 x 8 pixels, grey" in done.out
    assert "2: left, right" in done.out


def test_numbered_classes_are_numbers(run: Run, images: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("left", "right")):
        (tmp_path / "train" / f"{number}").parent.mkdir(exist_ok=True)
        (tmp_path / "train" / f"{number}").symlink_to(images / "train" / name)
    assert run("fit", tmp_path / "train", *FIT, "-o", tmp_path / "m", "-q").code == 0
    assert load(tmp_path / "m").classes_.tolist() == [0, 1]


def test_sizes(run: Run, images: Path, tmp_path: Path) -> None:
    mixed = write_images(tmp_path / "mixed", 20)
    write_images(tmp_path / "large", 20, side=12, colour=True)
    (tmp_path / "large" / "left" / "0.png").rename(mixed / "left" / "large.png")
    line = assert_one_line(run("fit", mixed, *FIT, "-o", tmp_path / "m"))
    assert "large.png has 12 x 12: have all of them resized with --image-shape" in line
    done = run("fit", mixed, *FIT, "-o", tmp_path / "m", "--image-shape", "8x8x1")
    assert "41, 8 x 8 pixels, grey" in done.out
    out = tmp_path / "out.csv"
    line = assert_one_line(run("predict", tmp_path / "m", tmp_path / "large", "-o", out))
    assert "expected are 8 x 8 pixels" in line
    assert "(--resize)" in line
    assert run("predict", tmp_path / "m", tmp_path / "large", "-o", out, "--resize").code == 0
    assert len(read_csv(out)[1]) == 39


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "empty", "-o", "m"], "no images in empty"),
        (["fit", "test/left", "-o", "m"], "has no subfolders; put the images of each class into a subfolder"),
        (["fit", "single", "-o", "m"], "single holds one class only ('left'); a classifier needs two"),
        (["fit", ".", "-o", "m"], "holds test, train; name one of them, such as train"),
        (["fit", "broken", "-o", "m"], "broken/left/bad.png is damaged or no image"),
        (["fit", "test", "-o", "m", "--target", "y"], "--target is for tables; test is a folder of images"),
        (["fit", "test", "-o", "m", "--leaf", "a=gaussian"], "--leaf is for tables"),
        (["fit", "test", "-o", "m", "--time-budget", "3"], "--time-budget is for tables"),
        (["fit", "test", "-o", "m", "--structure", "learnspn"], "--structure must be one of spatial, random"),
        (["predict", "model", "empty", "-o", "o.csv"], "no images in empty"),
        (["predict", "model", "broken", "-o", "o.csv"], "broken/left/bad.png is damaged or no image"),
        (
            ["predict", "model", "rows.csv", "-o", "o.csv"],
            "trained on images, and rows.csv is a table without a column",
        ),
        (
            ["predict", "table-model", "test", "-o", "o.csv"],
            "test is a folder of images, and the model was trained on a",
        ),
        (["predict", "table-model", "rows.csv", "-o", "o.csv", "--resize"], "--resize is for images"),
        (["evaluate", "model", "test", "--target", "y"], "--target is for tables"),
        (["evaluate", "model", "rows.csv"], "a table needs --target"),
        (["evaluate", "model", "strange"], "holds 'up' (1 such rows), which is no class of the model (left, right)"),
    ],
)
def test_mistakes_are_one_line(
    run: Run,
    folder: Path,
    images: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    for name in ("train", "test", "model"):
        (tmp_path / name).symlink_to(images / name)
    (tmp_path / "table-model").symlink_to(folder / "model")
    write_csv(tmp_path / "rows.csv", table(5, 0))
    made = {"single/left": "left", "broken/left": "left", "broken/right": "right", "strange/up": "left"}
    for name, image in made.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "0.png").symlink_to(images / "test" / image / "0.png")
    (tmp_path / "broken" / "left" / "bad.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    if arguments[1] == ".":
        for name in ("single", "broken", "strange", "empty"):
            (tmp_path / name).rename(tmp_path.parent / f"{tmp_path.name}-{name}")
    monkeypatch.chdir(tmp_path)
    assert message in assert_one_line(run(*arguments))
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.slow
def test_a_killed_fit_resumes_to_the_same_bytes(images: Path, tmp_path: Path) -> None:
    command = ["fit", images / "train", "--epochs", 30, "--jobs", 1, "--checkpoint", tmp_path / "state"]
    assert finished(launch(*command, "-o", tmp_path / "whole")).code == 0
    process = launch(*command, "-o", tmp_path / "model")
    while not (tmp_path / "state").exists() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    finished(process)
    assert (tmp_path / "state").exists(), "killed too late to test anything"
    done = finished(launch(*command, "-o", tmp_path / "model"))
    assert "resuming from it" in done.err
    assert (tmp_path / "model").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "state").exists()


def test_uncertain_pixels(run: Run, images: Path, tmp_path: Path) -> None:
    assert run("fit", images / "train", *FIT, "-o", tmp_path / "model", "--leaf-variance", "0.02", "-q").code == 0
    assert load(tmp_path / "model").leaf_variance == 0.02
    done = run("fit", images / "train", *FIT, "-o", tmp_path / "model", "--leaf-variance", "x0=0.02")
    assert "--leaf-variance of a column is for tables" in assert_one_line(done)
