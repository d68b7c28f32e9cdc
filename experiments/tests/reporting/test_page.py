"""The page of results stands alone and has sections for what was measured only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from experiments.tests.reporting.made_up import EXACT, made_up, shifted, write_results

from socratic_experiments.reporting.page import results_page, write_report
from socratic_experiments.reporting.summaries import Record, select
from tests.html_pages import HOSTILE, PLAIN, check_alone, check_same_structure


@pytest.mark.slow
def test_the_report_of_a_folder(tmp_path: Path) -> None:
    records = select(made_up(), experiment="training") + select(made_up(), experiment="sweep")
    records += select(made_up(), experiment="ood", model="circuit", method=EXACT)
    folder = write_results(tmp_path / "run", records, ending='{"experiment": "ood", "tra')
    (folder / "samples.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    written = write_report(folder)
    assert written[-1] == folder / "index.html"
    assert all(path.is_file() for path in written)
    text = written[-1].read_text(encoding="utf-8")
    found = check_alone(text)
    assert found.tags.count("svg") == (len(written) - 1) / 2
    assert found.tags.count("img") == 1
    assert found.tags.count("details") == 3
    for part in ("0.940 ± 0.010", "Known and unknown images", "half the range", "sets"):
        assert part in text
    assert "/somewhere" not in text
    assert "Turned images" not in text


def renamed(records: list[Record], names: Sequence[str]) -> list[Record]:
    """The same results of sets, models and methods with other names."""
    found = dict(zip(("svhn", "scenes", "circuit", EXACT), names, strict=True))
    kept = {"experiment", "role", "shift"}
    return [
        {
            key: value if key in kept or not isinstance(value, str) else found.get(value, value)
            for key, value in each.items()
        }
        for each in records
    ]


def test_hostile_names_stay_text() -> None:
    records = select(made_up(), experiment="training") + select(made_up(), experiment="ood", model="circuit")
    records += shifted("rotation", "rotation", EXACT, [0.1, 0.2], 15)
    text = results_page(renamed(records, HOSTILE[:4]), {HOSTILE[4]: HOSTILE[5]})
    check_same_structure(text, results_page(renamed(records, PLAIN[:4]), {PLAIN[4]: PLAIN[5]}))


def test_one_seed_needs_no_words_on_seeds() -> None:
    records = shifted("rotation", "rotation", EXACT, [0.1, 0.2], 15)
    text = results_page(records, {})
    assert text == results_page(records, {})
    check_alone(text)
    assert "Turned images" in text
    assert "±" not in text
    assert "Settings" not in text


def test_training_alone_and_nothing_at_all() -> None:
    text = results_page(select(made_up(), experiment="training"), {})
    check_alone(text)
    assert "83.0 ± 1.0" in text
    assert "below the 85 % aimed at" in text
    check_alone(results_page([], {}))
