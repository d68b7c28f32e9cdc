from __future__ import annotations

import math

import numpy as np
import pytest

from socratic_experiments.measures import N_BINS, N_THRESHOLDS, describe, distribution, flagged_share, separation
from socratic_experiments.methods import Answer, methods_for
from socratic_experiments.ood import RATES, run_ood, run_sweep
from socratic_experiments.records import Records, read_records
from socratic_experiments.settings import MODELS
from socratic_experiments.workbench import Workbench

CIRCUIT_METHODS = [
    "circuit alone",
    "TDI independent, edge masks",
    "TDI exact, edge masks",
    "TDI exact, unit masks",
    "log moments (auto), unit masks",
    "Monte Carlo dropout, 5 passes",
    "log-likelihood",
    "combined detector",
]


@pytest.mark.slow
def test_every_model_by_every_method(bench: Workbench, records: Records) -> None:
    run_ood(bench, records, None, [0])
    found = read_records(records.folder)
    asked = [record for record in found if record["experiment"] == "ood"]
    rows = list(dict.fromkeys((record["model"], record["method"]) for record in asked))
    for model in (name for name in MODELS if "circuit" in name):
        assert [method for name, method in rows if name == model] == CIRCUIT_METHODS
    assert ("MLP", "network alone") in rows
    assert ("LeNet-5", "Monte Carlo dropout, 5 passes") in rows
    assert ("LeNet-5 ensemble", "ensemble of 2") in rows
    assert len(asked) == 2 * len(rows)
    density = {r["role"]: r for r in asked if r["model"] == "circuit" and r["method"] == "log-likelihood"}
    assert density["unknown"]["auroc"] > 0.95
    assert density["known"]["accuracy"] is None
    for record in asked:
        if record["flagged"] is not None:
            assert len(record["flagged"]) == N_THRESHOLDS
            assert record["flagged"] == sorted(record["flagged"], reverse=True)
            assert record["paper_auc"] == pytest.approx(100 * record["entropy"] / math.log(10), rel=1e-4)
            assert sum(record["entropy_counts"]) == pytest.approx(1.0, abs=1e-4)
    training = [record for record in found if record["experiment"] == "training"]
    assert [record["model"] for record in training] == list(dict.fromkeys(model for model, _ in rows))

    before = (records.folder / "records.jsonl").read_bytes()
    run_ood(bench, Records(records.folder, bench.settings.to_dict()), None, [0])
    assert (records.folder / "records.jsonl").read_bytes() == before


@pytest.mark.slow
def test_dropout_rates(bench: Workbench, records: Records) -> None:
    run_sweep(bench, records, ["circuit"], [0, 1])
    found = [record for record in read_records(records.folder) if record["experiment"] == "sweep"]
    assert {record["dropout"] for record in found} == set(RATES)
    assert {record["seed"] for record in found} == {0}
    assert len(found) == 2 * 5 * len(RATES)
    entropies = [
        record["entropy"]
        for record in found
        if record["role"] == "known" and record["method"] == "TDI independent, edge masks"
    ]
    assert entropies == sorted(entropies)


def test_methods_share_the_weights(bench: Workbench) -> None:
    [(_, model, _)] = bench.models(bench.plan(["circuit"], [0]))
    answers = {label: method(bench.test.images) for label, method in methods_for(model, 5).items()}
    alone = answers["circuit alone"]
    assert alone.std is not None
    assert not alone.std.any()
    for answer in answers.values():
        assert answer.score.shape == (80,)
        if answer.probabilities is not None:
            np.testing.assert_allclose(answer.probabilities.sum(1), 1.0, atol=1e-5)
            assert np.array_equal(answer.score, answer.entropy)


def test_what_is_measured() -> None:
    probabilities = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.5, 0.5]])
    doubt = -(probabilities * np.log(probabilities)).sum(1)
    answer = Answer(doubt, probabilities, doubt, np.array([0.0, 0.5, 0.25, 0.5]))
    assert describe(answer, np.array([0, 0, 0, 1])) == {
        "n": 4,
        "accuracy": 0.5,
        "aurc": 0.375,  # errors: the second most certain row, and one of the two least certain
        "augrc": 0.28125,
        "entropy": pytest.approx(doubt.mean()),
        "std": 0.3125,
        "rejected": None,
    }
    spread = distribution(answer, 2)
    assert spread["flagged"][0] == 1.0
    assert spread["flagged"][60] == 0.75
    assert spread["flagged"][-1] == 0.0
    assert spread["paper_auc"] == pytest.approx(100 * doubt.mean() / math.log(2))
    assert spread["std_counts"][0] == 0.25
    assert spread["std_counts"][N_BINS - 1] == 0.5
    uniform = Answer(np.full(3, math.log(2)), np.full((3, 2), 0.5), np.full(3, math.log(2)), np.zeros(3))
    assert distribution(uniform, 2)["paper_auc"] == pytest.approx(100.0)
    score_only = Answer(np.zeros(2), None, None, None)
    silent = dict.fromkeys(("accuracy", "aurc", "augrc", "entropy", "std", "rejected"))
    assert describe(score_only, np.zeros(2)) == {"n": 2, **silent}
    assert set(distribution(score_only, 2).values()) == {None}


def test_separation() -> None:
    known, unknown = np.arange(100.0), np.arange(90.0, 110.0)
    found = separation(known, unknown)
    assert found["auroc"] == pytest.approx((1 - 0.5 * 0.5 * 10 / 100) - 0.0, abs=0.03)
    assert found["detected_at_5"] == flagged_share(known, unknown) == 0.7
