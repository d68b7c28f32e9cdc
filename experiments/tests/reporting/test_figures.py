"""Every experiment has its figures, drawn to the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments.tests.reporting.made_up import ALONE, EXACT, SAMPLED, made_up, ood, shifted

from socratic_experiments.reporting.drawing import chosen, groups_of
from socratic_experiments.reporting.figures import drawings, save_figures
from socratic_experiments.reporting.summaries import Record, select


@pytest.mark.slow
def test_figures_are_files_and_the_same_each_time(tmp_path: Path) -> None:
    records = [record for record in select(made_up(), model="circuit") if record["method"] not in (ALONE, SAMPLED)]
    first, second = (save_figures(records, tmp_path / name / "figures") for name in ("first", "second"))
    names = {path.name for path in first}
    for kind in ("flagged", "difference", "histograms", "rotation", "corruption", "corruption-four", "sweep"):
        assert {f"{kind}-svhn-circuit.png", f"{kind}-svhn-circuit.svg"} <= names
    assert "closeness-svhn-circuit.svg" in names
    assert len(names) == len(first) == 2 * len(drawings(records))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_each_circuit_has_its_own_figures_and_networks_share_theirs() -> None:
    groups = groups_of(select(made_up(), experiment="ood"))
    assert [group.title for group in groups] == ["circuit", "networks", "circuit without dropout"]
    circuit = groups[0]
    assert len({(circuit.colour(one), circuit.marker(one)) for one in circuit.series}) == len(circuit.series)
    assert [drawing.name for drawing in drawings(made_up(), "ood") if drawing.main] == [
        f"{kind}-svhn-circuit" for kind in ("flagged", "difference", "histograms")
    ]


def test_crowded_panels_show_three() -> None:
    series = [("circuit", method) for method in (ALONE, "TDI exact, edge masks", EXACT, "crystal ball", SAMPLED)]
    assert [method for _, method in chosen(series)] == [ALONE, EXACT, SAMPLED]


@pytest.mark.parametrize(
    "records",
    [
        ood("circuit", "new method", 0, 0.9, flagged=None, std_counts=None),
        shifted("rotation", "rotation", ALONE, [0.1, 0.2], 15),
        shifted("corruption", "fog", EXACT, [0.1, 0.2], 1),
    ],
)
def test_little_is_enough(records: list[Record]) -> None:
    found = drawings(records)
    assert found
    for drawing in found:
        assert drawing.draw().axes


def test_nothing_to_draw() -> None:
    assert drawings([]) == []
    assert drawings(shifted("rotation", "rotation", "log-likelihood", [None, None], 15)) == []
