"""The results page of the documentation says what the records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from socratic_experiments.reporting.figures import drawings
from socratic_experiments.reporting.markdown import results_markdown
from socratic_experiments.reporting.summaries import read_folders

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_page_is_made_from_the_records() -> None:
    records, settings = read_folders(sorted((ROOT / "benchmarks" / "results" / "experiments").iterdir()))
    note = (ROOT / "benchmarks" / "results" / "images.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_markdown(records, settings, note), "run: make results"
    for drawing in drawings(records):
        if drawing.main:
            assert (ROOT / "docs" / "images" / f"{drawing.name}.svg").exists()
