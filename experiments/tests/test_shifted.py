from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from socratic_experiments.records import Records, read_records
from socratic_experiments.samples import save_samples
from socratic_experiments.shifted import ANGLES, run_corruption, run_rotation
from socratic_experiments.shifts import CORRUPTIONS
from socratic_experiments.workbench import Workbench


def test_rotation(bench: Workbench, records: Records) -> None:
    run_rotation(bench, records, ["circuit", "MLP"], [0])
    found = [record for record in read_records(records.folder) if record["experiment"] == "rotation"]
    alone = [record for record in found if record["method"] == "circuit alone"]
    assert [record["level"] for record in alone] == list(ANGLES)
    assert alone[0]["auroc"] == 0.5
    assert alone[0]["refused"] <= 0.05
    assert alone[-1]["accuracy"] < alone[0]["accuracy"]
    assert alone[9]["auroc"] > 0.55
    assert len(found) == len(ANGLES) * (8 + 2)


@pytest.mark.slow
def test_corruption(bench: Workbench, records: Records) -> None:
    few = replace(bench, test=bench.test.take(slice(0, 30)))
    run_corruption(few, records, ["circuit"], [0])
    found = [record for record in read_records(records.folder) if record["experiment"] == "corruption"]
    assert {(record["shift"], record["level"]) for record in found} == {(c, s) for c in CORRUPTIONS for s in range(6)}
    density = {(r["shift"], r["level"]): r for r in found if r["method"] == "log-likelihood"}
    assert density["impulse_noise", 5]["auroc"] > 0.8
    assert density["fog", 0] == {**density["frost", 0], "shift": "fog"}


@pytest.mark.slow
def test_a_killed_run_goes_on(bench: Workbench, records: Records) -> None:
    run_rotation(bench, records, ["circuit"], [0])
    path = records.folder / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: 2 * len(whole) // 3])
    run_rotation(bench, Records(records.folder, bench.settings.to_dict()), ["circuit"], [0])
    lines = whole.splitlines()
    assert set(lines) <= set(path.read_bytes().splitlines())
    assert len(read_records(records.folder)) == len(lines)


def test_samples(bench: Workbench, tmp_path: Path) -> None:
    from PIL import Image

    for experiment in ("rotation", "corruption"):
        path = save_samples(experiment, bench.test.images, "cifar", tmp_path)
        assert path.name == "samples.png"
        with Image.open(path) as picture:
            assert np.asarray(picture).std() > 10
