"""One row has one score and one p-value: in any company, on any number of threads, and through every door."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import socratic
from socratic import CircuitClassifier, CircuitOutlierDetector
from socratic.cli.app import main
from socratic.export import export_onnx
from socratic.serve.model import served
from tests.export.comparing import said_by_runtime
from tests.programs import Run, runner
from tests.serve.running import running

COLUMNS = ["a", "b", "c", "d"]
KINDS = np.random.default_rng(0).normal(size=(6, 4)).round(2)
DIGITS = 1e-5
"""Text has six digits; p-values of other calibration rows are a hundredth apart."""
SHARES = [0.4, 0.3, 0.15, 0.1, 0.04, 0.01]
MODELS = {"detector": CircuitOutlierDetector, "classifier": CircuitClassifier}


def drawn(data: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 4) and their classes (n,): of six kinds alone, of whole numbers, or of numbers that do not repeat."""
    rng = np.random.default_rng(seed)
    if data == "six kinds":
        kind = rng.choice(6, n, p=SHARES)
        return KINDS[kind], (kind + (rng.random(n) < 0.2)) % 2
    x = rng.poisson(2.0, size=(n, 4)).astype(float) if data == "counts" else rng.normal(size=(n, 4))
    return x, (x.sum(1) + rng.normal(size=n) > np.median(x.sum(1))).astype(int)


@cache
def fitted(kind: str, data: str, n_rows: int) -> tuple[Any, np.ndarray]:
    """A default model of its kind, and rows (60, 4) to ask it about, some with a missing cell."""
    x, y = drawn(data, n_rows, seed=1)
    asked = drawn(data, 60, seed=2)[0].copy()
    asked[40:50, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[kind](random_state=0).fit(pd.DataFrame(x, columns=COLUMNS), y)
    return model, asked


def judged(model: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P-values (N,) of rows (N, 4), and the scores or verdicts (N,) behind and above them."""
    frame = pd.DataFrame(rows, columns=COLUMNS)
    if isinstance(model, CircuitOutlierDetector):
        return model.p_value(frame), model.score_samples(frame)
    return model.uncertainty(frame).p_value, model.reject(frame)


@pytest.mark.parametrize("n_rows", [150, 700])
@pytest.mark.parametrize("data", ["six kinds", "counts", "numbers"])
@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=6, deadline=None)
@given(places=st.lists(st.integers(0, 59), min_size=1, max_size=20), threads=st.integers(1, 2))
def test_company_position_and_threads_change_nothing(
    kind: str, data: str, n_rows: int, places: list[int], threads: int
) -> None:
    model, rows = fitted(kind, data, n_rows)
    expected = judged(model, rows)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = judged(model, rows[places])
        alone = judged(model, rows[places[:1]])
    finally:
        torch.set_num_threads(before)
    for in_company, by_itself, right in zip(found, alone, expected, strict=True):
        np.testing.assert_array_equal(in_company, right[places])
        np.testing.assert_array_equal(by_itself, right[places[:1]])


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(main, capsys)


@pytest.mark.parametrize("data", ["six kinds", "counts", "numbers"])
@pytest.mark.parametrize("kind", MODELS)
def test_every_door_gives_the_same_p_value(run: Run, tmp_path: Path, kind: str, data: str) -> None:
    model, rows = fitted(kind, data, 700)
    expected = judged(model, rows)[0]
    frame = pd.DataFrame(rows, columns=COLUMNS)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(judged(socratic.load(tmp_path / "model"), rows)[0], expected)

    for suffix, write in (("csv", frame.to_csv), ("parquet", frame.to_parquet)):
        write(tmp_path / f"rows.{suffix}", index=False)
        said = tmp_path / f"said.{suffix}"
        assert run("predict", tmp_path / "model", tmp_path / f"rows.{suffix}", "-o", said, "--jobs", 1).code == 0
        read = pd.read_csv(said) if suffix == "csv" else pd.read_parquet(said)
        np.testing.assert_allclose(read["p_value"], expected, rtol=DIGITS)

    cells = frame.astype(object).where(frame.notna(), None).to_dict("records")
    with running([served("model", model)]) as site:
        together = site.predict(rows=cells).json["answers"]
        np.testing.assert_allclose([row["p_value"] for row in together], expected, rtol=DIGITS)
        for place in (0, 45):
            of_three = site.predict(rows=[cells[place]] * 3).json["answers"][1]
            assert of_three["p_value"] == together[place]["p_value"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_exported_models_give_the_same_p_value(tmp_path: Path, kind: str) -> None:
    model, rows = fitted(kind, "counts", 700)
    export_onnx(model, tmp_path / "model.onnx", outputs=["p_value"])
    x = torch.cat(list(model._batches(pd.DataFrame(rows, columns=COLUMNS)))).double().numpy()
    found = said_by_runtime(tmp_path / "model.onnx", x)["p_value"]
    np.testing.assert_array_equal(found, judged(model, rows)[0])


@pytest.mark.filterwarnings("ignore:values not seen in training", "ignore::socratic.CalibrationWarning")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("n_rows", [20, 50, 150, 700])
def test_rows_that_all_repeat_are_familiar(kind: str, n_rows: int) -> None:
    """Two rows, each of which stands for two fifths of the training rows or more."""
    which = np.arange(n_rows) % 5 < 2
    rows, labels = np.where(which[:, None], KINDS[0], KINDS[1]), np.arange(n_rows) % 2
    model = MODELS[kind](random_state=0).fit(pd.DataFrame(rows, columns=COLUMNS), labels)
    assert (judged(model, KINDS[:2])[0] > 0.2).all()
    if model.calibrated_:
        assert judged(model, KINDS[:1] + 9.0)[0] <= 0.05
