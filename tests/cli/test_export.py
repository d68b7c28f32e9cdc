"""``socratic export``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from socratic import load
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
