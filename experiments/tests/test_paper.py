"""All evaluations of the paper by one command, on small images in the formats of its sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.tests.data.test_idx import idx
from scipy.io import savemat

from socratic_experiments.app import main
from socratic_experiments.records import read_records
from tests.programs import runner

FOLDERS = ["corruption-svhn", "corruption-svhn-imagenet", "ood-svhn", "ood-svhn-own", "rotation-mnist"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """House numbers and digits, each class of another grey."""
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(0)
    for name in ("svhn", "mnist", "scenes"):
        (folder / name).mkdir()
    for split, word, n in (("train", "train", 200), ("test", "t10k", 20)):
        labels = np.arange(n) % 10
        pixels = (20 * labels[:, None, None, None] + rng.integers(0, 50, (n, 32, 32, 3))).astype(np.uint8)
        content = {"X": pixels.transpose(1, 2, 3, 0), "y": np.where(labels == 0, 10, labels)[:, None]}
        savemat(folder / "svhn" / f"{split}_32x32.mat", content)
        (folder / "mnist" / f"{word}-images-idx3-ubyte").write_bytes(idx(pixels[:, :28, :28, 0]))
        (folder / "mnist" / f"{word}-labels-idx1-ubyte").write_bytes(idx(labels.astype(np.uint8)))
    (folder / "scenes" / "test").mkdir()
    from PIL import Image

    for number in range(10):
        noise = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "scenes" / "test" / f"{number}.png")
    return folder


@pytest.mark.slow
def test_the_whole_paper(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("n_epochs=1", "n_sums=2", "depth=2", "n_repetitions=1", "batch_size=20")
    small = [f"paper's circuit.{change}" for change in changes]
    run = runner(main, capsys)
    arguments = ["paper", "--data", data, "--unknown", "scenes", "--images", "10", "--models", "paper's circuit"]
    arguments += ["--methods", "circuit alone", "TDI independent"]
    arguments += ["--output", tmp_path, "--set", *small]
    outcome = run(*arguments)
    assert outcome.code == 0, outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FOLDERS, "models", "paper"])
    page = (tmp_path / "paper" / "index.html").read_text()
    for title in (
        "The paper&#x27;s claims",
        "Factors of the paper&#x27;s circuit: SVHN",
        "The paper&#x27;s Table 1",
        "Operating points",
        "Corruptions: SVHN, constants of ImageNet-C",
        "Rotation: MNIST",
    ):
        assert f"<h3>{title}" in page, title
    assert page.count('alt="Examples of the images"') == 3
    figures = {path.stem for path in (tmp_path / "paper" / "figures").glob("*.svg")}
    for figure in ("flagged-svhn", "difference-svhn", "histograms-svhn", "rotation-mnist", "corruption-four-svhn"):
        assert f"{figure}-paper-s-circuit" in figures
    before = {name: read_records(tmp_path / name) for name in FOLDERS}
    assert run(*arguments, "--no-report").code == 0  # nothing is computed twice
    assert {name: read_records(tmp_path / name) for name in FOLDERS} == before


def test_the_papers_sets_are_asked_for_by_name(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = runner(main, capsys)("paper", "--data", data, "--output", tmp_path)
    assert outcome.code == 2
    assert "no test images of 'cifar100'" in outcome.err
