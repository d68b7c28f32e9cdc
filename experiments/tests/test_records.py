from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from socratic_experiments.records import RECORDS, Records, read_records

NAMES: dict[str, Any] = {"experiment": "ood", "train": "svhn", "model": "circuit", "method": "TDI", "seed": 0}


def test_records_are_read_as_they_came(tmp_path: Path) -> None:
    records = Records(tmp_path / "new", {"train": "svhn"})
    records.append({**NAMES, "set": "a", "auroc": 0.5, "flagged": [1.0, 0.25], "accuracy": None})
    records.append({**NAMES, "set": "b", "auroc": float("nan")})
    found = read_records(records.folder)
    assert found[0] == {**NAMES, "set": "a", "auroc": 0.5, "flagged": [1.0, 0.25], "accuracy": None}
    assert found[1]["auroc"] is None


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    first = Records(tmp_path, {})
    first.append({**NAMES, "auroc": 0.5})
    again = Records(tmp_path, {})
    assert {**NAMES, "auroc": 0.7} in again
    assert {**NAMES, "seed": 1} not in again
    again.append({**NAMES, "auroc": 0.7})
    assert [record["auroc"] for record in read_records(tmp_path)] == [0.5]


def test_a_torn_line_is_left_out_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    Records(tmp_path, {}).append({**NAMES, "auroc": 0.5})
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes() + json.dumps({**NAMES, "seed": 1}).encode()[:30])
    assert len(read_records(tmp_path)) == 1
    records = Records(tmp_path, {})
    records.append({**NAMES, "seed": 1})
    assert [record["seed"] for record in read_records(tmp_path)] == [0, 1]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    Records(tmp_path, {"train": "svhn", "unknown": ("a", "b"), "n_images": 10}).append(NAMES)
    Records(tmp_path, {"train": "svhn", "unknown": ["a", "b"], "n_images": 10})
    with pytest.raises(ValueError, match=r"other settings \(n_images 10 instead of 20\); choose another folder"):
        Records(tmp_path, {"train": "svhn", "unknown": ["a", "b"], "n_images": 20})


def test_a_folder_is_made_with_the_first_record(tmp_path: Path) -> None:
    records = Records(tmp_path / "new", {"train": "svhn"})
    assert not records.folder.exists()
    records.append(NAMES)
    assert json.loads((records.folder / "settings.json").read_text()) == {"train": "svhn"}


def test_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []


def add(folder: Path, seed: int) -> None:
    records = Records(folder, {})
    for number in range(50):
        records.append({**NAMES, "seed": seed, "set": str(number), "flagged": [0.5] * 200})


def test_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=add, args=(tmp_path, seed)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(read_records(tmp_path)) == 150
