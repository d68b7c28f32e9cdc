from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

import socratic.serve
from socratic import CircuitDensity
from socratic.serve import limits
from socratic.serve.model import served
from tests.serve.running import Site, running

ROOT = Path(__file__).resolve().parents[2]
STATIC = Path(socratic.serve.__file__).parent / "static"
HOSTILE = "<script>alert(1)</script>"


def test_pages(site: Site) -> None:
    front = site.ask("/").body.decode()
    assert "/docs" in front
    assert re.findall(r"<script[^>]*>", front) == ['<script type="module" src="/static/playground.js">']
    reference = site.ask("/docs").body.decode()
    assert re.findall(r"<script[^>]*>", reference) == ['<script type="module" src="/static/reference.js">']
    assert all(part in reference for part in ("POST /v1/predict/batch", "rejection_rate", "/v2/models/{name}/infer"))
    for page in (front, reference):  # the content policy would not let these run
        assert "style=" not in page
        assert "http://" not in page
        assert "https://" not in page
    for name, kind in (("style.css", "text/css"), ("icon.svg", "image/svg+xml"), ("playground.js", "text/javascript")):
        assert site.ask(f"/static/{name}").headers["content-type"].startswith(kind)


def test_scripts_ask_for_nothing_that_is_not_there(site: Site) -> None:
    asked, seen = ["playground.js", "drift.js", "reference.js"], set()
    while asked:
        name = asked.pop()
        if name not in seen:
            seen.add(name)
            asked += re.findall(r'from "\./([^"]+)"', site.ask(f"/static/{name}").body.decode())
    assert {file.name for file in STATIC.glob("*.js")} == seen


def test_scripts_never_write_markup() -> None:
    for file in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", file.read_text()), file.name


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


def test_pages_that_need_no_token_hold_nothing_of_the_models(site: Site) -> None:
    other = CircuitDensity(n_epochs=1, random_state=0).fit(pd.DataFrame({"a": [float(i % 7) for i in range(60)]}))
    with running([served("other", other)], token="a-token-that-is-long-enough") as guarded:
        for path in limits.PAGES:
            assert guarded.ask(path).body == site.ask(path).body
        assert guarded.ask("/openapi.json").status == 401


def test_hostile_names_are_escaped() -> None:
    frame = pd.DataFrame({HOSTILE: [float(i % 7) for i in range(60)], "b": ["x", "y", HOSTILE] * 20})
    model = CircuitDensity(n_epochs=1, random_state=0).fit(frame)
    with running([served("odd", model)]) as site:
        for path in ("/", "/docs"):
            assert HOSTILE not in site.ask(path).body.decode()
        reply = site.predict(rows=[{HOSTILE: "1"}])
        assert reply.headers["content-type"] == "application/json"
        assert site.predict(rows=[{HOSTILE: 1.0, "b": HOSTILE}]).status == 200


def test_the_image_is_built_in_the_format_that_keeps_its_health_check() -> None:
    build = "podman build --format docker -t socratic ."
    recipe = (ROOT / "Containerfile").read_text()
    assert "HEALTHCHECK" in recipe
    for page in (recipe, (ROOT / "docs" / "serving.md").read_text()):
        assert page.count("podman build") == page.count(build) == 1


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
