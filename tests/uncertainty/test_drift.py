"""Several sequences of scores at once: alarms as rare as promised, changes found, and states that go on."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.drift import Drift, draws
from socratic.uncertainty.drift_evidence import N_BETS, Evidence


def judgement(scores: np.ndarray) -> Judgement:
    return Judgement(np.atleast_2d(scores), np.linspace(0.0, 1.0, scores.shape[-1]))


def watch(n_calibration: int, scores: np.ndarray, surprises: np.ndarray | None = None, seed: int = 0) -> Drift:
    """A monitor that starts with standard normal scores and surprises, of two folds, and takes in all rows."""
    rng = np.random.default_rng(seed + 10_000)
    n_columns = 0 if surprises is None else surprises.shape[1]
    columns = {f"x{number}": rng.normal(size=n_calibration) for number in range(n_columns)}
    references = [rng.normal(size=n_calibration) for _ in scores]
    drift = Drift(references, columns, rate=0.01, window=100, seed=seed)
    drift.add(judgement(scores), surprises, rejection_rate=0.05)
    return drift


def test_the_rate_is_divided() -> None:
    rows = np.zeros((2, 1))
    assert watch(10, rows).report().limit == pytest.approx(math.log(2 / 0.01))  # two folds
    assert watch(10, rows, np.zeros((1, 5))).report().limit == pytest.approx(math.log(4 / 0.01))  # half of it each


@pytest.mark.parametrize("n_calibration", [20, 100])
def test_few_calibration_rows_raise_no_alarm(n_calibration: int) -> None:
    """A fixed set of 20 rows misses the distribution by far, which comparing with them alone would soon notice."""
    alarms = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        calibration, rows = rng.normal(size=n_calibration), rng.normal(size=(1, 4000))
        drift = Drift([calibration], {}, rate=0.01, window=10, seed=seed)
        drift.add(judgement(rows), None, 0.05)
        alarms += drift.report().alarm
    assert alarms <= 1


def test_comparing_with_the_calibration_rows_alone_would_raise_false_alarms() -> None:
    """Why rows are ranked among all before them: a sample of 100 rows misses the distribution, always alike."""
    rng = np.random.default_rng(0)
    calibration, rows = np.sort(rng.normal(size=100)), rng.normal(size=20_000)
    evidence = Evidence(math.log(1e6))
    evidence.add((100 - np.searchsorted(calibration, rows) + rng.random(len(rows))) / 101)
    assert evidence.alarm is not None


@pytest.mark.slow
@pytest.mark.parametrize("n_calibration", [20, 100, 1000])
def test_a_million_familiar_rows_raise_no_alarm_and_take_no_memory(n_calibration: int) -> None:
    rng = np.random.default_rng(n_calibration)
    drift = Drift([rng.normal(size=n_calibration)], {}, rate=0.01, window=10, seed=0)
    for _ in range(50):
        drift.add(judgement(rng.normal(size=(1, 20_000))), None, 0.05)
    report = drift.report()
    assert (report.n_rows, report.alarm) == (1_000_000, False)
    assert sum(array.nbytes for array in drift.to_state()[0].values()) < 1_000_000


def test_a_change_of_a_column_is_found_and_named() -> None:
    rng = np.random.default_rng(0)
    scores, surprises = rng.normal(size=(1, 3000)), rng.normal(size=(3000, 4))
    surprises[2000:, 2] += 1.0
    report = watch(200, scores, surprises).report()
    (column,) = report.columns
    assert column.name == "x2"
    assert column.more_surprising
    assert 1950 < column.since < 2050
    assert report.alarm_row == column.alarm_row < 2150
    assert report.since == column.since


def test_a_column_that_goes_missing_is_found() -> None:
    rng = np.random.default_rng(1)
    scores, surprises = rng.normal(size=(1, 3000)), rng.normal(size=(3000, 2))
    surprises[2000:, 0][rng.random(1000) < 0.3] = np.nan
    (column,) = watch(200, scores, surprises).report().columns
    assert (column.name, column.more_surprising) == ("x0", False)
    assert 1950 < column.since < 2050


def test_the_report_counts_rows() -> None:
    drift = watch(50, np.random.default_rng(0).normal(size=(1, 400)))
    report = drift.report()
    assert (report.n_rows, report.n_refused) == (400, 20)
    assert report.refused_share == 0.05
    assert report.p_values.sum() == 100  # the window
    assert report.recently_refused == 0.0
    assert not report.alarm
    assert json.loads(json.dumps(report.to_dict()))["since"] is None


def test_before_any_row_there_is_a_report() -> None:
    report = Drift([np.zeros(3)], {}, rate=0.01, window=10, seed=0).report()
    assert (report.n_rows, report.refused_share, report.recently_refused, report.log_wealth) == (0, 0.0, 0.0, 0.0)


def test_batches_make_no_difference_and_a_state_goes_on() -> None:
    rng = np.random.default_rng(2)
    scores, surprises = rng.normal(size=(2, 700)), rng.normal(size=(700, 3))
    scores[:, 500:] += 1.0
    drift = watch(60, scores, surprises)
    parts = watch(60, scores[:, :0], surprises[:0])
    for first, last in itertools.pairwise([0, 1, 200, 510, 700]):
        p_value = np.linspace(0.0, 1.0, 700)[first:last]
        parts.add(Judgement(scores[:, first:last], p_value), surprises[first:last], 0.05)
        arrays, config = parts.to_state()
        parts = watch(60, scores[:, :0], surprises[:0])
        parts.restore(arrays, json.loads(json.dumps(config)))
    one, other = drift.report().to_dict(), parts.report().to_dict()
    assert one.pop("log_wealth") == pytest.approx(other.pop("log_wealth"))
    assert one == other
    assert one["alarm_row"] is not None


def test_states_of_another_model_are_refused() -> None:
    arrays, config = watch(60, np.zeros((1, 2))).to_state()
    with pytest.raises(ValueError, match="saved by a monitor of another model; start a new one"):
        watch(61, np.zeros((1, 2))).restore(arrays, config)


def test_damaged_states_are_refused() -> None:
    drift = watch(60, np.zeros((1, 2)))
    arrays, config = drift.to_state()
    with pytest.raises(ValueError, match=rf"its bets must be numbers of the shape \(3, {N_BETS}\); got the shape \(2,"):
        drift.restore({**arrays, "0.bets": arrays["0.bets"][:2]}, config)
    with pytest.raises(ValueError, match="argument"):
        drift.restore(arrays, {**config, "sequences": []})


def test_scores_must_fit() -> None:
    with pytest.raises(ValueError, match="there must be scores for 1 sequences; got 2"):
        Drift([np.zeros(3)], {}, rate=0.01, window=10, seed=0).add(judgement(np.zeros((2, 4))), None, 0.05)


@pytest.mark.parametrize(("name", "value"), [("rate", 0.0), ("rate", 0.9), ("window", 0), ("seed", -1)])
def test_arguments_are_checked(name: str, value: float) -> None:
    given = {"rate": 0.01, "window": 10, "seed": 0, name: value}
    with pytest.raises(ValueError, match=f"{name} must be"):
        Drift([np.zeros(3)], {}, **given)


def test_scores_that_are_no_numbers_are_the_most_unusual() -> None:
    drift = watch(1000, np.full((1, 10), np.nan))
    assert drift.report().alarm


def test_weighted_rows_become_a_sample() -> None:
    rng = np.random.default_rng(0)
    scores = np.repeat([0.0, 1.0], 20_000)
    assert len(draws(scores, np.full(40_000, 0.3), rng)) == 40_000
    kept = draws(scores, np.repeat([1.0, 0.25], 20_000), rng)
    assert kept.mean() == pytest.approx(0.2, abs=0.01)
    assert len(draws(np.empty((0, 3)), np.empty(0), rng)) == 0
