"""What the benchmarks compute: detectors as they are defined, measures, and records that outlive a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks import anomalies, answered, calibration, classifiers, drift, tables
from benchmarks.detectors import BASELINES, copod, detectors, ecod, hbos
from benchmarks.records import Records

ROWS = np.random.default_rng(0).gamma(1.0, size=(40, 3)) * [1.0, -1.0, 5.0]  # skewed to the right, left and right


def tail_sums(train: np.ndarray, row: np.ndarray) -> list[np.ndarray]:
    """-log tail probabilities (V,) of a row that is one of the sample: left, right, and of the longer tail."""
    left = np.array([-np.log(np.mean(train[:, j] <= row[j])) for j in range(len(row))])
    right = np.array([-np.log(np.mean(train[:, j] >= row[j])) for j in range(len(row))])
    return [left, right, np.array([right[0], left[1], right[2]])]


def check_tails(train: np.ndarray, rows: np.ndarray, test: np.ndarray | None) -> None:
    sums = [tail_sums(train, row) for row in rows]
    np.testing.assert_allclose(ecod(ROWS, test, 0), [max(part.sum() for part in tails) for tails in sums])
    of_copod = [np.maximum(skewed, (left + right) / 2).sum() for left, right, skewed in sums]
    np.testing.assert_allclose(copod(ROWS, test, 0), of_copod)


def test_ecod_and_copod_are_sums_of_tails() -> None:
    check_tails(ROWS, ROWS, None)
    for row in ([[0.3, -9.0, 1.0]], [[90.0, 0.0, -1.0]]):
        check_tails(np.vstack([ROWS, row]), np.array(row), np.array(row))


def test_hbos_is_the_height_of_bins() -> None:
    train = np.array([[0.0], [0.5], [0.9], [10.0]])  # bins of width 1 with 3 values in the first and 1 in the last
    expected = -np.log(np.array([1.0, 1.0, 1 / 3, 0.0, 0.0, 0.0]) + 0.1)
    test = np.array([[0.0], [0.99], [10.0], [5.0], [-0.1], [10.1]])
    np.testing.assert_allclose(hbos(train, test, 0), expected)
    np.testing.assert_allclose(hbos(train, None, 0), expected[[0, 0, 0, 2]])


def test_eleven_detectors_and_more_structures() -> None:
    assert len(BASELINES) == 10
    assert list(detectors(["learnspn"]))[:3] == ["circuit", "circuit, learnspn", "isolation forest"]


@pytest.mark.parametrize("name", BASELINES)
def test_every_detector_finds_what_is_far_away(name: str) -> None:
    rng = np.random.default_rng(1)
    train, test = rng.normal(size=(200, 4)), np.vstack([rng.normal(size=(20, 4)), np.full((5, 4), 9.0)])
    scores = BASELINES[name](train, test, 0)
    assert scores[20:].min() > scores[:20].max()


@pytest.mark.parametrize(
    "name", sorted(BASELINES.keys() - {"Gaussian mixture"})
)  # which gives the row a Gaussian of its own
def test_every_detector_finds_the_row_that_does_not_belong(name: str) -> None:
    train = np.random.default_rng(1).normal(size=(200, 4))
    own = BASELINES[name](np.vstack([train, [[9.0, -9.0, 9.0, -9.0]]]), None, 0)
    assert own.argmax() == 200


def test_a_neighbour_is_another_row() -> None:
    line = np.arange(10.0)[:, None]
    own = BASELINES["nearest neighbours"](line, None, 0) * line.std()
    np.testing.assert_allclose(own, [5, 4, 3, 3, 3, 3, 3, 3, 4, 5])


@pytest.mark.parametrize(("protocol", "n_train", "n_test"), [("normal rows only", 56, 44), ("contaminated", 100, None)])
def test_detectors_learn_from_the_rows_of_the_protocol(protocol: str, n_train: int, n_test: int | None) -> None:
    x = np.arange(100.0)[:, None]
    anomalous = x[:, 0] >= 80

    def detector(train: np.ndarray, test: np.ndarray | None, seed: int) -> np.ndarray:
        assert len(train) == n_train
        assert (None if test is None else len(test)) == n_test
        assert seed == 3
        return (train if test is None else test)[:, 0]

    found = anomalies.measure(detector, x, anomalous, protocol, 3)
    assert (found["auroc"], found["aupr"]) == (1.0, 1.0)


def test_circuits_are_not_ranked_among_each_other() -> None:
    values = {"circuit": [0.9, 0.8], "circuit, other": [0.95, 0.85], "PCA": [0.8, 0.8], "HBOS": [0.7, 0.9]}
    ranks = anomalies.mean_ranks(values)
    assert ranks == {"circuit": 1.75, "circuit, other": 1.5, "PCA": 2.25, "HBOS": 2.0}


def test_records_outlive_a_killed_run(tmp_path: Path) -> None:
    records = Records(tmp_path / "new" / "records.jsonl")
    assert records.get({"set": "a", "seed": 0}) is None
    records.add({"set": "a", "seed": 0}, {"auroc": 0.5})
    records.add({"seed": 0, "set": "a"}, {"auroc": 0.75})
    with records.path.open("a") as file:
        file.write('{"names": {"set": "b"')
    for _ in range(2):
        records = Records(records.path)
        assert records.get({"set": "a", "seed": 0}) == {"auroc": 0.75}
        records.add({"set": "b"}, {"auroc": 0.25})
    assert Records(records.path).get({"set": "b"}) == {"auroc": 0.25}


def run(monkeypatch: pytest.MonkeyPatch, module: Any, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["benchmark", *map(str, arguments)])
    module.main()


def test_anomalies_are_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(60, 2)), rng.normal(6.0, 1.0, size=(6, 2))]).astype(np.float32)
    np.savez(tmp_path / "near.npz", X=x, y=np.repeat([0, 1], [60, 6]).astype(np.int8))
    results = tmp_path / "results.jsonl"
    options = (tmp_path, "--seeds", 2, "--results", results, "--methods", "PCA", "HBOS")
    run(monkeypatch, anomalies, *options)
    first = capsys.readouterr().out
    assert "| method | AUROC | AUPR | rank | seconds |" in first
    assert len(results.read_text().splitlines()) == 8
    run(monkeypatch, anomalies, *options)
    assert capsys.readouterr().out == first
    run(monkeypatch, anomalies, *options, "--again")
    assert len(results.read_text().splitlines()) == 16
    with pytest.raises(SystemExit):
        run(monkeypatch, anomalies, tmp_path, "--methods", "KNN")
    assert "--methods does not know KNN; choose from circuit, isolation forest" in capsys.readouterr().err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of three kinds, with the kind by another name, missing cells, truth values, and a name for each row."""
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=120)
    rows = pd.DataFrame(
        {
            "kind": kind,
            "code": np.array(["x", "y", "z"])[kind],
            "name": [f"row {i}" for i in range(120)],
            "size": np.where(rng.random(120) < 0.1, np.nan, rng.normal(4.0 * kind)),
            "count": rng.poisson(3, size=120),
            "large": rng.random(120) < 0.2 + 0.3 * kind,
            "colour": rng.choice(["red", "blue", None], size=120),
        }
    )
    rows.to_csv(tmp_path / "things.csv.gz", index=False)
    return tmp_path


