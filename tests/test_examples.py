"""The examples run, and what they show is so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from examples import digits as example
from examples import guarded_forests, inpainting, reasons, rotation, shrinking_doubt, three_views
from sklearn.datasets import load_iris

import socratic
from tests.drawing.test_diagram import needs_dot, svg_texts


@pytest.fixture(scope="module")
def trained() -> tuple[example.Digits, socratic.Circuit]:
    digits = example.load()
    return digits, example.train(digits)


@pytest.mark.slow
def test_the_digits_example_learns_and_doubts(
    trained: tuple[example.Digits, socratic.Circuit], capsys: pytest.CaptureFixture[str]
) -> None:
    digits, circuit = trained
    with torch.no_grad():
        known = socratic.tdi(circuit, digits.test_x, dropout=0.2).posterior()
        unknown = socratic.tdi(circuit, example.noise(digits), dropout=0.2).posterior()
        example.report(digits, circuit)
    assert float((known.mean.argmax(1) == digits.test_y).float().mean()) > 0.93
    assert float(unknown.entropy.mean()) > 3 * float(known.entropy.mean())
    assert "uniform noise" in capsys.readouterr().out


@pytest.mark.slow
def test_turned_digits_are_refused_before_they_are_misread(tmp_path: Path) -> None:
    turned = rotation.measure()
    assert turned[0].accuracy > 0.94
    assert turned[0].refused < 0.08
    assert turned[-1].accuracy < 0.3
    assert turned[-1].refused > 0.95
    assert max(step.wrong for step in turned) < 0.1
    rotation.draw(turned, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_moments_agree_with_ten_thousand_passes_on_a_trained_circuit(
    trained: tuple[example.Digits, socratic.Circuit], masks: str
) -> None:
    """Means and variances of the roots by batch means, where sampling can resolve them (relative variance below 1)."""
    digits, circuit = trained
    dropout, n_batches, per_batch = 0.05, 50, 200
    circuit = circuit.double()
    x = digits.test_x[:8].double()
    with torch.no_grad():
        moments = socratic.tdi(circuit, x, dropout=dropout, masks=masks)
        passes = socratic.sample_log_likelihoods(
            circuit, x, dropout=dropout, masks=masks, n_passes=n_batches * per_batch, seed=1
        )
        relative = torch.stack([torch.exp(value - moments.log_mean) for value in passes])
    relative = relative.view(n_batches, per_batch, *relative.shape[1:])
    resolved = moments.relative_variance < 1.0
    assert resolved.sum() >= 20

    def score(batches: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        error = batches.std(0) / n_batches**0.5
        return ((batches.mean(0) - expected) / error)[resolved].abs()

    means = relative.mean(1)
    squares = ((relative - 1.0) ** 2).mean(1)
    assert float(score(means, torch.ones_like(resolved, dtype=torch.float64)).max()) < 4
    assert float(score(squares, moments.relative_variance).max()) < 4


@pytest.mark.slow
def test_missing_halves_are_completed_better_than_by_the_average_digit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    digits = inpainting.load()
    circuit = inpainting.train(digits, n_epochs=10)
    inpainting.report(digits, circuit)
    errors = [[float(error) for error in line.split()[1:]] for line in capsys.readouterr().out.splitlines()[1:]]
    assert len(errors) == 3
    for average, mean, sample, best in errors:
        assert mean < 0.85 * average
        assert mean < best < sample
    inpainting.draw(digits, circuit, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("table", ["iris", "wine"])
def test_wrong_values_are_the_first_reason_of_refused_rows(table: str) -> None:
    for blamed in reasons.measure(table, reasons.bundled()[table]):
        assert blamed.refused >= 50
        rare = blamed.mistake == "another row's value"  # mistakes that are often none: few rows are refused
        assert blamed.right >= (0.75 if rare else 0.9) * blamed.refused


def test_reasons_are_measured_on_tables_from_files(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rows = [{"name": "a", "length": float(row), "width": 2.0 * row} for row in range(4)]
    pd.DataFrame([*rows, {"name": "b", "length": None, "width": 1.0}]).to_csv(tmp_path / "things.csv", index=False)
    ((name, x),) = reasons.read([tmp_path / "things.csv"]).items()
    assert name == "things.csv"
    assert x.tolist() == [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]


@pytest.mark.slow
def test_reasons_of_strange_digits_are_drawn(tmp_path: Path) -> None:
    reasons.draw(*reasons.strange_digits(), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def falls(doubts: list[shrinking_doubt.Doubt]) -> bool:
    information = [doubt.mutual_information for doubt in doubts]
    return all(later < before for before, later in pairwise(information))


def test_doubt_falls_as_rows_are_doubled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a generated table, of two classes that overlap."""
    monkeypatch.setattr(shrinking_doubt, "N_STEPS", 20)

    def load(return_X_y: bool) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803 - as scikit-learn calls it
        assert return_X_y
        rng = np.random.default_rng(0)
        y = rng.integers(2, size=356)
        return rng.normal(y[:, None], 1.0, (356, 8)), y

    doubts = shrinking_doubt.measure([shrinking_doubt.table(load, 256, seed=0)], (64, 128, 256))
    assert [doubt.n_rows for doubt in doubts] == [64, 128, 256]
    assert falls(doubts)
    assert doubts[-1].accuracy > 0.85
    shrinking_doubt.draw({"generated": doubts}, tmp_path / "figure.svg")
    assert "generated" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_doubt_falls_on_tables() -> None:
    found = shrinking_doubt.tables()
    assert all(falls(doubts) for doubts in found.values())
    assert found["digits"][-1].accuracy > 0.93


