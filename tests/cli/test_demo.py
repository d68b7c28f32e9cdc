"""The demo learns, refuses what is no digit, and writes a page that needs nothing but itself."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

import socratic
from socratic import CircuitImageClassifier
from socratic.cli import demo
from socratic.cli.failures import UserError
from socratic.cli.report import Card, Row, Shift, demo_page
from tests.html_pages import check_alone


@pytest.mark.slow
def test_the_demo_refuses_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    demo.run_demo(target, seed=0)
    output = " ".join(capsys.readouterr().out.split())

    def share(pattern: str) -> float:
        match = re.search(pattern, output)
        assert match, output
        return float(match[1]) / 100

    assert share(r"reads ([\d.]+)% correctly") > 0.93
    assert share(r"refuses ([\d.]+)% of them") < 0.15
    assert share(r"photograph patches.* it refuses ([\d.]+)%") >= 0.9
    found = [re.findall(rf"{name} +([\d.]+) +([\d.]+)", output) for name in ("edge masks", "unit masks", "passes")]
    areas, entropies = zip(*(pairs[0] for pairs in found), strict=True)
    assert min(map(float, areas)) > 0.9
    assert len(set(zip(areas, entropies, strict=True))) == len(found), "dropout moves nothing"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.model", "report.html"]
    command = re.search(r"To draw digits yourself: socratic serve (\S+), and open http://127.0.0.1:8000", output)
    assert command, output
    model = socratic.load(command[1])
    assert isinstance(model, CircuitImageClassifier)
    pixels = (demo.load_data(seed=0).test_x.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    assert (model.predict(pixels) == demo.load_data(seed=0).test_y).mean() > 0.9
    text = target.read_text(encoding="utf-8")
    page = check_alone(text)
    assert page.tags.count("svg") == 4
    assert page.tags.count("table") == 1
    assert page.tags.count("img") >= 24
    assert text.count("Heat map of what is surprising") == text.count("refused (would say") >= 24
    for name in ("TDI, independent", "TDI, exact, unit masks", "Monte Carlo, 100 passes", "log p(x)"):
        assert name in output
        assert name in text
    assert "prefers-color-scheme: dark" in text


def test_refused_pictures_have_the_reason_below_them() -> None:
    picture, heat = np.full((8, 8), 3.0), np.zeros((8, 8))
    heat[2, 5] = 40.0
    cards = {
        "refused": [Card(picture, "<7>", None, 0.01, heat)],
        "answered": [Card(picture, "7", "7", 0.5, None)],
        "none": [],
    }
    words = ["What was <seen>."]
    row = Row("no dropout", 0.9, (0.1, 0.2, 0.3, 0.4), 0.95, 1.0)
    shift = Shift("Noise", "level", "01", [picture] * 2, [1, 0], [0, 1], {"no dropout": [0, 1]}, [np.ones(2)] * 2)
    p_values = {"digits": np.array([0.5, 0.01]), "patches": np.array([0.01])}
    text = demo_page([row], [shift], p_values, 0.05, cards, words, seed=0)
    found = check_alone(text)
    assert found.tags.count("img") == 3
    assert text.count("most of all the pixel in row 3, column 6") == 1
    assert "refused (would say &lt;7&gt;)" in text
    assert "What was &lt;seen&gt;." in text


def test_unknown_images_are_made_like_digits() -> None:
    data = demo.load_data(seed=0)
    assert data.patches.shape == (demo.N_PATCHES, 64)
    assert data.patches.min() >= 0
    assert data.patches.max() <= 16
    assert np.array_equal(data.patches, demo.load_data(seed=0).patches)
    assert not np.array_equal(data.patches, demo.load_data(seed=1).patches)
    assert len(data.train_x) + len(data.test_x) == 1797


def test_the_first_level_of_each_shift_is_the_test_digits() -> None:
    data = demo.load_data(seed=0)
    for name, _, levels, images in demo.shift_levels(data, seed=0):
        assert len(levels) == len(images) == (10 if name == "Rotation" else 6)
        np.testing.assert_allclose(images[0], data.test_x[: len(images[0])], atol=1e-9)
        distance = [float(np.abs(image - images[0]).mean()) for image in images]
        assert all(distance[1:])


def test_report_goes_to_a_file_or_into_a_folder(tmp_path: Path) -> None:
    assert demo.report_path(tmp_path / "a" / "b.html") == tmp_path / "a" / "b.html"
    assert demo.report_path(tmp_path / "c") == tmp_path / "c" / "demo-report.html"
    assert (tmp_path / "a").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file is a file; name a folder"):
        demo.report_path(tmp_path / "file")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(UserError, match=r"folder\.html is a folder; name a file"):
        demo.report_path(tmp_path / "folder.html")
