"""``socratic export``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from socratic import CircuitOutlierDetector, load
from tests.cli.conftest import HEADER, Run, assert_one_line
from tests.export.comparing import said_by_runtime


@pytest.mark.slow
def test_the_file_says_what_the_model_says(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    done = run("export", folder / "model", "-o", tmp_path / "model.onnx", "--give", "log_likelihood", "--give", "std")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"log_likelihood, std written to {tmp_path / 'model.onnx'}, the encoding of rows to ")
    encoding = json.loads((tmp_path / "model.json").read_text())
    assert (encoding["format"], encoding["classes"]) == ("socratic.encoding", ["no", "yes"])
    assert list(encoding["outputs"]) == ["log_likelihood", "std"]
    model, rows = load(folder / "model"), pd.read_csv(folder / "test.csv")[HEADER[:-1]]
    (x,) = model._batches(rows)
    found = said_by_runtime(tmp_path / "model.onnx", x.numpy())
    np.testing.assert_allclose(found["log_likelihood"], model.score_samples(rows), atol=1e-4)
    np.testing.assert_allclose(found["std"], model.uncertainty(rows).std, atol=1e-4)


@pytest.mark.slow
def test_the_file_says_what_an_outlier_detector_says(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    rows = [pd.read_csv(folder / name)[HEADER[:-1]] for name in ("train.csv", "test.csv")]
    model = CircuitOutlierDetector(random_state=0).fit(rows[0])
    model.save(tmp_path / "detector")
    wanted = ["log_likelihood", "p_value", "unfamiliar"]
    given = [argument for name in wanted for argument in ("--give", name)]
    done = run("export", tmp_path / "detector", "-o", tmp_path / "detector.onnx", *given)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("log_likelihood, p_value, unfamiliar written to ")
    encoding = json.loads((tmp_path / "detector.json").read_text())
    assert (list(encoding["outputs"]), encoding["rejection_rate"]) == (wanted, 0.05)
    (x,) = model._batches(rows[1])
    found = said_by_runtime(tmp_path / "detector.onnx", x.numpy())
    np.testing.assert_allclose(found["log_likelihood"], model.uncertainty(rows[1]).log_likelihood, atol=1e-4)
    np.testing.assert_allclose(found["p_value"], model.p_value(rows[1]), atol=1e-4)
    np.testing.assert_array_equal(found["unfamiliar"], model.predict(rows[1]) == -1)


def test_mistakes_are_named(run: Run, folder: Path, tmp_path: Path) -> None:
    done = run("export", folder / "model", "-o", tmp_path / "model.pt")
    assert "model.pt must end in .onnx" in assert_one_line(done)
    done = run("export", folder / "model", "-o", tmp_path / "model.onnx", "--give", "mode")
    assert (
        "'mode' cannot be exported: there is no such output of this model; what can: probabilities"
        in assert_one_line(done)
    )
    done = run("export", tmp_path / "gone", "-o", tmp_path / "model.onnx")
    assert "there is no model file" in assert_one_line(done)
    assert not list(tmp_path.iterdir())
