"""Results in notebooks: what is in them comes out as text, and plots are drawn."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import is_dataclass

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot

import socratic
from socratic import ColumnDrift, DriftReport
from socratic.estimators.image_reasons import ImageReasons
from socratic.learning import Epoch, History
from socratic.scale import InputFile, Record, Summary
from socratic.serve import ChangedColumn, Drift, Prediction, Reason
from socratic.tables.columns import Unknown
from socratic.uncertainty import reliability, risk_coverage
from socratic.uncertainty.answers import Answer, DensityUncertainty, Uncertainty
from socratic.uncertainty.reasons import Reasons
from tests.html_pages import HOSTILE, PLAIN, check_alone, check_same_structure

matplotlib.use("Agg")
NAMES = ("<script>alert(1)</script>", "a & b", "$\\frac{", '"quoted" <b>')


def reasons(n_rows: int = 2) -> Reasons:
    excess = np.tile([9.5, np.nan, 2.0, 1.0], (n_rows, 1))
    return Reasons(NAMES, excess, excess, np.tile([0.01, np.nan, 0.2, 0.5], (n_rows, 1)))


def uncertainty(n_rows: int = 12, n_classes: int = 3) -> Uncertainty:
    mean = np.full((n_rows, n_classes), 1 / n_classes)
    numbers = [np.linspace(0.1 + place, 1.0 + place, n_rows) for place in range(7)]
    return Uncertainty(*(mean, mean / 10, *numbers, np.zeros((n_rows, 7))))


def test_hostile_names_are_text() -> None:
    html = reasons()._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;: 9.5 (p = 0.01)" in html
    check_alone(html)


def test_missing_parts_are_no_reasons() -> None:
    assert "a &amp; b" not in reasons()._repr_html_()
    few = Reasons(("a",), np.zeros((1, 1)), np.ones((1, 1)), np.ones((1, 1)))
    assert few._repr_html_().count("<td>") == 3  # one reason, and two cells without


def test_methods_and_why_are_text() -> None:
    moments = socratic.Moments(
        torch.zeros(1, 2), torch.zeros(1, 2, 2), socratic.Dropout(0.1), "exact", "layered", "<i>why</i>"
    )
    assert "&lt;i&gt;why&lt;/i&gt;" in moments._repr_html_()


def test_the_first_rows_are_shown_and_the_others_counted() -> None:
    html = uncertainty(12, 7)._repr_html_()
    assert html.count("<tr>") == 1 + 10
    assert "2 more rows." in html
    assert "class 4" in html
    assert "class 5" not in html
    assert "0.143 ± 0.0143" in html
    assert "more rows" not in uncertainty(10)._repr_html_()
    assert reasons(11)._repr_html_().count("1 more rows.") == 1


def test_no_rows_are_no_error() -> None:
    assert "<tbody></tbody>" in uncertainty(0)._repr_html_()
    assert "<tbody></tbody>" in reasons(0)._repr_html_()


SHOWN_OTHERWISE = {
    # Settings, and what something is asked with or made of.
    *("Dropout", "WeightIntervals", "WeightPosterior", "TrainingSettings", "Settings", "Columns", "Augmentation"),
    *("Leaf", "Product", "Sum", "Region", "Partition", "RegionGraph", "PixelEncoder", "EncodedImage", "Images", "Rows"),
    *("ModelScorer", "FileScorer", "Place", "InputFile", "Outcome", "Record"),
    # Parts of results that have a table.
    *("Reason", "ChangedColumn"),
    "Picture",  # it is drawn
}


def test_every_result_has_a_table() -> None:
    parts = ("", ".estimators", ".learning", ".uncertainty", ".inference", ".scale", ".drawing", ".images", ".serve")
    modules = [importlib.import_module(f"socratic{part}") for part in parts]
    classes = {name: getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    results = {name: each for name, each in classes.items() if isinstance(each, type) and is_dataclass(each)}
    assert {name for name, each in results.items() if not hasattr(each, "_repr_html_")} == SHOWN_OTHERWISE
    for name in ("Uncertainty", "DensityUncertainty", "Posterior", "Reasons", "ImageReasons"):
        assert hasattr(results[name], "plot"), name


def test_answers_of_circuits() -> None:
    circuit = socratic.rat_spn(4, n_classes=2, n_sums=2, n_leaves=2, depth=2, n_repetitions=1)
    evidence = torch.tensor([[0.0, torch.nan, 1.0, 2.0]] * 3)
    html = socratic.expectation(circuit, evidence)._repr_html_()
    assert html.count("<tr>") == 1 + 3
    assert "<td>0 ± 0</td>" in html
    assert "variable 3" in html
    assert "its probability" in html
    found = socratic.mpe(circuit, evidence)
    assert ("bound</th>" in found._repr_html_()) == (not found.exact)
    assert found._repr_html_().count("<tr>") == 1 + 3
    assert socratic.sample(circuit, 12)._repr_html_().count("<tr>") == 1 + 10
    assert "5 for each row of evidence" in socratic.conditional_sample(circuit, evidence, 5)._repr_html_()
    bounds = socratic.likelihood_bounds(circuit, evidence, socratic.WeightIntervals(0.1))
    low, high = (f"{value:.3g}" for value in (bounds.lower[0, 0].item(), bounds.upper[0, 0].item()))
    assert f"<td>{low} to {high}</td>" in bounds._repr_html_()
    moments = socratic.tdi(circuit, evidence, dropout=0.2)
    assert "std of class 1" in moments.posterior_bounds()._repr_html_()
    assert socratic.region_surprise(circuit, evidence)._repr_html_().count("columns 0, 1, 2, 3<") == 1
    assert "node 0" in socratic.node_moments(circuit.to_graph(), evidence, dropout=0.2)._repr_html_()
    assert '<td class="name">classes</td><td class="name">2</td>' in socratic.summary(circuit)._repr_html_()
    axes = moments.posterior().plot()
    assert axes.get_ylabel() == "mutual information, nats"
    pyplot.close("all")


def test_measures() -> None:
    curve = risk_coverage(np.arange(10.0), np.arange(10) < 5)
    assert '<td class="name">60% answered</td><td class="name">16.7%</td>' in curve._repr_html_()
    bins = reliability(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
    assert "90.0% sure</td>" in bins._repr_html_()
    assert "50.0% of 2 rows right" in bins._repr_html_()
    assert "Error 0.4." in bins._repr_html_()


def reports(names: Sequence[str]) -> list[str]:
    """Everything that names come to stand in, as HTML."""
    changed = tuple(ColumnDrift(name, 7, 3, True) for name in names)
    report = DriftReport(10, 2, np.ones(20, dtype=int), 0.2, 5.0, 4.6, 7, 3, changed)
    summary = Summary(
        [Record(InputFile(names[0], 1, 1), "", 1, {names[1]: 3}, {names[2]: Unknown(1, "x")})],
        0,
        [names[3]],
        [names[3]],
        [names[4]],
    )
    numbers = dict.fromkeys(Prediction.__dataclass_fields__)
    said = {
        **{"label": names[0], "probabilities": {names[1]: 0.7}, "stds": {names[1]: 0.1}, "log_likelihood": -1.0},
        **{"verdict": names[2], "unseen": tuple(names), "reasons": tuple(Reason(name, 1.0, 0.1) for name in names)},
    }
    columns = tuple(ChangedColumn(name, names[0], 3, 7, True) for name in names)
    counted = dict.fromkeys(Drift.__dataclass_fields__, 1)
    drift = Drift(**{**counted, "model": names[1], "since": names[2], "columns": columns})
    return [each._repr_html_() for each in (report, summary, Prediction(**{**numbers, **said}), drift)]


def test_names_are_text_everywhere() -> None:
    for hostile, plain in zip(reports(HOSTILE), reports(PLAIN), strict=True):
        found = check_same_structure(hostile, plain)
        assert any(name in found.text for name in HOSTILE)
    report, summary, prediction, drift = reports(PLAIN)
    assert "yes, by row 7" in report
    assert "20.0%, 20.0% of the last 20" in report
    assert '<td class="name">name 1</td><td class="name">3</td>' in summary
    assert "0.7 ± 0.1" in prediction
    assert '<td class="name">entropy</td><td class="name">\N{EN DASH}</td>' in prediction
    assert "row 1 at name 2" in drift


def test_an_answer_names_the_class() -> None:
    probabilities = np.array([[0.2, 0.7, 0.1]])
    html = Answer(probabilities, uncertainty(1))._repr_html_()
    assert '<td class="name">0</td><td>1</td><td>0.7</td>' in html


def test_what_is_not_known_is_a_dash() -> None:
    unknown = DensityUncertainty(np.array([-1.0]), np.array([-1.5]), np.array([np.nan]), np.array([np.nan]), "bounds")
    html = unknown._repr_html_()
    assert "<td>-1</td>" in html  # no deviation, where none is known
    assert "<td>\N{EN DASH}</td>" in html
    assert "deviations are upper bounds" in html


@pytest.mark.parametrize("budget", [0, None])
def test_moments_and_posteriors_say_how(budget: int | None) -> None:
    circuit = socratic.rat_spn(4, n_classes=2, n_sums=2, n_leaves=2, depth=2, n_repetitions=1).to_graph()
    moments = socratic.tdi(circuit, torch.zeros(3, 4), dropout=0.2, budget=budget)
    html = moments._repr_html_()
    assert moments.reason in html
    assert ("upper bound" in html) == (budget == 0)
    assert "nan" not in html
    if budget is None:
        assert "Method expansion." in moments.posterior()._repr_html_()


def test_history_shows_the_last_epochs_and_the_one_that_was_kept() -> None:
    epochs = tuple(Epoch(number, 10.0 - number, float("nan")) for number in range(12))
    html = History(epochs, best=11)._repr_html_()
    assert html.count("kept</td>") == 1
    assert "2 epochs before these. The parameters of epoch 11 were kept." in html


def test_plots_return_axes_that_can_be_drawn() -> None:
    figure, axes = pyplot.subplots()
    unknown = uncertainty(5)
    unknown.p_value[:] = np.nan
    images = ImageReasons(("a",), np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1)), heat=np.zeros((1, 4, 4)))
    density = DensityUncertainty(*(np.arange(3.0),) * 4, method="layered")
    drawn = [reasons().plot(1), uncertainty().plot(), unknown.plot(), density.plot(), images.plot_heat()]
    assert uncertainty().plot(axes) is axes
    for each in drawn:
        each.figure.canvas.draw()  # a name that looks like a formula would fail here
    assert [label.get_text() for label in drawn[0].get_yticklabels()] == [NAMES[0], NAMES[2], NAMES[3]]
    assert drawn[1].get_xlabel() == "p-value: how familiar"
    assert drawn[2].get_xlabel() == "log-likelihood"
    figure.canvas.draw()
    pyplot.close("all")


def test_rows_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="row must be a whole number from 0 to 1; got 2"):
        reasons().plot(2)


def test_matplotlib_is_imported_only_when_used() -> None:
    code = "import sys, socratic.notebook; print('matplotlib' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"
