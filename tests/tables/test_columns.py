"""What columns become: which are left out, which numbers are a yes and a no, and how they are scaled."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import socratic
from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitOutlierDetector
from socratic.families import Bernoulli, Gaussian

QUICK: dict[str, Any] = {"n_epochs": 2, "n_sums": 2, "n_repetitions": 1, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")
RNG = np.random.default_rng(0)
N = 80
FIRST = datetime.date(2026, 1, 1)
DAYS = [FIRST + datetime.timedelta(days=k // 9) for k in range(N)]
LEFT_OUT: dict[str, Any] = {
    "key": [f"row {k}" for k in range(N)],
    "customer_id": RNG.permutation(N) + 1000,
    "day": DAYS,
    "stamp": pd.to_datetime(DAYS),
    "zone": pd.to_datetime(DAYS).tz_localize("UTC"),
    "month": pd.PeriodIndex(pd.to_datetime(DAYS), freq="M"),
    "written": [str(day) for day in DAYS],
    "moment": [f"{day} 12:30:00" for day in DAYS],
}
KEPT: dict[str, Any] = {
    "name": RNG.choice([f"name {k}" for k in range(30)], N),
    "id": RNG.integers(0, 9, N),
    "grid": np.arange(N) / 2,
    "paid": RNG.integers(0, 2, N),
    "code": RNG.choice(["2026-01-01-a", "2026-01-01-b"], N),
}


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"size": np.random.default_rng(1).normal(size=N), **columns})


@pytest.mark.parametrize("name", LEFT_OUT)
def test_columns_are_left_out_and_named(name: str, tmp_path: Path) -> None:
    frame = table(**{name: LEFT_OUT[name]})
    model = CircuitOutlierDetector(structure="random", **QUICK).fit(frame)
    alone = CircuitOutlierDetector(structure="random", **QUICK).fit(table(**{name: [None] * N}))
    line = model.describe_columns()[1]
    what = "tells rows apart: 80 different values in 80 rows" if name in ("key", "customer_id") else "dates: convert"
    assert line.startswith(f"{name}: left out ({what}")
    expected = alone.p_value(table(**{name: [None] * N}))
    np.testing.assert_array_equal(model.p_value(frame), expected)
    new = frame.assign(**{name: "anything" if name == "key" else frame[name].iloc[0]})
    np.testing.assert_array_equal(model.p_value(new), expected)  # accepted, and without a warning
    model.save(tmp_path / "model")
    again = socratic.load(tmp_path / "model")
    assert again.describe_columns()[1] == line
    np.testing.assert_array_equal(again.p_value(new), expected)


@pytest.mark.parametrize("name", KEPT)
def test_others_are_kept(name: str) -> None:
    model = CircuitDensity(structure="random", **QUICK).fit(table(**{name: KEPT[name]}))
    assert "left out" not in model.describe_columns()[1]


@pytest.mark.parametrize("structure", ["forest", "learnspn"])
def test_other_structures_do_without_them(structure: str) -> None:
    frame = table(key=LEFT_OUT["key"], day=DAYS, paid=KEPT["paid"])
    model = CircuitClassifier(structure=structure, random_state=0).fit(frame, frame["size"] > 0)
    assert model.score(frame, frame["size"] > 0) > 0.9


def test_a_leaf_that_is_asked_for_is_taken() -> None:
    model = CircuitDensity(structure="random", leaf={"key": "categorical"}, **QUICK)
    assert model.fit(table(key=LEFT_OUT["key"])).table_.columns[1].left_out is None


def test_two_numbers_are_a_yes_and_a_no_whatever_they_are() -> None:
    paid, size = np.random.default_rng(2).integers(0, 2, (2, 200)).astype(float)
    rows = np.column_stack([paid, size + paid * np.random.default_rng(3).random(200)])
    scores = []
    for factor, shift in ((1.0, 0.0), (1e3, -7.0), (1e-3, 2.0)):
        model = CircuitDensity(structure="random", **QUICK).fit(rows * [factor, 1.0] + [shift, 0.0])
        assert model.table_.families == [Bernoulli(), Gaussian()]
        scores.append(model.score_samples(rows * [factor, 1.0] + [shift, 0.0]))
        drawn = model.sample(50, random_state=0)
        assert isinstance(drawn, np.ndarray)
        assert set(drawn[:, 0]) == {shift, factor + shift}
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    np.testing.assert_allclose(scores[0], scores[2], atol=1e-6)


def test_one_wild_value_does_not_stretch_the_scale() -> None:
    rows = np.random.default_rng(4).normal(size=(500, 2))
    wild = rows.copy()
    wild[0, 0] = 1e6
    rare = rows.copy()
    rare[:, 1] = np.arange(500) == 7  # nearly always the same: what differs is no tail
    calm, bent, sparse = (
        CircuitDensity(structure="random", validation_fraction=0.0, **QUICK).fit(x).table_.columns
        for x in (rows, wild, rare)
    )
    assert bent[0].scale == pytest.approx(calm[0].scale, rel=0.05)
    assert 0.8 < calm[0].scale < 1.0
    assert sparse[1].scale == pytest.approx(rare[:, 1].std())
