"""Verdicts on the paper's claims follow from the numbers, and factors are told apart."""

from __future__ import annotations

import pytest
from experiments.tests.reporting.made_up import ALONE, PAPERS, SAMPLED, made_up, ood, papers

from socratic_experiments.reporting.claims import claims, claims_table
from socratic_experiments.reporting.evidence import DOES_NOT, HOLDS, IN_PART, Claim
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
        "wide range": DOES_NOT,
        "very low": DOES_NOT,
        "absolute terms": DOES_NOT,
        "while errors are lower": IN_PART,  # of known images only
        "indistinguishable": DOES_NOT,
        "larger on unknown": HOLDS,
        "lower degrees": HOLDS,
        "greater rotations": HOLDS,
        "increases with the rotation": DOES_NOT,
        "same accuracy": HOLDS,
        "rises with the severity": HOLDS,
        "elastic": DOES_NOT,
        "equally or more robust": HOLDS,
        "almost fully": DOES_NOT,
    }
    assert {part: the(found, part).verdict for part in told} == told
    assert len(found) == len(told)
    assert the(found, "more than two times").ours == "scenes: 35.0 -> 50.0"
    assert the(found, "rises with the severity").ours == "CIFAR-10-C: 2 of 2"
    assert the(found, "equally or more robust").ours == "CIFAR-10-C: 5 of 5, +0.0 to +0.0 points"


def test_both_sets_of_constants_count() -> None:
    others = [
        {**record, "variant": "imagenet", "accuracy": 0.9, "entropy": 1.0 - record["level"] / 10}
        for record in papers()
        if record["experiment"] == "corruption"
    ]
    found = claims([*papers(), *others])
    assert the(found, "almost fully").verdict == IN_PART  # it falls by half with one, not at all with the other
    rising = the(found, "rises with the severity")
    assert rising.verdict == IN_PART
    assert rising.ours == "CIFAR-10-C: 2 of 2; ImageNet-C: 0 of 2, not elastic transform, gaussian noise"


@pytest.mark.parametrize(
    ("known", "unknown", "verdict"),
    [
        ([1.0, 0.2, 0.1, 0.0, 0.0], [1.0, 0.9, 0.8, 0.7, 0.0], HOLDS),  # apart at three thresholds instead of one
        ([1.0, 0.7, 0.2, 0.0, 0.0], [1.0, 0.8, 0.6, 0.3, 0.0], HOLDS),
        ([1.0, 0.6, 0.4, 0.0, 0.0], [1.0, 0.9, 0.5, 0.1, 0.0], DOES_NOT),  # as the circuit alone
    ],
)
def test_the_range_of_thresholds(known: list[float], unknown: list[float], verdict: str) -> None:
    records = []
    for method, curves in ((ALONE, ([1.0, 0.6, 0.4, 0.0, 0.0], [1.0, 0.9, 0.5, 0.1, 0.0])), (EDGE, (known, unknown))):
        records += [
            {**record, "flagged": curve} for record, curve in zip(ood(PAPERS, method, 0, 0.7), curves, strict=True)
        ]
    assert the(claims(records), "wide range").verdict == verdict


def test_claims_without_numbers_are_left_out() -> None:
    """As after a run that was interrupted, or one that asked in some ways only."""
    turned = [record for record in papers() if record["experiment"] == "rotation" and record["level"] != 90]
    assert not any("greater rotations" in claim.text for claim in claims(turned))
    assert len(claims(turned)) == 3
    assert claims([record for record in papers() if record["method"] != EDGE]) == []
    assert claims([record for record in papers() if record["method"] != ALONE]) == []
    level = [record for record in papers() if record["experiment"] == "corruption" and record["level"] == 0]
    assert "nan" not in str(claims(level))
    silent = dict.fromkeys(("flagged", "entropy", "std", "paper_auc", "auroc", "accuracy", "detected_at_5"))
    assert claims([{**record, **silent} for record in papers() if record["experiment"] == "ood"]) == []


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


def test_factors_of_unusual_records_alone() -> None:
    table = factor_table([record for record in papers() if record.get("variant") == "own"], "svhn")
    assert [row[:3] for row in table.rows] == [["as printed", "each set", EDGE]]
