"""The program ``socratic-experiments`` on scikit-learn's digits: every experiment, its folder, its mistakes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from experiments.tests.data.databases import picture, write_database

from socratic_experiments.app import _changes, _options, main
from socratic_experiments.records import read_records
from tests.programs import Run, runner

SMALL = ["--images", "25", "--models", "circuit", "MLP", "--set", "circuit.n_epochs=2", "circuit.n_sums=4"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def experiment(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(main, capsys)


@pytest.mark.parametrize(
    "kind",
    ["sweep", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("ood", "closeness", "rotation", "corruption"))],
)
def test_every_experiment(
    kind: str, experiment: Run, results: Path, images_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socratic_experiments.closeness.LADDER", (3, 6))
    monkeypatch.setattr("socratic_experiments.closeness.N_REFERENCE", 20)
    unknown = ["--unknown", "noise", "--data", images_folder] if kind in ("ood", "sweep", "closeness") else []
    passes = [] if kind == "closeness" else ["--passes", "3"]
    outcome = experiment(kind, "--train", "digits", *unknown, *SMALL, *passes, "--output", results)
    assert outcome.code == 0, outcome.err
    folder = results / f"{kind}-digits"
    assert f"{folder / 'index.html'}" in outcome.out.replace("\n", "")
    assert len(read_records(folder)) > 5
    assert list((folder / "figures").glob("*.svg"))
    assert len(list((folder / "figures").glob("*.svg"))) == len(list((folder / "figures").glob("*.png")))
    page = (folder / "index.html").read_text()
    assert "MLP" in page or kind in ("sweep", "closeness")
    assert (folder / "samples.png").exists() == (kind in ("rotation", "corruption"))


@pytest.mark.slow
def test_a_second_run_adds_seeds_and_keeps_what_is_there(experiment: Run, images_folder: Path, tmp_path: Path) -> None:
    unknown = ["--unknown", "noise", "--data", images_folder]
    arguments = [
        "ood",
        "--train",
        "digits",
        *unknown,
        *SMALL,
        "--passes",
        "2",
        "--no-report",
        "-o",
        tmp_path,
    ]
    assert experiment(*arguments).code == 0
    first = read_records(tmp_path / "ood-digits")
    assert experiment(*arguments, "--seeds", "0", "1").code == 0
    second = read_records(tmp_path / "ood-digits")
    assert second[: len(first)] == first
    assert {record["seed"] for record in second} == {0, 1}
    assert not (tmp_path / "ood-digits" / "index.html").exists()
    assert experiment("report", tmp_path / "ood-digits").code == 0
    assert (tmp_path / "ood-digits" / "index.html").exists()
    markdown = tmp_path / "results.md"
    assert experiment("report", tmp_path / "ood-digits", "--markdown", markdown).code == 0
    assert "digits" in markdown.read_text()


@pytest.mark.slow
def test_other_settings_want_another_folder(experiment: Run, tmp_path: Path) -> None:
    arguments = ["rotation", "--train", "digits", *SMALL, "--no-report", "-o", tmp_path]
    assert experiment(*arguments, "--passes", "2").code == 0
    outcome = experiment(*arguments, "--passes", "3")
    assert outcome.code == 2
    assert "n_passes 2 instead of 3); choose another folder" in outcome.err
    own = experiment(*arguments, "--passes", "2", "--normalise", "own")
    assert own.code == 0
    assert (tmp_path / "rotation-digits-own").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ood"], "name the training set, such as: ood --train mnist"),
        (["ood", "--train", "digits"], "name unknown sets, such as: ood --train svhn --unknown"),
        (["rotation", "--train", "mnist", "--data", "nowhere"], "nowhere"),
        (["rotation", "--train", "digits", "--models", "circus"], "model must be one of 'circuit'"),
        (["rotation", "--train", "digits", "--set", "n_epochs=3"], "--set takes MODEL.NAME=VALUE"),
        (["rotation", "--train", "digits", "--set", "MLP.batch_size=0"], "batch_size must be a whole number"),
        (["rotation", "--train", "digits", "--device", "foo"], "device must be 'auto', 'cpu', or one that is there"),
        (["closeness", "--train", "digits", "--models", "MLP"], "models must name a circuit here"),
        (["rotation", "--train", "digits", "--set", "circuit.n=3"], "a setting of a circuit must be one of"),
        (["rotation", "--train", "digits", "--normalise", "all"], "normalise must be one of 'train', 'own'"),
        (["rotation", "--train", "digits", "--unknown", "svhn"], "No such option"),
        (["rotation", "--train", "digits", "--seeds", "-1"], "No such option: -1"),
        (["corruption", "--train", "digits", "--constants", "jpeg"], "constants must be one of"),
        (["report", "nowhere"], "nowhere holds no results (records.jsonl)"),
        (["rotation", "--train", "digits", "--methods", "guess"], "methods must begin the name of a way to ask"),
        (["paper", "--data", "nowhere"], "there is none at nowhere"),
        (["paper"], "--data FOLDER"),
        (["rotation", "--train", "digits", "--config", "nowhere.yaml"], "--config nowhere.yaml: there is no such file"),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else "",
)
def test_mistakes(
    experiment: Run, arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = experiment(*arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["cinic", "lsun", "svhn-extra"])
def test_a_set_that_is_missing_is_one_line_that_says_how_to_get_it(experiment: Run, name: str, tmp_path: Path) -> None:
    outcome = experiment("ood", "--train", "digits", "--unknown", name, "--data", tmp_path, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert f"no test images of '{name}' in {tmp_path}: looked for a folder {name}" in outcome.err
    assert ", as this does: " in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_lsun_is_met(experiment: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place, category in enumerate(("bedroom", "tower")):
        images = [picture((number, 90 * place, 200 - number)) for number in range(0, 200, 10)]
        write_database(tmp_path / "LSUN" / f"{category}_val_lmdb", images)
    arguments = ["ood", "--train", "digits", "--unknown", "LSUN", "--data", tmp_path, "-o", tmp_path / "out"]
    small = ["--images", "25", "--models", "MLP", "--passes", "2", "--set", "MLP.n_epochs=1"]
    assert experiment(*arguments, *small).code == 0
    records = read_records(tmp_path / "out" / "ood-digits")
    assert {"digits", "lsun"} <= {record.get("set") for record in records}
    assert "LSUN" in (tmp_path / "out" / "ood-digits" / "index.html").read_text()
    monkeypatch.setitem(sys.modules, "lmdb", None)
    outcome = experiment(*arguments, *small, "--seeds", "1")
    assert outcome.code == 2
    assert outcome.err.strip().endswith(
        'reading LSUN needs lmdb; install it with: pip install "socratic-experiments[lsun]"'
    )
    assert len(outcome.err.strip().splitlines()) == 1


def test_a_file_of_options(tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    path.write_text("train: svhn\nunknown: cifar10\nseeds: [1, 2]\noverrides:\n  circuit: {n_epochs: 9, n_sums: 4}\n")
    flags = {"train": "mnist", "unknown": None, "seeds": None, "changes": ["circuit.n_epochs=3"], "config": path}
    options = _options("ood", flags)
    assert options["train"] == "mnist"
    assert options["unknown"] == ["cifar10"]
    assert options["seeds"] == [1, 2]
    assert options["overrides"] == {"circuit": {"n_epochs": 3, "n_sums": 4}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epochs: 3", "rotation has no option 'epochs'; it has data, "),
        ("- a", "must hold options by name"),
        ("a: [", "is no YAML file"),
        ("train: 3", "train must be a name; got 3"),
        ("seeds: a", "seeds must be a list of whole numbers; got 'a'"),
        ("seeds: []", "seeds must be a list of whole numbers; got []"),
        ("seeds: [-1]", "seeds must lie between 0 and"),
        ("models: [[a]]", "models must be a list of names; got [['a']]"),
        ("overrides: [a]", "overrides must hold settings by model; got ['a']"),
        ("train: digits\noverrides: {circuit: 3}", "overrides must hold settings by model"),
        ("train: digits\nn_images: -1", "n_images must be a whole number of at least 1; got -1"),
        ("train: digits\ndata: 3", "data must be a name; got 3"),
    ],
    ids=lambda value: "".join(letter for letter in value if letter.isalnum())[:30],
)
def test_a_wrong_file_of_options(experiment: Run, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    path.write_text(content)
    outcome = experiment("rotation", "--config", path)
    assert outcome.code == 2
    assert message in outcome.err


def test_changes_to_models() -> None:
    pairs = [
        "circuit.n_epochs=3",
        "circuit.structure=random",
        "paper's circuit.dropout=0.3",
        'circuit.dropout="auto"',
    ]
    assert _changes(pairs) == {
        "circuit": {"n_epochs": 3, "structure": "random", "dropout": "auto"},
        "paper's circuit": {"dropout": 0.3},
    }


def test_a_mistake_does_not_take_the_folder(experiment: Run, tmp_path: Path) -> None:
    arguments = ["rotation", "--train", "digits", *SMALL, "--passes", "2", "--no-report", "-o", tmp_path]
    assert experiment(*arguments, "--set", "circuit.n_epochs=abc").code == 2
    assert not (tmp_path / "rotation-digits").exists()


def test_a_note_that_cannot_go_into_a_page(experiment: Run, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()
    (tmp_path / "note.md").write_bytes(b"\xff\xfe")
    page = ["--markdown", tmp_path / "page.md"]
    for arguments, message in (
        (["--note", tmp_path / "note.md"], "--note goes into a page in Markdown; add --markdown FILE"),
        ([*page, "--note", tmp_path / "none.md"], "none.md: there is no such file"),
        ([*page, "--note", tmp_path], "there is no such file"),
        ([*page, "--note", tmp_path / "note.md"], "note.md: the file is no text in UTF-8"),
    ):
        outcome = experiment("report", tmp_path, *arguments)
        assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    assert experiment("report", tmp_path, *page).code == 0  # no records are no mistake
    assert "Experiments: none." in (tmp_path / "page.md").read_text()


@pytest.mark.slow
def test_runs_of_one_experiment_are_not_mixed(experiment: Run, tmp_path: Path) -> None:
    arguments = ["rotation", "--train", "digits", *SMALL, "--passes", "2", "--no-report", "-o", tmp_path]
    assert experiment(*arguments).code == 0
    assert experiment(*arguments, "--normalise", "own").code == 0
    folders = [tmp_path / "rotation-digits", tmp_path / "rotation-digits-own"]
    outcome = experiment("report", *folders, "--markdown", tmp_path / "page.md")
    assert outcome.code == 2
    assert "both hold 'rotation' on 'digits', of other settings" in outcome.err


@pytest.mark.slow
def test_killed_and_run_again(tmp_path: Path) -> None:
    """Killed in the middle of training and again in the middle of asking, the records are the same in the end."""

    def command(folder: str) -> list[str]:
        options = ["--train", "digits", "--models", "circuit", "--images", "300", "--passes", "30", "--no-report"]
        options += ["--set", "circuit.n_epochs=20", "--device", "cpu", "--output", str(tmp_path / folder)]
        return [sys.executable, "-m", "socratic_experiments", "corruption", *options]

    subprocess.run(command("whole"), check=True, capture_output=True, timeout=300)
    for sign in ("models/*.checkpoint", "corruption-digits/records.jsonl"):
        process = subprocess.Popen(command("killed"), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not list((tmp_path / "killed").glob(sign)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    subprocess.run(command("killed"), check=True, capture_output=True, timeout=300)

    def values(folder: str) -> list[str]:
        found = read_records(tmp_path / folder / "corruption-digits")
        return sorted(json.dumps({k: v for k, v in record.items() if k != "seconds"}) for record in found)

    assert values("killed") == values("whole")


@pytest.mark.slow
def test_classes_that_were_not_met(experiment: Run, tmp_path: Path) -> None:
    arguments = ["ood", "--train", "digits:0-4", "--unknown", "digits:5-9", "blank", *SMALL, "--passes", "2"]
    outcome = experiment(*arguments, "--models", "circuit", "-o", tmp_path)
    assert outcome.code == 0, outcome.err
    records = read_records(tmp_path / "ood-digits-0-4")
    assert {record["set"] for record in records if "set" in record} == {"digits:0-4", "digits:5-9", "blank"}
    assert "digits 0-4 against digits 5-9" in (tmp_path / "ood-digits-0-4" / "index.html").read_text()
