"""The script that computes the records of the results page, on digits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.experiments import EXPERIMENTS, Experiment, jobs, keep, run

from socratic_experiments.records import RECORDS, Records, read_records


def test_every_circuit_meets_every_experiment_on_its_set() -> None:
    found = {str(job): [experiment.kind for experiment in job.experiments] for job in jobs(EXPERIMENTS)}
    assert found["mnist, circuit, seed 0"] == ["ood", "rotation", "doubt", "sweep", "closeness"]
    assert found["mnist, circuit, seed 2"] == ["ood", "rotation", "doubt"]
    assert found["svhn, circuit with noise, seed 1"] == ["ood", "corruption"]
    assert found["svhn, paper's circuit, seed 1"] == ["ood", "ood", "corruption", "corruption", "closeness"]
    assert len(found) == 23 + 3 * 5 + 4


@pytest.mark.slow
def test_circuits_run_side_by_side(tmp_path: Path) -> None:
    options = {"n_images": 20, "n_passes": 2, "overrides": {"circuit": {"n_epochs": 1, "n_sums": 2}}}
    wanted = jobs([Experiment("rotation", "digits", {"circuit": (0, 1)}, options)])
    assert run(wanted, {"output": tmp_path}) == 0
    records = read_records(tmp_path / "rotation-digits")
    assert {record["seed"] for record in records} == {0, 1}
    assert run(wanted, {"output": tmp_path}) == 0
    assert read_records(tmp_path / "rotation-digits") == records


def record(experiment: str, model: str, accuracy: float) -> dict[str, object]:
    return {"experiment": experiment, "train": "mnist", "model": model, "method": "a", "seed": 0, "accuracy": accuracy}


def write(folder: Path, *records: dict[str, object]) -> None:
    kept = Records(folder, {"train": "mnist"})
    for one in records:
        kept.append(one)


def test_new_records_take_the_place_of_older_ones(tmp_path: Path) -> None:
    write(tmp_path / "kept" / "ood-mnist", *(record("ood", model, 0.1) for model in ("circuit", "MLP")))
    write(tmp_path / "kept" / "sweep-mnist", record("training", "circuit", 0.1), record("sweep", "circuit", 0.1))
    write(tmp_path / "kept" / "rotation-mnist", record("rotation", "MLP", 0.1))
    before = (tmp_path / "kept" / "rotation-mnist" / RECORDS).read_bytes()
    write(tmp_path / "new" / "ood-mnist", record("training", "circuit", 0.9), record("ood", "circuit", 0.9))
    assert [folder.name for folder in keep(tmp_path / "new", tmp_path / "kept")] == ["ood-mnist", "sweep-mnist"]
    ood = [(one["experiment"], one["model"], one["accuracy"]) for one in read_records(tmp_path / "kept" / "ood-mnist")]
    assert ood == [("ood", "MLP", 0.1), ("training", "circuit", 0.9), ("ood", "circuit", 0.9)]
    assert [one["experiment"] for one in read_records(tmp_path / "kept" / "sweep-mnist")] == ["sweep"]
    assert (tmp_path / "kept" / "rotation-mnist" / RECORDS).read_bytes() == before
    assert json.loads((tmp_path / "kept" / "ood-mnist" / "settings.json").read_text()) == {"train": "mnist"}