def test_tables_are_read_without_their_classes_by_another_name(folder: Path) -> None:
    x, y = tables.read(folder / "things.csv.gz", "kind")
    assert list(x) == ["name", "size", "count", "large", "colour"]
    assert set(y) == {"0", "1", "2"}
    assert set(x["large"]) == {"True", "False"}
    assert x["colour"].isna().any()


@pytest.mark.parametrize("name", ["random forest", "boosting", "boosting, missing as such"])
def test_usual_classifiers_learn_tables(folder: Path, name: str) -> None:
    x, y = tables.read(folder / "things.csv.gz", "kind")
    model = classifiers.classifiers([])[name](x, 0).fit(x.iloc[:80], y[:80])
    assert "name" not in [column for _, _, columns in model[0].transformers for column in columns]
    strange = x.iloc[80:].assign(colour="never seen")
    assert (model.predict(strange) == y[80:]).mean() > 0.7


def test_the_share_that_can_be_answered() -> None:
    sure = np.linspace(0.99, 0.51, 100)
    probabilities, right = np.stack([sure, 1.0 - sure], axis=1), np.arange(100) < 57
    assert tables.answered(probabilities, right) == 0.6  # 3 errors in 60
    assert tables.answered(probabilities, ~right) == 0.0
    assert tables.answered(np.array([[1.0, 0.0]]), np.array([True])) == 1.0


def test_held_out_classes_are_told_by_scores(folder: Path) -> None:
    x, y = tables.read(folder / "things.csv.gz", "kind")
    found = tables.novelty(classifiers.forest, x, y, 1000, seed=0)
    assert found.keys() == {"largest probability"}
    assert 0.3 < found["largest probability"] < 1.0


