"""The results page of the documentation says what the records say."""

from __future__ import annotations

from pathlib import Path

from socratic.experiments.reporting.figures import drawings
from socratic.experiments.reporting.markdown import results_markdown
from socratic.experiments.reporting.summaries import read_folder

ROOT = Path(__file__).parents[1]


def test_the_page_is_made_from_the_records() -> None:
    found = [read_folder(folder) for folder in sorted((ROOT / "benchmarks" / "results" / "experiments").iterdir())]
    records = [record for one, _ in found for record in one]
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert page == results_markdown(records, [settings for _, settings in found]), "run: make results"
    for drawing in drawings(records):
        if drawing.main:
            assert (ROOT / "docs" / "images" / f"{drawing.name}.svg").exists()
