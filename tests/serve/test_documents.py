from __future__ import annotations

import pandas as pd

from socratic import CircuitDensity
from socratic.serve.model import served
from tests.serve.running import Site, running

HOSTILE = "<script>alert(1)</script>"


def test_pages(site: Site) -> None:
    front = site.ask("/").body.decode()
    assert all(name in front for name in ("fruit", "outlier detector", "rows of 5 columns", "images of 8 x 8 x 1"))
    assert "/docs" in front
    reference = site.ask("/docs").body.decode()
    assert all(part in reference for part in ("POST /v1/predict/batch", "rejection_rate", "/v2/models/{name}/infer"))
    for page in (front, reference):  # the content policy would not let these run
        assert "<script" not in page
        assert "style=" not in page
        assert "http://" not in page
        assert "https://" not in page
    assert site.ask("/static/style.css").headers["content-type"].startswith("text/css")


def test_openapi_names_the_columns(site: Site) -> None:
    document = site.ask("/openapi.json").json
    rows = document["components"]["schemas"]["Row"]["anyOf"]
    fruit = next(row for row in rows if row["title"] == "Row of fruit")
    assert fruit["properties"]["weight"]["type"] == ["number", "null"]
    assert fruit["properties"]["colour"]["examples"] == ["green", "red", "yellow"]
    assert fruit["additionalProperties"] is False
    assert {"/v1/predict", "/v1/predict/batch", "/v1/model", "/healthz", "/readyz", "/metrics"} <= set(
        document["paths"]
    )


def test_hostile_names_are_escaped() -> None:
    frame = pd.DataFrame({HOSTILE: [float(i % 7) for i in range(60)], "b": ["x", "y", HOSTILE] * 20})
    model = CircuitDensity(n_epochs=1, random_state=0).fit(frame)
    with running([served("odd", model)]) as site:
        for path in ("/", "/docs"):
            assert HOSTILE not in site.ask(path).body.decode()
        reply = site.predict(rows=[{HOSTILE: "1"}])
        assert reply.headers["content-type"] == "application/json"
        assert site.predict(rows=[{HOSTILE: 1.0, "b": HOSTILE}]).status == 200


def test_metrics(site: Site) -> None:
    site.predict(model="fruit", rows=[{"weight": 9000.0}])
    site.ask("/nothing/at/all")
    site.ask("/v2/models/fruit")
    counted = site.ask("/metrics").body.decode()
    assert 'socratic_requests_total{method="POST",path="/v1/predict",status="200"}' in counted
    assert 'socratic_verdicts_total{model="fruit",verdict="unfamiliar"}' in counted
    assert 'path="/v2/models/{name}"' in counted
    assert "/nothing" not in counted
    assert "socratic_rows_together_bucket" in counted
