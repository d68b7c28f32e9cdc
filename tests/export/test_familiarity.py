"""What is written out for programs says what the functions say that it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from socratic.export.familiarity import Ascending, TorchConformal, TorchLevels, TorchSurprise, wide
from socratic.export.familiarity import on_grid as to_grid
from socratic.export.tables import Cells
from socratic.inference.points import covariance_root
from socratic.numerics import digamma, log_gamma
from socratic.tables.columns import fit_table
from socratic.tables.raw import raw_table
from socratic.uncertainty.conformal import Conformal, on_grid
from socratic.uncertainty.levels import Levels
from socratic.uncertainty.surprise import Surprise
from tests.export.tables import mixed, strange

SCORES = np.array([-np.inf, -5.0, 0.0, 0.3, 0.5, 1.0, 1.0 + 1e-9, 2.0, 70.0, 1e200, np.inf])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9])
def test_places_are_those_of_searchsorted(n: int) -> None:
    ascending = np.sort(np.random.default_rng(n).integers(5, size=n)).astype(float)
    values = np.concatenate([ascending, ascending + 0.5, [-1.0, 9.0, np.inf, -np.inf, np.nan]])
    np.testing.assert_array_equal(Ascending(ascending).n_below(wide(values)), np.searchsorted(ascending, values))


@pytest.mark.parametrize("reference", [[], [1.0], [0.0, 0.0, 1.0], [0.0, 0.25, 0.5, np.inf], [-np.inf, 3.0]])
def test_surprises(reference: list[float]) -> None:
    surprise = Surprise.fit(np.array(reference), np.ones(len(reference)))
    np.testing.assert_allclose(TorchSurprise(surprise)(wide(SCORES)), surprise(SCORES), rtol=1e-12)


def test_p_values_of_folds_and_weights() -> None:
    rng = np.random.default_rng(0)
    conformal = Conformal.fit(rng.normal(size=30).round(1), rng.random(30), rng.integers(3, size=30))
    scores = rng.normal(size=50).round(1)
    scores[:3] = np.inf, np.nan, -np.inf
    np.testing.assert_allclose(TorchConformal(conformal)(wide(scores)), conformal.p_value(scores), rtol=1e-12)


def test_scores_on_one_level() -> None:
    rng = np.random.default_rng(0)
    hidden = [(rng.normal(k, k, 30).round(1), np.ones(30), np.full(30, k)) for k in (1, 3, 4)]
    hidden.append((np.zeros(30), np.ones(30), np.full(30, 5)))
    levels = Levels.fit(rng.normal(size=50).round(1), np.ones(50), 0.2, hidden)
    scores, n_missing = np.r_[rng.normal(size=202) * 5, SCORES[SCORES != 1e200]], rng.integers(6, size=212)
    unseen = np.where(rng.random(212) < 0.3, rng.random(212) * 0.1, 1.0)
    found = TorchLevels(levels)(wide(scores), wide(n_missing), wide(unseen))
    np.testing.assert_allclose(found, levels(scores, n_missing, unseen), rtol=1e-12, atol=1e-12)


def test_scores_are_put_on_one_grid() -> None:
    powers = 2.0 ** np.arange(-20, 300, 7)
    scores = np.concatenate([SCORES[1:-2], powers, -powers, np.nextafter(powers, 0.0), np.nextafter(powers, np.inf)])
    np.testing.assert_array_equal(to_grid(wide(scores)), on_grid(scores))


def test_rows_of_another_estimator_are_scaled_as_by_its_table() -> None:
    raw = raw_table(mixed(80)[0])
    first = fit_table(raw, np.ones(80, dtype=bool), None)
    codes = first.read(raw).codes
    table = first.standardised(codes[:40], np.ones(40))
    new = first.read(raw_table(strange(80))).codes
    np.testing.assert_allclose(Cells(table).scaled(wide(new)), table.scale(new), rtol=0, atol=2e-6)
    np.testing.assert_allclose(Cells(table).log_volume(wide(table.scale(new))), table.log_volume(table.scale(new)))


def test_gamma_functions_that_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.cat([torch.linspace(1e-3, 20.0, 500), torch.tensor([1e2, 1e4, 1e8])]).double()
    expected = torch.lgamma(x), torch.digamma(x)
    monkeypatch.setattr("socratic.numerics.is_exporting", lambda: True)
    torch.testing.assert_close((log_gamma(x), digamma(x)), expected, rtol=1e-9, atol=1e-9)


def test_a_covariance_root_that_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    root = torch.randn(20, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    covariance = root @ root.mT
    covariance[0] = 0.0
    covariance[1] = 1.0  # of rank 1
    expected = covariance_root(covariance)
    monkeypatch.setattr("socratic.inference.points.is_exporting", lambda: True)
    found = covariance_root(covariance)
    torch.testing.assert_close(found @ found.mT, expected @ expected.mT, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[2:], expected[2:])