def test_tables_are_measured_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "BUNDLED", {})
    results = folder / "results.jsonl"
    options = (folder, "--targets", "things:kind", "--seeds", 2, "--results", results, "--methods", "random forest")
    run(monkeypatch, tables, *options)
    first = capsys.readouterr().out
    assert "| mean | random forest |" in first
    assert "| table | random forest: largest probability |" in first
    assert len(results.read_text().splitlines()) == 4
    run(monkeypatch, tables, *options)
    assert capsys.readouterr().out == first
    run(monkeypatch, tables, *options, "--sets", "another")
    assert capsys.readouterr().out == ""
    assert len(results.read_text().splitlines()) == 4
    run(monkeypatch, tables, *options, "--targets", "things:large", "--parts", "classes")
    assert "| things:large | random forest |" in capsys.readouterr().out
    assert len(results.read_text().splitlines()) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # as the benchmarks do
def test_circuits_are_measured_like_the_others(folder: Path) -> None:
    x, y = tables.read(folder / "things.csv.gz", "kind")
    found = tables.classes(classifiers.circuit, x, y, 1000, seed=0)
    assert found["accuracy"] > 0.8
    assert found["accuracy"] > found["accuracy, missing"]
    assert found["fit seconds"] > 0.0
    assert found["errors kept"] <= 1.0 - found["accuracy"]
    scores = tables.novelty(classifiers.circuit, x, y, 1000, seed=0)
    assert list(scores) == ["p-value", "log p(x)", "entropy", "mutual information"]
    numbers = x[["size", "count"]].fillna(0.0).to_numpy()
    assert anomalies.measure(detectors([])["circuit"], numbers, y == "2", "normal rows only", 0)["auroc"] > 0.8


def test_answered_rows_are_reported_beside_boosting() -> None:
    one = {"answered": 80, "wrong": 4, "coverage": 0.8, "boosting": 0.7}
    alone = {f"{name}{answered.ALONE}": value for name, value in {**one, "answered": 0, "wrong": 0}.items()}
    lines = answered.report({("things:kind", "default"): [{**one, **alone}] * 2})
    assert "| things:kind | default | 160 | 0.050 ± 0.017 | 0.050 | 0.800 | 0.700 |" in lines
    assert "| things:kind | default, ambiguous alone | 0 | - | 0.000 | 0.800 | 0.700 |" in lines


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # as the benchmark does
def test_answered_rows_are_measured(folder: Path) -> None:
    x, y = tables.read(folder / "things.csv.gz", "kind")
    found = answered.measure(classifiers.circuit, x, y, 1000, seed=0)
    assert found["wrong"] <= found["answered"] <= found["answered" + answered.ALONE]
    assert 0.0 <= found["boosting"] <= 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of rows that are too few for a rate
def test_refused_shares_of_simulated_tables_are_within_the_rates() -> None:
    """A table of each kind, by detector, classifier, and within the classes that have rows enough."""
    rows = [each for n in range(5, 10) for each in calibration.measure(n, ("kernels", "forest"), {"n_jobs": 1})]
    assert {each.kind for each in rows} == {kind.__name__ for kind in calibration.KINDS}
    for model in {each.model for each in rows}:
        shares = np.array([each.shares for each in rows if each.model == model])
        mean, error = shares.mean(0), shares.std(0) / np.sqrt(len(shares))
        assert (mean <= np.array(calibration.RATES) + 3.0 * error).all()
        assert mean[-1] > 0.05  # and some are refused


class Slack:
    """A detector that says so once values have summed up to a limit."""

    def __init__(self, limit: float) -> None:
        self.limit, self.sum = limit, 0.0

    def update(self, value: float) -> None:
        self.sum += value

    @property
    def drift_detected(self) -> bool:
        return self.sum >= self.limit


def test_drift_is_told_by_the_first_sequence_that_shows_it() -> None:
    slow, fast = np.full(9, 1.0), np.full(9, 2.0)
    assert drift.alarm_of(lambda: Slack(4.0), [slow, fast]) == drift.alarm_of(lambda: Slack(4.0), [fast, slow]) == 1
    assert drift.alarm_of(lambda: Slack(40.0), [slow, fast]) == np.inf


def test_drift_detectors_are_set_to_as_many_false_alarms_as_permitted() -> None:
    quiet = [[np.full(9, 1.0)]] * 99 + [[np.full(9, 5.0)]]
    # From the most cautious on: at 20 one of a hundred streams has an alarm, at 9 all have.
    assert drift.chosen(lambda level: Slack(-level), np.array([-60.0, -40.0, -20.0, -9.0]), quiet) == -20.0


def test_delays_are_told_in_words() -> None:
    assert drift.told(np.array([3.0, 1.0, 2.0])) == "2 (3)"
    assert drift.told(np.array([3.0, np.inf, np.inf])) == "- (-), 2 of 3 never"
