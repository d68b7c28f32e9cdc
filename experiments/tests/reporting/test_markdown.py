"""The page of the documentation: tables that are whole, figures that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments.tests.reporting.made_up import EXACT, made_up, papers, write_results

from socratic_experiments.reporting.markdown import results_markdown, write_markdown
from socratic_experiments.reporting.summaries import select


def check_tables(text: str) -> None:
    """Every row of a table has as many cells as its head."""
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_the_whole_page() -> None:
    text = results_markdown(made_up() + papers(), [{"train": "svhn", "data": "/somewhere/else/sets"}])
    check_tables(text)
    assert text.startswith("# Results\n")
    assert "Seeds: 0, 1. Hardware: a fast one." in text
    assert "half the range" in text
    assert f"| circuit | {EXACT} | 0.940 ± 0.010 | missed by 0.010 |" in text
    assert "| paper's circuit | circuit alone | 35.0 ± 0.0 | 35.0 ± 0.0 | PC | 29.3 | 29.9 | 30.3 |" in text
    assert "scenes stands here where the paper has LSUN; there is no CIFAR-100; there is no CINIC" in text
    assert "| data | sets |" in text
    assert "/somewhere" not in text
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings[0] == "What reproduces and what does not"
    assert headings[-1] == "Settings"


def test_what_is_absent_is_left_out() -> None:
    text = results_markdown(select(made_up(), experiment="rotation"))
    check_tables(text)
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == ["What reproduces and what does not", "Turned images"]
    assert "±" not in text
    assert "Hardware" not in text
    assert results_markdown([]).startswith("# Results\n")


def test_figures_are_written_beside_the_page(tmp_path: Path) -> None:
    records = made_up()
    one = write_results(tmp_path / "one", select(records, experiment="closeness"))
    other = write_results(tmp_path / "other", select(records, experiment="sweep"), ending="{")
    written = write_markdown([one, other], tmp_path / "docs" / "results.md")
    assert all(path.is_file() for path in written)
    text = (tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((images/[^)]*)\)", text)
    assert linked == ["images/closeness-svhn-circuit.svg", "images/sweep-svhn-circuit.svg"]
    assert [tmp_path / "docs" / target for target in linked] == written[:-1]
    assert {path.name for path in (tmp_path / "docs").iterdir()} == {"images", "results.md"}
