from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from socratic import DriftMonitor
from socratic.serve import Client, watching
from socratic.serve.model import Options, ServedModel, ServedTable, served
from socratic.serve.watching import _MOST_MARKS, _MOST_WAITING, Watch, Watches, _Times
from socratic.uncertainty.answers import Judgement
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Site, running


def fruit(n_rows: int, seed: int, **shift: float) -> list[dict[str, Any]]:
    """Rows that no model was fitted on, some columns moved."""
    frame, _ = make_fruit(n_rows, seed)
    for name, change in shift.items():
        frame[name] += change
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def compared(site: Site, model: str | None = None) -> dict[str, Any]:
    """What the server knows when it has compared all rows."""
    path = "/v1/drift" if model is None else f"/v1/drift?model={model}"
    deadline = time.monotonic() + 30.0
    while (found := site.ask(path).json)["n_waiting"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return dict(found)


@pytest.fixture
def fruits(forest: ServedTable) -> Iterator[Site]:
    with running([forest]) as site:
        yield site


def test_familiar_rows_raise_no_alarm_and_shifted_ones_one_that_names_the_column(fruits: Site) -> None:
    rows = fruit(300, seed=5)
    for start in range(0, 300, 60):
        assert fruits.predict(rows=rows[start : start + 60]).status == 200
    quiet = compared(fruits)
    assert (quiet["alarm"], quiet["since"], quiet["columns"]) == (False, None, [])
    assert quiet["n_rows"] == quiet["n_compared"] == quiet["n_recent"] == sum(quiet["p_values"]) == 300
    assert sum(quiet["expected_p_values"]) == pytest.approx(300)
    assert quiet["expected_refused"] == fitted("forest").rejection_rate
    assert quiet["recently_refused"] < 0.15
    shifted = fruit(120, seed=6, weight=60.0)
    for start in range(0, 120, 8):
        assert fruits.predict(rows=shifted[start : start + 8]).status == 200
    found = compared(fruits)
    assert found["alarm"]
    assert found["columns"][0]["name"] == "weight"
    assert found["columns"][0]["more_surprising"]
    assert 280 < found["columns"][0]["since_row"] < 340
    assert quiet["started"] <= found["since"] <= found["alarm_time"]
    assert found["log_wealth"] > quiet["log_wealth"]


def test_rows_are_compared_as_a_monitor_would(fruits: Site) -> None:
    frame, _ = make_fruit(200, seed=7)
    for start in range(0, 200, 8):
        fruits.predict(rows=fruit(200, seed=7)[start : start + 8])
    found, expected = compared(fruits), DriftMonitor(fitted("forest")).update(frame)
    assert found["p_values"] == expected.p_values.tolist()
    assert found["refused_share"] == expected.refused_share
    assert found["log_wealth"] == pytest.approx(expected.log_wealth, rel=1e-6)
    assert found["limit"] == expected.limit


def test_models_are_kept_apart(everything: list[ServedModel]) -> None:
    with running(everything) as site:
        site.predict(model="fruit", rows=fruit(4, seed=1))
        site.predict(model="odd", rows=fruit(3, seed=1))
        image = np.zeros((8, 8), int).tolist()
        site.predict(model="digits", pixels=image)
        counts = {name: compared(site, name)["n_compared"] for name in ("fruit", "odd", "digits", "trees")}
        assert counts == {"fruit": 4, "odd": 3, "digits": 1, "trees": 0}
        assert compared(site, "odd")["columns_watched"]
        assert not compared(site, "digits")["columns_watched"]
        refused = site.ask("/v1/drift?model=density")
        assert refused.status == 404
        assert "the rows of model 'density' are not watched for drift: model must be a classifier" in refused.error
        assert site.ask("/v1/drift").error.startswith("model must be named")
        assert site.ask("/v1/drift?model=nobody").status == 404


def test_every_path_is_watched_and_rejected_requests_add_nothing(forest: ServedTable) -> None:
    odd = served("odd", fitted("detector"))
    frame, _ = make_fruit(30, seed=1)
    table = frame.to_csv(index=False).encode()
    inputs = [{"name": "weight", "datatype": "FP64", "shape": [2], "data": [150.0, 180.0]}]
    with running([forest, odd]) as site:
        for name in ("fruit", "odd"):
            assert site.ask(f"/v1/predict/batch?model={name}", table, content_type="text/csv").status == 200
            assert site.ask(f"/v2/models/{name}/infer", {"inputs": inputs}).status == 200
            assert site.predict(model=name, rows=fruit(5, seed=1)).status == 200
            assert compared(site, name)["n_rows"] == 37
            assert site.predict(model=name, rows=[{"weight": 1.0}, {"wieght": 1.0}]).status == 422
            assert site.predict(model=name, rows=[{"weight": 1.0}], rejection_rate=2.0).status == 422
            unknown = {"inputs": inputs, "outputs": [{"name": "colour"}]}
            assert site.ask(f"/v2/models/{name}/infer", unknown).status == 422
            wrong = table.replace(b"weight", b"height")
            assert site.ask(f"/v1/predict/batch?model={name}", wrong, content_type="text/csv").status == 422
            assert compared(site, name)["n_rows"] == 37
            assert compared(site, name)["n_skipped"] == 0


def test_settings_of_a_request(forest: ServedTable) -> None:
    trees = served("trees", fitted("trees"))
    row = fruit(1, seed=1)
    with running([forest, trees]) as site:
        # Neither changes how familiar a row is; refused are those that the model itself would refuse.
        site.predict(model="fruit", rows=row, rejection_rate=0.999, risk=0.01)
        site.predict(model="fruit", rows=row, doubt="weights")  # which is its own
        found = compared(site, "fruit")
        assert (found["n_compared"], found["n_skipped"], found["refused_share"]) == (2, 0, 0.0)
        site.predict(model="fruit", rows=row, watched=False)
        site.ask("/v2/models/fruit/infer", {"inputs": [_weight()], "parameters": {"watched": False}})
        table = make_fruit(3)[0].to_csv(index=False).encode()
        site.ask("/v1/predict/batch?model=fruit&watched=false", table, content_type="text/csv")
        found = compared(site, "fruit")
        assert (found["n_rows"], found["n_skipped"]) == (2, 5)
        # Scores over another doubt are not comparable.
        site.predict(model="trees", rows=row, doubt="dropout", dropout=0.3)
        found = compared(site, "trees")
        assert (found["n_rows"], found["n_skipped"]) == (0, 1)


def _weight() -> dict[str, Any]:
    return {"name": "weight", "datatype": "FP64", "shape": [1], "data": [150.0]}


def test_concurrent_requests_lose_no_row(fruits: Site) -> None:
    rows = fruit(120, seed=8)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda row: fruits.predict(rows=[row]), rows))
    assert {reply.status for reply in replies} == {200}
    assert fruits.ask("/v1/drift").json["n_rows"] == 120
    p_values = [reply.json["answers"][0]["p_value"] for reply in replies]
    assert compared(fruits)["p_values"] == np.histogram(p_values, 20, (0.0, 1.0))[0].tolist()


