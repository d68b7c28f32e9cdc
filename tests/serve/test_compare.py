from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import socratic
from socratic import CircuitClassifier
from socratic.serve.compare import MOST_PASSES
from socratic.serve.model import served
from socratic.tables.inputs import encode_rows
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Site, running

WAYS = [
    "circuit alone",
    "TDI as published, without covariances",
    "TDI, exact",
    "doubt from data",
    "Monte Carlo dropout, 100 passes",
]


def compare(site: Site, **request: Any) -> dict[str, dict[str, Any]]:
    reply = site.ask("/v1/compare", request)
    assert reply.status == 200, reply.body
    return {way["name"]: way for way in reply.json["ways"]}


def column(way: dict[str, Any], name: str) -> list[float]:
    return [each[name] for each in way["probabilities"]]


def test_each_way_says_what_the_library_does(site: Site, rows: list[dict[str, Any]]) -> None:
    model = fitted("trees")
    x = encode_rows(model, pd.DataFrame(rows[:1]))
    prior = model.class_prior_.tolist()
    ways = compare(site, model="trees", rows=rows[:1], dropout=0.1)
    assert list(ways) == WAYS
    assert column(ways[WAYS[0]], "probability") == pytest.approx(model.predict_proba(pd.DataFrame(rows[:1]))[0])
    assert column(ways[WAYS[0]], "std") == [0.0, 0.0]
    options: dict[str, Any] = {"dropout": 0.1, "masks": model.masks}
    expected = {
        WAYS[1]: socratic.tdi(model.circuit_, x, covariance="independent", **options).posterior(prior),
        WAYS[2]: socratic.tdi(model.circuit_, x, **options).posterior(prior),
        WAYS[3]: model.uncertainty(pd.DataFrame(rows[:1])),
        WAYS[4]: socratic.monte_carlo_dropout(model.circuit_, x, n_passes=100, class_prior=prior, **options),
    }
    for name, posterior in expected.items():
        assert column(ways[name], "probability") == pytest.approx(posterior.mean[0].tolist(), rel=1e-6), name
        assert column(ways[name], "std") == pytest.approx(posterior.std[0].tolist(), rel=1e-6), name
        assert ways[name]["entropy"] == pytest.approx(posterior.entropy[0].tolist(), rel=1e-6)
        assert ways[name]["milliseconds"] > 0.0


@pytest.mark.parametrize(
    "change", [{"weight": None}, {"colour": "mauve"}, {"weight": 1e300}, dict.fromkeys(["weight", "colour"])]
)
def test_rows_that_miss_or_hold_strange_values_are_doubted_as_they_are_predicted(
    site: Site, rows: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    row = {**rows[0], **change}
    for model in ("trees", "fruit"):
        ways = compare(site, model=model, rows=[row])
        reply = site.ask("/v1/predict", {"model": model, "rows": [row]})
        assert reply.status == 200, reply.body
        (answer,) = reply.json["answers"]
        assert column(ways["circuit alone"], "probability") == pytest.approx(column(answer, "probability"))
        assert column(ways["doubt from data"], "std") == pytest.approx(column(answer, "std"))


def test_trees_have_nothing_to_drop(site: Site, rows: list[dict[str, Any]]) -> None:
    ways = compare(site, model="fruit", rows=rows[:1])
    assert ways["TDI, exact"]["probabilities"] is None
    assert ways["TDI, exact"]["note"] == "its classes come from the cells of trees, and there are no sums to drop from"
    frame = pd.DataFrame(rows[:1])
    assert column(ways["doubt from data"], "std") == pytest.approx(fitted("forest").uncertainty(frame).std[0].tolist())


def test_several_circuits_are_asked_together(rows: list[dict[str, Any]]) -> None:
    x, y = make_fruit()
    model = CircuitClassifier(structure="random", n_circuits=2, n_epochs=1, n_repetitions=2, random_state=0).fit(x, y)
    with running([served("two", model)]) as site:
        ways = compare(site, rows=rows[:1], dropout=0.0)
    alone = column(ways["circuit alone"], "probability")
    assert alone == pytest.approx(model.predict_proba(pd.DataFrame(rows[:1]))[0])
    for name in ("TDI, exact", "Monte Carlo dropout, 100 passes"):  # what is left are the circuits
        assert column(ways[name], "probability") == pytest.approx(alone, abs=1e-6)
        assert max(column(ways[name], "std")) > 0.0


def test_images_that_miss_pixels_are_compared(site: Site) -> None:
    pixels: Any = np.random.default_rng(0).integers(0, 255, (8, 8)).tolist()
    pixels[0] = [None] * 8
    ways = compare(site, model="digits", pixels=pixels, n_passes=3)
    assert sum(column(ways["Monte Carlo dropout, 3 passes"], "probability")) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"rows": [{}, {}]}, "rows must hold one to compare ways to doubt by; got 2"),
        ({"rows": []}, "rows must hold one to compare ways to doubt by; got 0"),
        ({"model": "odd", "rows": [{}]}, "ways to doubt are compared for classifiers; 'odd' is an outlier detector"),
        ({"rows": [{"weight": "x"}]}, "column 'weight' takes a number"),
        ({"rows": [{}], "n_passes": MOST_PASSES + 1}, "n_passes: Input should be less than or equal to 200"),
        ({"rows": [{}], "dropout": 1.0}, "dropout: Input should be less than 1"),
        ({"rows": [{}], "reasons": 1}, "there is no field 'reasons'; known are 'model', 'rows'"),
    ],
)
def test_requests_that_cannot_be_compared(site: Site, request_: dict[str, Any], message: str) -> None:
    reply = site.ask("/v1/compare", {"model": "fruit", **request_})
    assert (reply.status, message in reply.error) == (422, True), reply.body
