from __future__ import annotations

import numpy as np
import pytest
import torch

from socratic_experiments import closeness
from socratic_experiments.closeness import (
    ESTIMATES,
    LADDER,
    N_REFERENCE,
    equivalent_passes,
    errors,
    rank_correlation,
    run_closeness,
)
from socratic_experiments.methods import plain_posterior
from socratic_experiments.records import Records, read_records
from socratic_experiments.workbench import Workbench


@pytest.mark.slow
def test_estimates_against_many_passes(bench: Workbench, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new estimate is a new row, and needs no change elsewhere."""
    monkeypatch.setattr(closeness, "_N_ROWS", 60)
    monkeypatch.setattr(closeness, "N_REFERENCE", 200)
    monkeypatch.setitem(ESTIMATES, "a new one", lambda model, rows, masks: model.tdi(rows, masks=masks))
    run_closeness(bench, records, ["circuit", "MLP"], [0])
    found = [record for record in read_records(records.folder) if record["experiment"] == "closeness"]
    labels = [f"Monte Carlo, {n} passes" for n in LADDER] + list(ESTIMATES)
    assert {record["model"] for record in found} == {"circuit"}
    for masks in ("edge", "unit"):
        rows = {record["method"]: record for record in found if record["masks"] == masks}
        assert list(rows) == labels
        assert rows["Monte Carlo, 300 passes"]["error_mean"] < rows["Monte Carlo, 3 passes"]["error_mean"]
        assert rows["TDI exact"]["error_mean"] < rows["circuit alone"]["error_mean"]
        assert rows["TDI exact"]["equivalent_mean"] > 3
        assert rows["a new one"]["error_std"] == rows["TDI exact"]["error_std"]
        assert rows["TDI exact"]["n"] == 60
        assert rows["TDI exact"]["auroc"] > 0.5
        assert rows["TDI exact"]["rank_correlation"] > rows["Monte Carlo, 3 passes"]["rank_correlation"] - 0.1
        assert rows["TDI exact"]["reference_passes"] == 200


def test_distances() -> None:
    first = plain_posterior(torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1]])))
    second = plain_posterior(torch.log(torch.tensor([[0.7, 0.3], [0.9, 0.1]])))
    found = errors(first, second)
    assert found["mean"] == pytest.approx(0.1)
    assert found["entropy"] == pytest.approx((0.6931 - 0.6109) / 2, abs=1e-3)
    assert found["std"] == found["information"] == 0.0


def test_rank_correlation() -> None:
    assert rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([0.0, 3.0, 4.0])) == pytest.approx(1.0)
    assert rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([4.0, 3.0, 0.0])) == pytest.approx(-1.0)
    assert rank_correlation(np.ones(3), np.arange(3.0)) is None


def test_equivalent_passes() -> None:
    """The reference has passes of its own; beyond them nothing can be told apart."""

    def distance(passes: float) -> float:
        return float((1 / passes + 1 / N_REFERENCE) ** 0.5)

    ladder = {n: {"mean": distance(n)} for n in LADDER}
    for passes in (1, 3, 10, 100, 300, 500, 1500):
        assert equivalent_passes(distance(passes), ladder, "mean") == pytest.approx(passes, rel=0.01)
    assert equivalent_passes(distance(20), ladder, "mean") == pytest.approx(20, rel=0.1)
    assert equivalent_passes(distance(1e6), ladder, "mean") == N_REFERENCE
    assert equivalent_passes(0.0, ladder, "mean") == N_REFERENCE
