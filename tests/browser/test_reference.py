"""The reference of a server's paths, as a browser shows it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from socratic import CircuitDensity
from socratic.serve.model import served
from tests.browser.conftest import OpenPage, overflow, violations
from tests.serve.running import Site, running

TOKEN = "a-token-that-is-long-enough"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_the_reference(site: Site, open_page: OpenPage, scheme: str) -> None:
    page = open_page(f"{site.url}/docs", viewport={"width": 360, "height": 640}, color_scheme=scheme)
    assert page.get_by_role("heading", name="How to ask").is_visible()
    assert overflow(page) <= 0
    assert violations(page) == []


def test_columns_are_listed(site: Site, open_page: OpenPage) -> None:
    page = open_page(f"{site.url}/docs")
    page.get_by_role("heading", name="Row of irises").wait_for()
    assert page.get_by_role("cell", name="petal length (cm)").is_visible()
    assert page.get_by_label("This server needs its token").is_hidden()


def test_columns_are_for_those_with_the_token(forgiving_page: OpenPage, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=60)
    frame = pd.DataFrame({"secret column": values, HOSTILE: ["x", HOSTILE, "y"] * 20})
    with running([served("numbers", CircuitDensity(n_epochs=1, random_state=0).fit(frame))], token=TOKEN) as guarded:
        page = forgiving_page(guarded.url)
        page.get_by_role("link", name="How to ask").click()
        page.get_by_role("heading", name="POST /v1/predict", exact=True).wait_for()
        field = page.get_by_label("This server needs its token")
        field.fill("another")
        field.press("Enter")
        page.get_by_text("This is not the token of the server.").wait_for()
        assert "secret column" not in page.content()
        field.fill(TOKEN)
        field.press("Enter")
        page.get_by_role("heading", name="Row of numbers").wait_for()
        assert page.get_by_role("cell", name="secret column").is_visible()
        assert page.get_by_role("cell", name=HOSTILE, exact=True).is_visible()
        assert page.locator("img").count() == 0
        assert field.is_hidden()
        assert page.get_by_text("This is not the token of the server.").count() == 0
        with page.expect_download() as started:
            page.get_by_role("link", name="OpenAPI").click()
        started.value.save_as(tmp_path / "openapi.json")
    schemas = json.loads((tmp_path / "openapi.json").read_text())["components"]["schemas"]
    assert set(schemas["Row"]["properties"]) == {"secret column", HOSTILE}
