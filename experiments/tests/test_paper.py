"""All evaluations of the paper by one command, on small images in the formats of its sets."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from experiments.tests.data.test_idx import idx
from scipy.io import savemat

from socratic_experiments.app import main
from socratic_experiments.records import read_records
from socratic_experiments.reporting.summaries import read_folder
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


def small_paper(data: Path, output: Path) -> list[str]:
    """Arguments for a small circuit, asked in two ways."""
    changes = ("n_epochs=1", "n_sums=2", "depth=2", "n_repetitions=1", "batch_size=20")
    return [
        *("paper", "--data", str(data), "--unknown", "scenes", "--images", "10", "--models", "paper's circuit"),
        *("--methods", "circuit alone", "TDI independent", "--output", str(output)),
        *("--set", *(f"paper's circuit.{change}" for change in changes)),
    ]


@pytest.mark.slow
def test_the_whole_paper(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(main, capsys)
    arguments = small_paper(data, tmp_path)
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--unknown", "scenes", "scenes"], "each once; got 'scenes' twice"),
        (["--unknown", "svhn"], "each once; got 'svhn' twice"),
        (["--unknown", "scenes", "--models", "nobody"], "model must be one of"),
        (["--unknown", "scenes", "--methods", "guess"], "methods must begin the name of a way to ask"),
    ],
)
def test_mistakes_are_found_before_training(
    changes: list[str], message: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = runner(main, capsys)("paper", "--data", data, "--output", tmp_path, *changes)
    assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    assert list(tmp_path.iterdir()) == []


def test_digits_that_are_missing_are_found_before_training(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    for name in ("svhn", "scenes"):
        (half / name).symlink_to(data / name)
    outcome = runner(main, capsys)("paper", "--data", half, "--unknown", "scenes", "--output", tmp_path / "results")
    assert (outcome.code, "'mnist'" in outcome.err) == (2, True), outcome.err
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_killed_and_joined_by_another_process(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "socratic_experiments", *small_paper(data, tmp_path), "--no-report"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    killed = start()
    first, deadline = tmp_path / "ood-svhn" / "records.jsonl", time.monotonic() + 120
    while not first.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    both = [start(), start()]
    assert [one.wait() for one in both] == [0, 0]
    counts = {name: len(read_folder(tmp_path / name)[0]) for name in FOLDERS}
    # A training, and two ways to ask about two sets, 19 angles, or 15 corruptions at 6 levels.
    assert counts["ood-svhn"] == counts["ood-svhn-own"] == 5
    assert counts["rotation-mnist"] == 39
    assert counts["corruption-svhn"] == counts["corruption-svhn-imagenet"] == 181
