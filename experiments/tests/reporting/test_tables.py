"""Numbers stand in the right cells; what is absent is left out."""

from __future__ import annotations

import pytest
from experiments.tests.reporting.made_up import ALONE, EXACT, PAPERS, made_up, ood, papers

from socratic_experiments.reporting.paper import paper_row, verdict
from socratic_experiments.reporting.sections import SECTIONS, tables_of
from socratic_experiments.reporting.statements import statements
from socratic_experiments.reporting.summaries import Record, Stat
from socratic_experiments.reporting.tables import Table, accuracy_table, settings_table


def row(table: Table, *names: str) -> dict[str, str]:
    """The cells of the row that starts so, by heading."""
    found = [cells for cells in table.rows if tuple(cells[: len(names)]) == names]
    assert len(found) == 1, names
    return dict(zip(table.headings, found[0], strict=True))


def named(records: list[Record], experiment: str, start: str) -> Table:
    return next(table for table in tables_of(records, experiment) if table.title.startswith(start))


def test_accuracy() -> None:
    cells = row(accuracy_table(made_up()), "SVHN", "circuit")
    assert cells["test accuracy, %"] == "83.0 ± 1.0"
    assert cells["target is"] == "missed by 2.0"
    assert cells["minutes"] == "1.5 ± 0.5"
    assert cells["parameters"] == "1,234"
    assert "training accuracy, %" not in cells


def test_known_against_unknown() -> None:
    table = named(made_up(), "ood", "SVHN against scenes")
    exact = row(table, "circuit", EXACT)
    assert exact["AUROC"] == "0.940 ± 0.010"
    assert exact["target 0.95 is"] == "missed by 0.010"
    assert exact["FPR95, %"] == "25.0 ± 0.0"
    assert exact["paper's AUC"] == "90.0 ± 0.0"
    assert exact["accuracy, %"] == "90.0 ± 0.0"
    silent = row(table, "circuit", "log-likelihood")
    assert (silent["AUROC"], silent["paper's AUC"], silent["accuracy, %"]) == ("0.250 ± 0.000", "-", "-")
    assert row(table, "circuit", "crystal ball")["target 0.95 is"] == "met"


def test_two_causes() -> None:
    table = named(made_up(), "ood", "Two causes")
    exact = row(table, "scenes", EXACT)
    assert exact["AUROC, trained without dropout"] == "0.820"
    assert exact["training moves it by"] == "+0.110"  # of the seed that both have
    assert exact["inference moves it by (trained without)"] == "+0.020"
    assert exact["inference moves it by (trained with)"] == "+0.030 ± 0.000"
    assert row(table, "scenes", ALONE)["inference moves it by (trained with)"] == "-"


def test_beside_the_paper() -> None:
    table = named(made_up() + papers(), "paper", "The paper's Table 1")
    cells = row(table, PAPERS, "TDI exact, edge masks")
    assert (cells["ours: scenes"], cells["paper"], cells["paper: LSUN"]) == ("50.0 ± 0.0", "PC + TDI", "81.8")
    assert {cells[0] for cells in table.rows} == {PAPERS, "paper's circuit with dropout", "LeNet-5"}
    assert "UAI 2023" in table.note
    points = named(ood(PAPERS, ALONE, 0, 0.9) + ood(PAPERS, EXACT, 0, 0.9), "paper", "Operating points")
    assert row(points, PAPERS, ALONE, "detected, keeping 95 %")["ours, %"] == "10.0"
    errors = row(points, PAPERS, ALONE, "known in error, threshold 0.05")
    assert (errors["ours, %"], errors["paper, %"]) == ("48.9", "28.7")
    assert row(points, PAPERS, EXACT, "unknown in error, threshold 0.6")["ours, %"] == "26.1"


def test_recorded_detection_comes_before_the_curve() -> None:
    points = named(ood(PAPERS, ALONE, 0, 0.9, detected_at_5=0.42), "paper", "Operating points")
    assert row(points, PAPERS, ALONE, "detected, keeping 95 %")["ours, %"] == "42.0"


@pytest.mark.parametrize(
    ("model", "method", "expected"),
    [
        ("paper's circuit", "TDI exact, edge masks", "PC + TDI"),
        ("MLP", "network alone", "MLP"),
        ("LeNet-5", "Monte Carlo dropout, 100 passes", "LeNet + MCD"),
        ("LeNet-5 ensemble", "ensemble of 5", None),
        ("paper's circuit", "log-likelihood", None),
        ("circuit", "circuit alone", None),
        ("MLP", "TDI of something", None),
        ("transformer", "network alone", None),
    ],
)
def test_rows_of_the_paper(model: str, method: str, expected: str | None) -> None:
    assert paper_row(model, method) == expected