def test_it_can_be_switched_off(forest: ServedTable) -> None:
    with running([forest], drift_window=0) as site:
        assert site.predict(rows=fruit(2, seed=1)).status == 200
        reply = site.ask("/v1/drift")
        assert (reply.status, "started without (--drift-window 0)" in reply.error) == (404, True)


def test_the_window(forest: ServedTable) -> None:
    with running([forest], drift_window=10) as site:
        assert site.predict(rows=fruit(25, seed=1)).status == 200
        found = compared(site)
    assert (found["n_rows"], found["n_compared"], found["n_recent"], found["window"]) == (25, 25, 10, 10)


def test_client_and_documents(fruits: Site) -> None:
    fruits.predict(rows=fruit(3, seed=1))
    reply = compared(fruits)
    drift = Client(fruits.url).drift("fruit")
    assert (drift.model, drift.n_compared, drift.alarm, drift.columns) == ("fruit", 3, False, ())
    assert list(drift.p_values) == reply["p_values"]
    document = fruits.ask("/openapi.json").json
    assert "/v1/drift" in document["paths"]
    assert set(document["components"]["schemas"]["Drift"]["properties"]) == set(reply)
    page = fruits.ask("/drift")
    assert page.headers["content-type"].startswith("text/html")
    assert all(part not in page.body.decode() for part in ("style=", "onclick", "http://", "https://"))
    script = fruits.ask("/static/drift.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert b"innerHTML" not in script.body


def judged(rows: Sequence[Any]) -> tuple[torch.Tensor, Judgement]:
    x = torch.zeros(len(rows), 5, dtype=torch.float64)
    return x, Judgement(np.zeros((1, len(rows))), np.ones(len(rows)))


def test_memory_is_bounded() -> None:
    watch = Watch("fruit", fitted("forest"), 100)
    watch.take(*judged(range(_MOST_WAITING - 10)))
    watch.take(*judged(range(20)))
    watch.take(*judged(range(5)))
    state = watch.state()
    assert (state.n_rows, state.n_waiting, state.n_passed_over) == (_MOST_WAITING + 15, _MOST_WAITING, 15)
    times = _Times()
    for row in range(10 * _MOST_MARKS):
        times.add(row, float(row))
    assert len(times._rows) <= _MOST_MARKS
    assert abs(pd.Timestamp(times.at(5 * _MOST_MARKS)).timestamp() - 5 * _MOST_MARKS) <= times._apart


def test_numbers_are_of_one_moment(forest: ServedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Watches([forest], 100)
    watches.taker(forest, Options())(*judged(range(3)))

    def compare_meanwhile(when: float) -> str:
        watches.do_some()
        return str(when)

    monkeypatch.setattr(watching, "_utc", compare_meanwhile)
    before, after = watches.state("fruit"), watches.state("fruit")
    assert (before.n_rows, before.n_compared, before.n_waiting) == (3, 0, 3)
    assert (after.n_rows, after.n_compared, after.n_waiting) == (3, 3, 0)


def test_what_cannot_be_compared_is_counted(forest: ServedTable) -> None:
    watches = Watches([forest], 100)
    take = watches.taker(forest, Options())
    x, judgement = judged(range(3))
    take(x[:, :2], judgement)  # too few columns
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        watches.do_some()
    assert not watches.are_left()
    assert watches.state("fruit").n_passed_over == 3
