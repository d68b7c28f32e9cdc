from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from socratic.families import Gaussian, StudentT


def test_densities_are_scipys() -> None:
    values = np.array([-40.0, -1.0, 0.3, 1e6])
    for degrees in (2.5, 4.0, 30.0):
        found = [StudentT.of(0.3, 2.0, degrees).log_density(value) for value in values]
        np.testing.assert_allclose(found, stats.t.logpdf(values, degrees, loc=0.3, scale=2.0), rtol=1e-10)


def test_fitting_is_maximum_likelihood() -> None:
    values = stats.t.rvs(4.0, loc=3.0, scale=2.0, size=400, random_state=0)
    found = StudentT().fit_column(values).parameters
    best = stats.t.logpdf(values, 4.0, found["location"], found["scale"]).sum()
    for location, scale in ((0.01, 1.0), (-0.01, 1.0), (0.0, 1.01), (0.0, 0.99)):
        other = stats.t.logpdf(values, 4.0, found["location"] + location, found["scale"] * scale).sum()
        assert best > other


def test_outliers_move_it_less_than_a_gaussian() -> None:
    values = np.append(np.random.default_rng(0).normal(size=50), [40.0, 60.0])
    robust, plain = StudentT().fit_column(values).parameters, Gaussian().fit_column(values).parameters
    assert abs(robust["location"]) < 0.3 < plain["mean"]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_the_unit_of_a_column_does_not_matter(unit: float) -> None:
    values = np.random.default_rng(0).standard_t(4.0, size=200)
    found, scaled = StudentT().fit_column(values).parameters, StudentT().fit_column(unit * values).parameters
    assert scaled["scale"] == pytest.approx(unit * found["scale"], rel=1e-3)
    assert scaled["location"] == pytest.approx(unit * found["location"], abs=1e-3 * unit)


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ValueError, match=r"degrees must be a finite number of at least 2.01; got 2"):
        StudentT(degrees=2)
    with pytest.raises(ValueError, match=r"scale must be a finite number of at least 1e-18; got 0.0"):
        StudentT.of(0.0, 0.0)
