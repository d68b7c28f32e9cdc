"""The drift page, as a browser shows it."""

from __future__ import annotations

import re

import pytest
from sklearn.datasets import load_iris

from socratic import CircuitOutlierDetector
from socratic.serve.model import served
from tests.browser.conftest import OpenPage, overflow, violations
from tests.serve.running import Site, running


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_alarm_is_seen(site: Site, open_page: OpenPage, scheme: str) -> None:
    frame = load_iris(return_X_y=True, as_frame=True)[0].sample(300, replace=True, random_state=0)
    assert site.predict(model="irises", rows=frame.to_dict("records")).status == 200
    page = open_page(f"{site.url}/drift", viewport={"width": 360, "height": 640}, color_scheme=scheme)
    page.get_by_label("Model").select_option("irises")
    verdict = page.get_by_role("status")
    page.get_by_text("watched since").wait_for()
    frame["petal width (cm)"] += 4.0  # the page finds out by itself
    assert site.predict(model="irises", rows=frame.to_dict("records")).status == 200
    page.get_by_text("Alarm: rows have changed").wait_for()
    assert re.search(r"changed since about \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(row [\d,]+\)", verdict.text_content())
    assert "petal width (cm)" in page.locator("#columns").text_content()
    assert page.locator("#p-values tbody tr").count() == page.locator("#picture rect").count() == 20
    assert overflow(page) <= 0
    assert violations(page) == []


def test_a_token_is_asked_for(forgiving_page: OpenPage) -> None:
    frame = load_iris(return_X_y=True, as_frame=True)[0]
    model = served("irises", CircuitOutlierDetector(random_state=0).fit(frame))
    with running([model], token="a-token-that-is-long-enough") as guarded:
        page = forgiving_page(f"{guarded.url}/drift")  # the browser notes that it was sent away
        page.get_by_label("This server needs its token").fill("a-token-that-is-long-enough")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("No rows have been compared yet.").wait_for()
