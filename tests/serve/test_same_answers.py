"""Models without classes say the same over HTTP, in ``socratic predict`` and in ``socratic score``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from socratic.cli.app import main
from tests.programs import Run, runner
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Site

CSV = "text/csv"
COLUMNS = {
    "detector": ["log_likelihood", "log_std", "p_value", "verdict", "reasons"],
    "density": ["log_likelihood", "log_std"],
}
SERVED = {"detector": "odd", "density": "density"}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(main, capsys)


def strange_fruit() -> pd.DataFrame:
    """Rows with a missing cell, a weight far out and a colour that was never seen."""
    frame, _ = make_fruit(30, seed=2)
    frame.loc[0, "colour"] = None
    frame.loc[1, "weight"] = 5000.0
    frame.loc[2, "colour"] = "purple"
    return frame


@pytest.mark.parametrize("kind", ["detector", "density"])
def test_three_ways_to_ask_give_the_same(run: Run, site: Site, tmp_path: Path, kind: str) -> None:
    fitted(kind).save(tmp_path / "model")
    data = tmp_path / "data"
    data.mkdir()
    frame = strange_fruit()
    frame.to_csv(data / "fruit.csv", index=False)
    done = run("predict", tmp_path / "model", data / "fruit.csv", "-o", tmp_path / "fruit.csv", "--jobs", 1)
    assert done.code == 0, done.err
    assert done.out.startswith("30 rows, written" if kind == "density" else "30 rows, ")
    assert ("unfamiliar" in done.out) == (kind == "detector")
    predicted = (tmp_path / "fruit.csv").read_bytes()
    scored = run("score", tmp_path / "model", data, "-o", tmp_path / "out")
    assert scored.code == 0, scored.err
    assert scored.out.startswith("1 file, 30 rows")
    assert (tmp_path / "out" / "fruit.csv").read_bytes() == predicted
    path = f"/v1/predict/batch?model={SERVED[kind]}"
    reply = site.ask(path, (data / "fruit.csv").read_bytes(), content_type=CSV)
    assert (reply.status, reply.body) == (200, predicted)

    table = pd.read_csv(io.BytesIO(predicted))
    assert list(table)[len(frame.columns) :] == COLUMNS[kind]
    rows: list[dict[str, Any]] = [
        {name: value for name, value in row.items() if not pd.isna(value)} for row in frame.to_dict("records")
    ]
    records = site.predict(model=SERVED[kind], rows=rows).json["answers"]
    for name in set(COLUMNS[kind]) - {"reasons"}:
        said = [record[name] for record in records]
        if name == "verdict":
            assert table[name].tolist() == said
        else:
            np.testing.assert_allclose(table[name], np.array(said, dtype=float), rtol=1e-4, atol=1e-5)


def test_columns_that_a_model_does_not_have(run: Run, site: Site, tmp_path: Path) -> None:
    fitted("density").save(tmp_path / "model")
    strange_fruit().to_csv(tmp_path / "fruit.csv", index=False)
    for option, message in (
        ("--probabilities", "probabilities are those of classes; a CircuitDensity has none"),
        ("--explain", "explain says why rows are refused; a CircuitDensity refuses none"),
    ):
        done = run("predict", tmp_path / "model", tmp_path / "fruit.csv", "-o", tmp_path / "out.csv", option)
        assert (done.code, message in done.err) == (2, True), done.err
        done = run("score", tmp_path / "model", tmp_path / "fruit.csv", "-o", tmp_path / "out", option)
        assert (done.code, message in done.err) == (2, True), done.err
        query = f"model=density&{option.removeprefix('--')}=true"
        reply = site.ask(f"/v1/predict/batch?{query}", (tmp_path / "fruit.csv").read_bytes(), content_type=CSV)
        assert (reply.status, reply.error) == (422, message)
