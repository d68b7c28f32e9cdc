"""Columns with heavy tails are drawn in by asinh, and densities stay those of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid

import socratic
from socratic.estimators import CircuitDensity, CircuitOutlierDetector
from socratic.tables.column import Bend

RNG = np.random.default_rng(0)
N = 400
HEAVY = {"incomes": np.exp(RNG.normal(8.0, 1.2, N)), "t": RNG.standard_t(1.5, N), "counts": RNG.geometric(0.01, N)}
OTHERS = {
    "normal": RNG.normal(3.0, 2.0, N),
    "even": RNG.random(N),
    "two groups": np.where(np.arange(N) % 2, 0.0, 9.0) + RNG.normal(size=N),
    "mostly nothing": np.where(np.arange(N) % 9, 0.0, RNG.normal(size=N)),
}


def test_skewed_and_heavy_tailed_columns_are_bent_and_no_others() -> None:
    model = CircuitDensity(structure="kernels", random_state=0).fit(pd.DataFrame({**HEAVY, **OTHERS}))
    assert {column.name for column in model.table_.columns if column.bend} == set(HEAVY)
    (incomes, *_) = model.table_.columns
    assert incomes.describe().startswith("incomes: gaussian (asinh of (")


def test_few_rows_do_not_bend() -> None:
    model = CircuitDensity(structure="kernels", random_state=0).fit(HEAVY["incomes"][:12, None])
    assert model.table_.columns[0].bend is None


def test_numbers_come_back() -> None:
    bend = Bend(-3.0, 0.01)
    values = np.concatenate([HEAVY["t"], [-3.0, 1e12, -1e12]])
    np.testing.assert_allclose(bend.back(bend.forth(values)), values, rtol=1e-9, atol=1e-12)
    step = 1e-6
    slope = (bend.forth(HEAVY["t"] + step) - bend.forth(HEAVY["t"] - step)) / (2.0 * step)
    np.testing.assert_allclose(-np.log(slope * bend.width), bend.log_slope(bend.forth(HEAVY["t"])), rtol=1e-5)
    assert np.isnan(bend.log_slope(np.array([np.nan]))).all()  # a missing cell, without a warning


@pytest.mark.parametrize("structure", ["kernels", "random"])
def test_the_density_is_one_of_the_data(structure: str, tmp_path: Path) -> None:
    incomes = HEAVY["incomes"][:, None]
    model = CircuitDensity(structure=structure, random_state=0).fit(incomes[:300])
    grid = np.sort(np.concatenate([-np.geomspace(1e-3, 1e7, 20_000), [0.0], np.geomspace(1e-3, 1e9, 40_000)]))
    mass = trapezoid(np.exp(model.score_samples(grid[:, None])), grid)
    assert mass == pytest.approx(1.0, abs=2e-3)
    assert model.table_.columns[0].bend is not None
    normal = -0.5 * np.log(2.0 * np.pi * np.e * incomes[300:].var())
    assert model.score(incomes[300:]) > normal + 0.3
    drawn = model.sample(2000, random_state=0)
    assert np.median(drawn) == pytest.approx(np.median(incomes), rel=0.3)
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert loaded.table_ == model.table_
    np.testing.assert_array_equal(loaded.score_samples(incomes), model.score_samples(incomes))


@pytest.mark.parametrize("n_rows", [120, N])
def test_units_and_copies_change_nothing(n_rows: int) -> None:
    rows = np.column_stack([HEAVY["incomes"], HEAVY["t"], OTHERS["normal"]])[:n_rows]
    new = np.where(RNG.random(rows.shape) < 0.2, np.nan, rows[::-1] * 1.5)
    found = [
        CircuitOutlierDetector(random_state=0).fit(factor * rows + shift).p_value(factor * new + shift)
        for factor, shift in [(1.0, 0.0), (1e-3, 40.0)]
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    once, twice = (
        CircuitDensity(structure="kernels", random_state=0).fit(*given).table_.columns
        for given in [(rows, None, np.full(n_rows, 2.0)), (np.repeat(rows, 2, axis=0),)]
    )
    assert all(a.bend == b.bend and a.mean == pytest.approx(b.mean) for a, b in zip(once, twice, strict=True))


def test_reasons_are_in_the_units_of_the_data() -> None:
    rows = np.column_stack([HEAVY["incomes"], OTHERS["normal"]])
    model = CircuitDensity(structure="kernels", random_state=0).fit(rows)
    asked = rows[:5]
    alone = model.conditional(asked, given=[1])
    np.testing.assert_allclose(model.explain(asked).surprise[:, 0], -alone, rtol=1e-4)
