"""Means over seeds, differences by seed, curves and operating points."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from experiments.tests.reporting.made_up import ALONE, EXACT, TOP, falling, made_up, ood, shifted, write_results

from socratic_experiments.reporting.summaries import (
    Stat,
    curve,
    detected_at,
    difference,
    flagged_at,
    list_curve,
    over_seeds,
    read_folder,
    read_folders,
    select,
    series_of,
    set_title,
    show,
    spearman,
    stat,
    unique,
    usual,
)


def test_mean_and_range_leave_out_what_does_not_apply() -> None:
    assert stat([1.0, None, 3.0, math.nan, math.inf]) == Stat(2.0, 1.0, 3.0, 2)
    assert stat([None]) is None
    assert show(stat([0.95, 0.96])) == "0.955 ± 0.005"
    assert show(stat([0.95]), 1, scale=100) == "95.0"
    assert show(stat([0.01]), signed=True) == "+0.010"
    assert show(None) == "-"


def test_differences_are_taken_by_seed() -> None:
    ours = [{"seed": 0, "x": 3.0}, {"seed": 1, "x": 5.0}, {"seed": 2, "x": 100.0}, {"seed": 3, "x": None}]
    others = [{"seed": 1, "x": 1.0}, {"seed": 0, "x": 2.0}, {"seed": 3, "x": 1.0}]
    assert difference(ours, others, "x") == Stat(2.5, 1.0, 4.0, 2)
    assert difference(ours, [], "x") is None


def test_a_later_record_replaces_an_earlier_one() -> None:
    first = {"experiment": "ood", "train": "a", "model": "m", "method": "n", "seed": 0, "auroc": 0.1}
    assert unique([first, {**first, "seed": 1}, {**first, "auroc": 0.2}]) == [
        {**first, "auroc": 0.2},
        {**first, "seed": 1},
    ]


def test_series_stand_in_order_of_appearance_by_model() -> None:
    assert series_of(select(made_up(), experiment="ood"))[:2] == [("circuit", ALONE), ("circuit", EXACT)]
    assert series_of(select(made_up(), experiment="ood"))[4] == ("circuit", "crystal ball")


def test_curves() -> None:
    records = [{"x": 1, "y": 2.0}, {"x": 0, "y": 1.0}, {"x": 1, "y": 4.0}, {"x": 2, "y": None}]
    line = curve(records, "x", "y")
    assert line is not None
    assert (line.x.tolist(), line.mean.tolist(), line.low.tolist()) == ([0, 1], [1, 3], [1, 2])
    assert curve(records, "x", "z") is None
    lists = list_curve([{"y": [1, 2]}, {"y": [3, 2]}, {"y": None}], "y")
    assert lists is not None
    assert lists.mean.tolist() == [2, 2]
    assert over_seeds(records, "z") is None


def test_spearman_of_what_does_not_vary_is_no_number() -> None:
    assert spearman([0, 1, 2], [1, 5, 9]) == pytest.approx(1)
    assert math.isnan(spearman([0, 1, 2], [1, 1, 1]))
    assert math.isnan(spearman([0], [1]))


def test_operating_points_lie_on_the_curve() -> None:
    known, unknown = ({"flagged": falling(share), "max_entropy": TOP} for share in (0.5, 1.0))
    assert flagged_at(known, TOP / 2) == pytest.approx(0.25)
    assert flagged_at(known, TOP * 0.305) == pytest.approx(0.5 * 0.695)
    assert flagged_at({"flagged": None}, 0.1) is None
    assert detected_at(known, unknown, 0.05) == pytest.approx(0.1)
    assert detected_at({"flagged": None}, unknown, 0.05) is None


def test_folders_are_read_and_torn_lines_left_out(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "run", made_up(), ending='{"experiment": "ood", "train": "sv')
    records, settings = read_folder(folder)
    assert records == unique(made_up())
    assert settings["train"] == "svhn"
    with pytest.raises(FileNotFoundError, match=r"there is no records\.jsonl"):
        read_folder(tmp_path)


def test_names_of_sets() -> None:
    assert [set_title(name) for name in ("cifar10", "svhn", "notmnist", "scenes")] == [
        *("CIFAR-10", "SVHN", "notMNIST", "scenes")
    ]


def test_unusual_runs_are_told_apart_from_the_usual_one(tmp_path: Path) -> None:
    usual_one, own = tmp_path / "ood-svhn", tmp_path / "ood-svhn-own"
    for folder, normalise in ((usual_one, "train"), (own, "own")):
        write_results(folder, ood("circuit", "circuit alone", 0, 0.9))
        (folder / "settings.json").write_text(json.dumps({"train": "svhn", "normalise": normalise}))
    records, settings = read_folders([usual_one, own])
    assert [record.get("variant") for record in records] == [None, None, "own", "own"]
    assert usual(records) == records[:2]
    assert [one["normalise"] for one in settings] == ["train", "own"]
    alone, _ = read_folders([own])
    assert {record["variant"] for record in alone} == {"own"}
    assert usual(alone) == alone  # there are no others
    turned = [tmp_path / name for name in ("rotation-svhn", "rotation-svhn-own")]
    for folder, normalise in zip(turned, ("train", "own"), strict=True):
        write_results(folder, shifted("rotation", "rotation", "circuit alone", [0.1], 5))
        (folder / "settings.json").write_text(json.dumps({"train": "svhn", "normalise": normalise}))
    with pytest.raises(ValueError, match="both hold 'rotation' on 'svhn', of other settings"):
        read_folders(turned)