@needs_dot
def test_three_views_of_a_circuit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "three-views.svg"
    monkeypatch.setattr("sys.argv", ["three_views", str(path)])
    three_views.main()
    found = socratic.summary(three_views.circuit())
    assert (found.n_sums, found.n_products, found.n_leaves, found.n_features) == (3, 6, 10, 3)
    plain, sampled, moments = (picture.source for picture in three_views.views().values())
    assert [source.count("style=dashed") for source in (plain, sampled, moments)] == [0, 2, 0]
    assert moments.count("±") == 6  # the three sums, the products above two of them, and the caption

    texts = svg_texts(path.read_text(encoding="utf-8"))
    assert set(three_views.views()) <= set(texts)
    stored = Path(__file__).parents[1] / "docs" / "images" / "three-views.svg"
    assert sorted(texts) == sorted(svg_texts(stored.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # wine has few rows
def test_a_guard_finds_a_wine_that_the_forest_was_not_taught(tmp_path: Path) -> None:
    (_, x, y), _ = guarded_forests.tables([])
    x.assign(kind=y).to_csv(tmp_path / "wine.csv", index=False)
    ((_, columns, classes),) = guarded_forests.tables([f"{tmp_path / 'wine.csv'}:kind"])
    assert columns.shape == x.shape
    guard, alone, _ = guarded_forests.measure(columns, classes)
    assert guard > alone
    assert guard > 0.85


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of other people's packages
def test_a_model_of_mlflow_answers_as_the_model_file_does(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    from examples import mlflow_model

    x, y = load_iris(return_X_y=True, as_frame=True)
    x.iloc[3, 1] = np.nan
    model = socratic.CircuitClassifier(structure="kernels", random_state=0).fit(x, y)
    model.save(tmp_path / "iris.model")
    mlflow_model.save(tmp_path / "iris.model", tmp_path / "folder")
    assert not [path for path in (tmp_path / "folder").rglob("*") if path.suffix == ".pkl"]
    found = mlflow.pyfunc.load_model(str(tmp_path / "folder")).predict(x)
    assert list(found)[:3] == ["label", "probability", "entropy"]
    np.testing.assert_allclose(found["probability"], model.predict_proba(x).max(1))
    np.testing.assert_allclose(found["p_value"], model.uncertainty(x).p_value)