def test_verdicts() -> None:
    assert verdict(Stat(0.9, 0.9, 0.9, 1), 0.9) == "met"
    assert verdict(Stat(0.89996, 0.8, 0.9, 2), 0.9) == "missed by less than 0.001"
    assert verdict(None, 0.9) == verdict(Stat(0.9, 0.9, 0.9, 1), None) == "-"


def test_rotation() -> None:
    table = named(made_up(), "rotation", "Rotation")
    alone, exact = row(table, "circuit", ALONE), row(table, "circuit", EXACT)
    assert (alone["entropy at 45°"], alone["rises to 45°"]) == ("0.25", "no")
    assert (exact["entropy at 90°"], exact["rises to 45°"], exact["accuracy change"]) == ("0.50", "yes", "0.00")


def test_corruption() -> None:
    table = named(made_up(), "corruption", "Corruptions")
    cells = row(table, "circuit", EXACT)
    assert cells["Spearman ≥ 0.9"] == "1 of 3"
    assert cells["lowest"] == "frost 0.14"
    assert cells["at 3, %"] == "60.0"
    assert [cells[1] for cells in table.rows] == [EXACT]
    details = named(made_up(), "corruption", "Each corruption")
    assert row(details, "fog")[EXACT] == "1.00"
    assert row(details, "brightness")[EXACT] == "-"


def test_closeness_and_sweep() -> None:
    table = named(made_up(), "closeness", "Closeness")
    exact = row(table, "circuit", "edge", "TDI exact")
    assert (exact["error of mean"], exact["passes, mean"]) == ("0.2000", "25")
    assert "10,000 passes" in table.note
    assert row(named(made_up(), "sweep", "AUROC"), "scenes", "circuit", EXACT)["p = 0.3"] == "0.930"


def test_settings_tell_no_places() -> None:
    table = settings_table({"data": "/a/b/sets/", "rate": 0.1, "sets": ["x", "y"], "recipe": {"n": 3, "p": None}})
    assert table.rows == [["data", "sets"], ["rate", "0.1"], ["sets", "x, y"], ["recipe", "n 3, p null"]]


@pytest.mark.parametrize("experiment", SECTIONS)
def test_nothing_gives_no_tables(experiment: str) -> None:
    assert tables_of([], experiment) == []
    bare = {"experiment": experiment, "train": "svhn", "model": "new", "method": "new", "seed": 0}
    assert tables_of([bare], experiment) is not None


def test_statements_follow_the_numbers() -> None:
    said = " ".join(statements(made_up()))
    assert "answers 83.0 % of the test images rightly, below the 85 % aimed at" in said
    assert "the best circuit is circuit, crystal ball with an AUROC of 0.960; the best network is LeNet-5" in said
    assert "The AUROC of 0.95 aimed at is reached" in said
    assert f"on one set of weights {EXACT} moves AUROC by +0.030 ± 0.000" in said
    assert "training with dropout moves that of the circuit alone by +0.100" in said
    assert "to circuit, log-likelihood (0.250)" in said
    assert f"rises with every step to 45 degrees by {EXACT} and does not always rise to 45 degrees by {ALONE}" in said
    assert f"for 1 of 3 by circuit, {EXACT}; 12 were aimed at." in said
    assert "frost (90 -> 80 -> 40), brightness (90 -> 80 -> 40); in brackets the accuracy" in said
    assert statements([]) == []


def test_statements_on_the_paper() -> None:
    first, second, *others = statements(papers())
    assert first == (
        "18 claims of the TDI paper, on its own circuit trained as printed. Holds: 8, in part: 2, does not hold: 8."
    )
    assert "known images first (SVHN, scenes): 35 -> 50, 35 -> 50 by TDI exact, edge masks" in second
    assert not any("in brackets the second without TDI" in sentence for sentence in others)
    asked = ood("paper's circuit with dropout", "TDI exact, edge masks", 0, 0.8, paper_auc=84.0)
    (across,) = (one for one in statements(papers() + asked) if "in brackets the second without TDI" in one)
    assert "35 -> 84 on scenes, 2.4 times (78 alone)" in across
    assert not any("paper" in sentence for sentence in statements(ood("circuit", ALONE, 0, 0.9)))
