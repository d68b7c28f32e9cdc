"""``socratic monitor``: tables in the order of their rows, the report, and a state to go on from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Run, assert_one_line, read_csv, table, write_csv


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an outlier detector with calibration rows that were held out for good."""
    from socratic import CircuitOutlierDetector

    place = tmp_path_factory.mktemp("monitor")
    path = write_csv(place / "train.csv", table(900, 0))
    import pandas as pd

    CircuitOutlierDetector(random_state=0).fit(pd.read_csv(path).drop(columns="outcome")).save(place / "model")
    return place / "model"


def days(folder: Path, n_rows: int, spoilt: bool) -> Path:
    """A table whose incomes are, if it is ``spoilt``, in another unit from row 101 on."""
    rows = table(n_rows, 7)
    for row in rows[100:] if spoilt else []:
        row[1] = f"{1000 * float(row[1]):.0f}"
    return write_csv(folder / ("spoilt.csv" if spoilt else "good.csv"), rows)


def test_familiar_tables_raise_no_alarm(run: Run, model: Path, tmp_path: Path) -> None:
    good = days(tmp_path, 400, spoilt=False)
    outcome = run("monitor", model, good, good, "--json", tmp_path / "report.json")
    assert outcome.code == 0, outcome
    assert "800 rows, " in outcome.out
    assert "no alarm: nothing says" in outcome.out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["alarm"] is False
    assert [each["first_row"] for each in report["files"]] == [0, 400]


def test_a_change_is_told_with_its_row_and_column(run: Run, model: Path, tmp_path: Path) -> None:
    good, spoilt = days(tmp_path, 400, spoilt=False), days(tmp_path, 200, spoilt=True)
    outcome = run("monitor", model, good, spoilt)
    assert outcome.code == 3, outcome
    assert f"ALARM: rows have changed since about row 501 (row 101 of {spoilt})" in " ".join(outcome.out.split())
    assert "income" in outcome.out
    assert "more surprising" in outcome.out


def test_a_state_goes_on_where_the_last_run_stopped(run: Run, model: Path, tmp_path: Path) -> None:
    good, spoilt = days(tmp_path, 400, spoilt=False), days(tmp_path, 200, spoilt=True)
    state = tmp_path / "state"
    at_once = json.loads(run("monitor", model, good, spoilt, "--json", "-").out)
    assert run("monitor", model, good, "--state", state, "--quiet").out == ""
    later = run("monitor", model, spoilt, "--state", state, "--json", "-")
    assert later.code == 3
    again = json.loads(later.out)
    assert again.pop("files") == [{"path": str(spoilt), "first_row": 400}]
    del at_once["files"]
    assert again.pop("log_wealth") == pytest.approx(at_once.pop("log_wealth"))
    assert again == at_once
    kept = run("monitor", model, good, "--state", state)
    assert kept.code == 3  # an alarm stays
    assert "row 501 (before these tables)" in " ".join(kept.out.split())


def test_classifiers_without_columns(run: Run, folder: Path, tmp_path: Path) -> None:
    spoilt = days(tmp_path, 200, spoilt=True)
    report = json.loads(run("monitor", folder / "model", spoilt, "--no-columns", "--json", "-").out)
    assert report["alarm"]
    assert report["columns"] == []


def test_unknown_values_are_warned_of(run: Run, model: Path, tmp_path: Path) -> None:
    rows = table(30, 3)
    rows[4][2] = "violet"
    outcome = run("monitor", model, write_csv(tmp_path / "new.csv", rows), "-q")
    assert "values not seen in training count against their rows: 1 in 1 column(s), such as 'violet'" in outcome.err


def test_mistakes_are_named(run: Run, model: Path, folder: Path, tmp_path: Path) -> None:
    good = days(tmp_path, 40, spoilt=False)
    header, rows = read_csv(good)
    lacking = write_csv(tmp_path / "lacking.csv", rows, ["Age", *header[1:]])
    assert "has no column 'age'; did you mean 'Age'?" in assert_one_line(run("monitor", model, lacking))
    assert "rate must be a finite number" in assert_one_line(run("monitor", model, good, "--rate", "0"))
    assert "there is no file" in assert_one_line(run("monitor", model, tmp_path / "none.csv"))
    assert "there is no model file" in assert_one_line(run("monitor", tmp_path / "none", good))
    assert "would overwrite the input" in assert_one_line(run("monitor", model, good, "--state", good))
    state = tmp_path / "state"
    assert run("monitor", model, good, "--state", state, "--rate", "0.02").code == 0
    assert "was begun with rate 0.02, which cannot become 0.1; leave it out, or take a new file" in assert_one_line(
        run("monitor", model, good, "--state", state, "--rate", "0.1")
    )
    assert "saved by a monitor of another model; start a new one" in assert_one_line(
        run("monitor", folder / "model", good, "--state", state)
    )


def test_models_that_cannot_be_watched(run: Run, tmp_path: Path) -> None:
    from socratic import CircuitDensity

    good = days(tmp_path, 40, spoilt=False)
    CircuitDensity(n_epochs=1, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 2))).save(tmp_path / "m")
    line = assert_one_line(run("monitor", tmp_path / "m", good))
    assert "model must be a classifier, an outlier detector or a guard" in line
