"""Results in notebooks: what is in them comes out as text, and plots are drawn."""

from __future__ import annotations

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib import pyplot

import socratic
from socratic.estimators.image_reasons import ImageReasons
from socratic.learning import Epoch, History
from socratic.uncertainty.answers import Answer, DensityUncertainty, Uncertainty
from socratic.uncertainty.reasons import Reasons
from tests.html_pages import check_alone

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
