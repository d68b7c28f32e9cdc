"""``socratic evaluate`` and ``socratic info``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics

from socratic import CircuitDensity, CircuitImageDensity, CircuitOutlierDetector, load
from socratic.errors import CalibrationWarning
from socratic.uncertainty.metrics import auroc, expected_calibration_error, risk_coverage
from tests.cli.conftest import HEADER, Run, assert_one_line, read_csv, table, write_csv
from tests.html_pages import HOSTILE, PLAIN, check_alone, check_same_structure


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


OtherRows = tuple[list[object], Path]


@pytest.fixture
def other_rows(folder: Path, tmp_path: Path) -> OtherRows:
    """The command that compares the test rows with rows far away, and the file of those."""
    far = [["400", "-90", *row[2:4]] for row in table(25, 7)]
    other = write_csv(tmp_path / "other.csv", far, HEADER[:-1])  # other rows need no classes
    return ["evaluate", folder / "model", folder / "test.csv", "--target", "outcome", "--ood", other], other


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
    assert float(found["refused as unfamiliar"]) == pytest.approx(rejected.mean(), abs=1e-4)
    assert float(found["answered"]) == pytest.approx((~rejected).mean(), abs=1e-4)
    assert float(found["errors among answered rows"]) == pytest.approx((~right)[~rejected].mean(), abs=1e-4)
    assert {"Brier score", "area under risk-coverage (AURC), by p-value"} <= found.keys()
    lines = [line.split() for line in done.out.splitlines()]
    matrix = sklearn.metrics.confusion_matrix(labels, model.predict(features))
    for name, row in zip(("no", "yes"), matrix, strict=True):
        assert [name, *map(str, row)] in lines
        own = labels == name
        shown = next(line for line in lines if line[:2] == [name, str(own.sum())] and len(line) == 7)
        answered = own & ~rejected
        expected = [right[own].mean(), rejected[own].mean(), 0.0, (~right)[answered].mean()]
        np.testing.assert_allclose([float(shown[place]) for place in (2, 4, 5, 6)], expected, atol=1e-4)


def evaluated(run: Run, folder: Path, data: Path, *options: object) -> dict[str, Any]:
    """The measures of a table, as JSON has them."""
    done = run("evaluate", folder / "model", data, "--target", "outcome", "--json", "-", *options)
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def test_json_has_every_number(run: Run, folder: Path, other_rows: OtherRows, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    measures = evaluated(run, folder, folder / "test.csv", "--ood", other_rows[1])
    done = run(*other_rows[0], "--json", tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text()) == measures
    printed = measured(done.out)
    names = {"accuracy": "accuracy", "log-loss": "log_loss", "area under ROC (AUC)": "auc", "answered": "coverage"}
    for shown, name in names.items():
        assert printed[shown] == f"{measures[name]:.4f}"
    assert printed["area under generalised risk-coverage (AUGRC), by entropy"] == f"{measures['augrc']['entropy']:.4f}"
    model, frame = load(folder / "model"), pd.read_csv(folder / "test.csv")
    features, labels = frame[HEADER[:-1]], frame["outcome"].to_numpy()
    shares = model.predict_proba(features)
    assert measures["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(labels, shares[:, 1]))
    assert measures["risk"] is None
    assert (measures["rejection_rate"], measures["rows"]) == (0.05, 60)
    curve = risk_coverage(-shares.max(1), model.predict(features) == labels)
    assert measures["aurc"]["probability"] == pytest.approx(curve.area)
    assert measures["augrc"]["probability"] == pytest.approx(curve.generalised_area)
    assert [each["class"] for each in measures["classes"]] == ["no", "yes"]
    assert sum(each["rows"] for each in measures["reliability"]) == 60
    assert measures["others"]["rows"] == 25
    assert measures["others"]["scores"]["log_likelihood"]["auroc"] == 1.0
    assert sum(measures["others"]["verdicts"].values()) == pytest.approx(1.0)


def test_a_class_without_rows_has_no_measures(run: Run, folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "one.csv", [row for row in table(40, 3) if row[-1] == "no"])
    measures = evaluated(run, folder, data)
    no, yes = measures["classes"]
    assert measures["auc"] is None
    assert no["recall"] == measures["accuracy"]
    assert (yes["rows"], yes["recall"], yes["unfamiliar"], yes["auc"]) == (0, None, None, None)
    printed = run("evaluate", folder / "model", data, "--target", "outcome").out
    assert ["yes", "0", "-", "-", "-", "-", "-"] in [line.split() for line in printed.splitlines()]


def test_no_answered_row_has_no_error(run: Run, folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "far.csv", [["400", "-90", *row[2:]] for row in table(10, 3)])
    measures = evaluated(run, folder, data)
    assert (measures["coverage"], measures["error_answered"]) == (0.0, None)
    out = run("evaluate", folder / "model", data, "--target", "outcome", "--plots", tmp_path / "plots").out
    assert "none answered" in out


def test_a_risk_is_told_of(run: Run, hazy: Path) -> None:
    measures = evaluated(run, hazy, hazy / "test.csv")
    assert (measures["risk"], measures["risk_confidence"]) == (0.1, None)
    shares = measures["verdicts"]
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["ambiguous"] > 0
    assert measures["coverage"] == shares["familiar"] > 0
    out = run("evaluate", hazy / "model", hazy / "test.csv", "--target", "outcome").out
    assert f"{shares['ambiguous']:.4f} (for a risk of 0.1)" in out
    assert f"{measures['error_answered']:.4f} (asked for at most 0.1, on average over calibrations)" in " ".join(
        out.split()
    )


def test_a_page_shows_the_same(run: Run, folder: Path, other_rows: OtherRows, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "report.html"
    done = run(*other_rows[0], "--explain", "--report", path)
    assert (done.code, done.err) == (0, "")
    assert f"written {path}" in done.out
    text = path.read_text(encoding="utf-8")
    assert check_alone(text).tags.count("svg") == 5
    for shown in ("errors among answered rows", "By class", "Telling 25 other rows apart", "Why 25 other rows were"):
        assert shown in text
    assert "is a folder; name a file" in assert_one_line(run(*other_rows[0], "--report", tmp_path))
    assert "would overwrite the input" in assert_one_line(run(*other_rows[0], "--json", folder / "test.csv"))


def hostile_report(run: Run, place: Path, names: list[str], classes: list[str], stem: str) -> str:
    """The report of a model of columns and classes with such names, from tables with such a name."""
    place.mkdir()
    label = dict(zip(("no", "yes"), classes, strict=True))
    header = [*names, "outcome"]
    data = write_csv(place / f"{stem}.csv", [[*row[:4], label[row[4]]] for row in table(240, 0)], header)
    far = [["400", "-90", *row[2:4], label[row[4]]] for row in table(25, 7)]
    other = write_csv(place / f"other {stem}.csv", far, header)
    assert run("fit", data, "--target", "outcome", "--risk", "0.2", "-o", place / "model", "--quiet").code == 0
    options = ["--target", "outcome", "--ood", other, "--explain", "--report", place / "report.html"]
    done = run("evaluate", place / "model", data, *options)
    assert done.code == 0, done.err
    return (place / "report.html").read_text(encoding="utf-8")


def test_hostile_names_stay_text_in_the_page(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pages = []
    for place, names in (("hostile", HOSTILE), ("plain", PLAIN)):
        stem = names[3].replace("/", "")
        pages.append(hostile_report(run, tmp_path / place, [*names[:3], names[4]], [names[0], names[5]], stem))
    found = check_same_structure(*pages)
    for name in (HOSTILE[0], HOSTILE[3].replace("/", ""), HOSTILE[5][:10]):
        assert name in found.text


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


def test_info_of_models_without_classes(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    detector = CircuitOutlierDetector(rejection_rate=0.1, random_state=0).fit(rows)
    density = CircuitDensity(doubt="dropout", random_state=0).fit(rows)
    for model in (detector, density):
        model.save(tmp_path / "model")
        done = run("info", tmp_path / "model")
        assert (done.code, done.err) == (0, "")
        assert type(model).__name__ in done.out
        assert "2: 2 gaussian" in done.out
        assert "classes" not in done.out
        assert ("rejection rate" in done.out) == ("calibration" in done.out) == (model is detector)
        assert ("dropout at a rate of 0.1" in done.out) == (model is density)


def test_info_of_a_density_of_images_and_of_a_detector_of_few_rows(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (30, 6, 6, 1), dtype=np.uint8)
    CircuitImageDensity(n_epochs=1, n_sums=2, random_state=0).fit(pixels).save(tmp_path / "images")
    done = run("info", tmp_path / "images")
    assert (done.code, done.err) == (0, "")
    assert "6 x 6 pixels, grey" in done.out
    assert "doubt" not in done.out
    with pytest.warns(CalibrationWarning):
        detector = CircuitOutlierDetector(rejection_rate=0.01, random_state=0).fit(rng.normal(size=(60, 2)))
    detector.save(tmp_path / "few")
    assert "60 rows, each held out once (too few for a rate of 0.01)" in run("info", tmp_path / "few").out
