"""``socratic evaluate`` and ``socratic info``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from socratic import load
from socratic.uncertainty.metrics import auroc, expected_calibration_error
from tests.cli.conftest import HEADER, Run, assert_one_line, read_csv, table, write_csv


def measured(text: str) -> dict[str, str]:
    """The first number of each line, by what stands before it."""
    found = {}
    for line in text.splitlines():
        name, _, values = line.partition("  ")
        found[name.strip()] = values.split()[0] if values.split() else ""
    return found


def found_weights(text: str) -> list[str]:
    """The scores and weights that ``socratic info`` tells of the detector."""
    told = text.partition("combined: ")[2].partition("rejection rate")[0]
    return [" ".join(part.split()) for part in told.split(",")]


def test_measures(run: Run, folder: Path) -> None:
    pd = pytest.importorskip("pandas")
    done = run("evaluate", folder / "model", folder / "test.csv", "--target", "outcome")
    assert (done.code, done.err) == (0, "")
    found = measured(done.out)
    model, frame = load(folder / "model"), pd.read_csv(folder / "test.csv")
    features, labels = frame[HEADER[:-1]], frame["outcome"].to_numpy()
    shares, codes = model.predict_proba(features), np.searchsorted(model.classes_, labels)
    right, rejected = model.predict(features) == labels, model.reject(features)
    assert found["rows"] == "60"
    assert float(found["accuracy"]) == pytest.approx(right.mean(), abs=1e-4)
    assert float(found["log-loss"]) == pytest.approx(-np.log(shares[np.arange(60), codes]).mean(), abs=1e-4)
    assert float(found["calibration error (ECE)"]) == pytest.approx(expected_calibration_error(shares, codes), abs=1e-4)
    assert float(found["refused"]) == pytest.approx(rejected.mean(), abs=1e-4)
    assert float(found["accuracy on answered rows"]) == pytest.approx(right[~rejected].mean(), abs=1e-4)
    assert {"Brier score", "area under risk-coverage, by p-value"} <= found.keys()


OtherRows = tuple[list[object], Path]


@pytest.fixture
def other_rows(folder: Path, tmp_path: Path) -> OtherRows:
    """The command that compares the test rows with rows far away, and the file of those."""
    far = [["400", "-90", *row[2:4]] for row in table(25, 7)]
    other = write_csv(tmp_path / "other.csv", far, HEADER[:-1])  # other rows need no classes
    return ["evaluate", folder / "model", folder / "test.csv", "--target", "outcome", "--ood", other], other


def test_other_rows(run: Run, folder: Path, other_rows: OtherRows) -> None:
    pd = pytest.importorskip("pandas")
    command, other = other_rows
    done = run(*command)
    assert (done.code, done.err) == (0, "")
    model = load(folder / "model")
    known = model.uncertainty(pd.read_csv(folder / "test.csv")[HEADER[:-1]])
    unknown = model.uncertainty(pd.read_csv(other))
    lines = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.strip()}
    assert float(lines["p-value"][0]) == pytest.approx(auroc(-known.p_value, -unknown.p_value), abs=1e-4)
    assert float(lines["log-likelihood"][0]) == 1.0


@pytest.mark.slow
def test_plots_are_the_same_each_time(run: Run, other_rows: OtherRows, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    contents = []
    for _ in range(2):
        done = run(*other_rows[0], "--plots", tmp_path / "plots")
        assert (done.code, done.err) == (0, "")
        contents.append({path.name: path.read_bytes() for path in (tmp_path / "plots").iterdir()})
    names = ["reliability", "risk_coverage", "scores_entropy", "scores_log_likelihood", "scores_p_value"]
    assert sorted(contents[0]) == [f"{name}.{suffix}" for name in names for suffix in ("png", "svg")]
    assert contents[0] == contents[1]
    assert contents[0]["reliability.png"].startswith(b"\x89PNG")


def test_reasons_of_refused_rows(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    strange = [[*row[:1], "50000", *row[2:]] for row in table(20, 7)]
    other = write_csv(tmp_path / "other.csv", strange)
    command = ["evaluate", folder / "model", folder / "test.csv", "--target", "outcome", "--ood", other]
    assert "were refused" not in run(*command).out
    done = run(*command, "--explain")
    assert (done.code, done.err) == (0, "")
    known, _, unknown = done.out.partition("why 20 other rows were refused")
    n_refused = int(load(folder / "model").reject(pd.read_csv(folder / "test.csv")[HEADER[:-1]]).sum())
    assert (f"why {n_refused} rows were refused" in known) == (n_refused > 0)
    lines = [line.split() for line in unknown.splitlines() if line.strip()]
    assert lines[0] == ["reason", "first", "among", "the", "top", "3"]
    assert lines[1] == ["income", "100.0%", "100.0%"]
    assert {line[0] for line in lines[2:5]} == {"age", "colour", "member"}
    assert [line[1] for line in lines[2:5]] == ["0.0%"] * 3
    examples = [line for line in lines if line[0] == "row"]
    assert [line[1] for line in examples] == ["1", "2", "3", "4", "5"]
    assert {tuple(line[2:4]) for line in examples} == {("income", "'50000'")}
    assert all(float(line[4].strip("();")) > 1000 for line in examples)


def test_values_are_shown_as_they_are_and_rows_left_out_are_not(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = [[*row[:1], "50000", "[red]\x1b[31m", *row[3:]] for row in table(3, 7)]
    rows[1][-1] = ""
    data = write_csv(tmp_path / "data.csv", rows)
    done = run("evaluate", folder / "model", data, "--target", "outcome", "--drop-missing-target", "--explain")
    assert done.code == 0
    assert "why 2 rows were refused" in done.out
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("row ")] == ["1", "3"]
    assert "\x1b" not in done.out


def test_classes_must_be_known(run: Run, folder: Path, tmp_path: Path) -> None:
    rows = table(20, 8)
    command = ["evaluate", folder / "model"]
    data = write_csv(tmp_path / "new.csv", [*rows, [*rows[0][:4], "maybe"]])
    line = assert_one_line(run(*command, data, "--target", "outcome"))
    assert "holds 'maybe' (1 such rows), which is no class of the model (no, yes)" in line
    data = write_csv(tmp_path / "holes.csv", [*rows, [*rows[0][:4], ""]])
    assert "missing in 1 row, first in row 21" in assert_one_line(run(*command, data, "--target", "outcome"))
    done = run(*command, data, "--target", "outcome", "--drop-missing-target")
    assert "20 (1 left out)" in done.out
    assert "did you mean 'outcome'?" in assert_one_line(run(*command, data, "--target", "outcom"))


def test_info(run: Run, folder: Path) -> None:
    done = run("info", folder / "model")
    assert (done.code, done.err) == (0, "")
    model = load(folder / "model")
    found = measured(done.out)
    assert "2: no, yes" in done.out
    assert found["parameters"] == f"{sum(p.numel() for p in model.circuit_.parameters()):,}"
    assert found["epochs"] == "2"
    assert f"weights, a visit of a row worth {model.weight_posterior_.worth:.2g}" in done.out
    shown = [f"{name} {weight:.0%}" for name, weight in model.detector_.weights.items() if weight > 0.01]
    assert sorted(found_weights(done.out)) == sorted(shown)
    assert found["rejection rate"] == "0.05"
    assert "held-out rows" in done.out
    assert "colour  categorical  blue, green, red" in done.out
    assert read_csv(folder / "test.csv")[0] == HEADER
