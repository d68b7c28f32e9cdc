"""Verdicts on the paper's claims follow from the numbers, and factors are told apart."""

from __future__ import annotations

import pytest
from experiments.tests.reporting.made_up import ALONE, PAPERS, SAMPLED, made_up, ood, papers

from socratic_experiments.reporting.claims import DOES_NOT, HOLDS, IN_PART, Claim, claims, claims_table
from socratic_experiments.reporting.factors import factor_table
from socratic_experiments.reporting.summaries import Record

EDGE = "TDI exact, edge masks"


def the(found: list[Claim], part: str) -> Claim:
    (one,) = (claim for claim in found if part in claim.text)
    return one


def test_every_claim_has_its_verdict() -> None:
    found = claims(papers())
    told = {
        "misses unknown data": HOLDS,
        "more than two times": IN_PART,  # 35 -> 50
        "analogous improvements": HOLDS,  # 35 -> 71
        "similar performance": DOES_NOT,
        "very low": DOES_NOT,
        "outperforms": DOES_NOT,
        "distinguishes known": DOES_NOT,
        "standard deviation": HOLDS,
        "lower degrees": HOLDS,
        "greater rotations": HOLDS,
        "same accuracy": HOLDS,
        "rises with the severity": HOLDS,
        "elastic": DOES_NOT,
        "almost fully": DOES_NOT,
    }
    assert {part: the(found, part).verdict for part in told} == told
    assert len(found) == len(told)
    assert "35.0 -> 50.0" in the(found, "more than two times").ours


def gain(areas: dict[str, float]) -> list[Record]:
    """The AUC of a circuit alone is 30; with TDI it is this, for each set."""
    records = []
    for name, area in areas.items():
        for method, value in ((ALONE, 30.0), (EDGE, area)):
            known, unknown = ood(PAPERS, method, 0, 0.7, paper_auc=value)
            records += [known, {**unknown, "set": name}]
    return records


@pytest.mark.parametrize(
    ("areas", "verdict"),
    [
        ({"scenes": 61.0, "cifar10": 70.0}, HOLDS),
        ({"scenes": 61.0, "cifar10": 50.0}, IN_PART),
        ({"scenes": 32.0, "cifar10": 31.0}, DOES_NOT),
        ({"scenes": 25.0, "cifar10": 20.0}, DOES_NOT),
    ],
)
def test_a_gain_on_some_sets_is_one_in_part(areas: dict[str, float], verdict: str) -> None:
    assert the(claims(gain(areas)), "more than two times").verdict == verdict


def test_only_the_papers_circuit_is_measured_by_the_paper() -> None:
    assert claims(made_up()) == []
    assert claims([record for record in papers() if record["model"] != PAPERS]) == []
    assert claims_table([]).rows == []


def test_factors() -> None:
    table = factor_table(papers(), "svhn")
    rows = {tuple(row[:3]): dict(zip(table.headings, row, strict=True)) for row in table.rows}
    assert list(rows) == [
        ("as printed", "training set", ALONE),
        ("as printed", "training set", EDGE),
        ("as printed", "training set", SAMPLED),
        ("as printed", "each set", EDGE),
        ("with dropout", "training set", ALONE),
    ]
    assert rows["as printed", "training set", EDGE]["paper's AUC, scenes"] == "50.0 ± 0.0"
    assert rows["as printed", "each set", EDGE]["paper's AUC, scenes"] == "60.0 ± 0.0"
    assert rows["with dropout", "training set", ALONE]["AUROC, scenes"] == "0.800 ± 0.000"
    assert rows["as printed", "training set", EDGE]["entropy, SVHN"] == "0.50 ± 0.00"
