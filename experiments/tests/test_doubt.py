from __future__ import annotations

import pytest

from socratic_experiments.doubt import DETECTOR, GUARD, run_doubt
from socratic_experiments.records import Records, read_records
from socratic_experiments.reporting.tables import doubt_table
from socratic_experiments.workbench import Workbench


@pytest.mark.slow
def test_every_score_the_detector_and_a_guard(bench: Workbench, records: Records) -> None:
    models = ["circuit", "LeNet-5 ensemble"]
    run_doubt(bench, records, models, [0])
    found = [record for record in read_records(records.folder) if record["experiment"] == "doubt"]
    by_model = {model: {record["method"] for record in found if record["model"] == model} for model in models}
    assert len(by_model["circuit"]) == 8
    assert DETECTOR in by_model["circuit"]
    assert by_model["LeNet-5 ensemble"] == {"entropy", GUARD}
    areas = {(r["model"], r["method"]): r["auroc"] for r in found if r["role"] == "unknown"}
    assert areas["circuit", DETECTOR] > 0.9
    assert areas["LeNet-5 ensemble", GUARD] > areas["LeNet-5 ensemble", "entropy"] - 0.05
    for record in found:
        assert (record["rejected"] is not None) == (record["method"] in (DETECTOR, GUARD))

    table = doubt_table(found, bench.settings.train)
    assert len(table.rows) == 10

    before = (records.folder / "records.jsonl").read_bytes()
    run_doubt(bench, Records(records.folder, bench.settings.to_dict()), models, [0])
    assert (records.folder / "records.jsonl").read_bytes() == before
