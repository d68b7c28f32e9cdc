"""The encoding as plain data: what the documentation makes of it is what the library makes of rows."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from socratic import CircuitClassifier
from socratic.export import encoding_of
from socratic.tables.inputs import encode_cells
from tests.test_docs import ROOT, python_blocks, run

LEAVES = {"visits": "poisson", "wait": "gamma", "left": "exponential", "tries": "binomial", "share": "histogram"}


def familiar(n_rows: int) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, n_rows),
            "income": np.exp(rng.normal(9, 1.5, n_rows)),  # bent
            "always": np.full(n_rows, 2.5),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "grade": rng.choice([1.0, 2.0, 3.5], n_rows).astype(object),
            "member": rng.random(n_rows) < 0.3,
            "switch": rng.choice([0.0, 7.0], n_rows),
            "visits": rng.poisson(4, n_rows),
            "wait": rng.gamma(2, 3, n_rows),
            "left": rng.exponential(3, n_rows),
            "tries": rng.integers(6, size=n_rows),
            "share": rng.random(n_rows),
            "id": [f"row {place}" for place in range(n_rows)],  # left out
        }
    )
    frame.loc[3, "age"] = np.nan
    frame.loc[4, "colour"] = None
    return frame


@pytest.fixture(scope="module")
def model() -> CircuitClassifier:
    frame = familiar(120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = CircuitClassifier(
            structure="random", depth=1, n_repetitions=1, n_sums=2, n_epochs=1, leaf=LEAVES, calibration_fraction=0.0
        )
        return fitted.fit(frame, np.arange(120) % 2)


@pytest.fixture(scope="module")
def documented() -> dict[str, Any]:
    """The encoder of the page on exporting, which knows nothing of the library."""
    page = ROOT / "docs" / "export.md"
    blocks = [block for block in python_blocks(page.read_text(encoding="utf-8")) if "def encode_cell" in block.code]
    assert "socratic" not in blocks[0].code
    return run(page, blocks)


def test_the_documented_encoder_is_right(model: CircuitClassifier, documented: dict[str, Any]) -> None:
    rows = familiar(40)
    strange = {
        "age": [1e9, -1e12, 1e30, 0.0],
        "income": [-5.0, 0.0, 1e30, 1e-30],
        "always": [2.5, 2.5 + 1e-9, 2.6, -2.5],
        "colour": ["RED", "pink", " red ", "red"],
        "grade": [1, "2.0", "3.50", 4],
        "member": ["TRUE", 0, "yes", False],
        "switch": [7, 3.0, "7.0", 0],
        "visits": [2.5, -1, 0, 1000],
        "wait": [0.0, -1.0, 1e-12, 1e12],
        "left": [0.0, -1.0, 1e-12, 1e12],
        "tries": [5, 6, -1, 2.5],
        "share": [-3.0, 2.0, 0.0, 1.0],
        "id": ["row 1", "new", None, ""],
    }
    rows = pd.concat([rows.astype(object), pd.DataFrame(strange, dtype=object)], ignore_index=True)
    encoding = json.loads(json.dumps(encoding_of(model), allow_nan=False))
    found = np.array(documented["encode"](encoding, rows.to_dict("records")), dtype=encoding["input"]["type"])
    for place, column in enumerate(encoding["columns"]):
        raw = rows[column["name"]]
        numbers = raw if column["categories"] is not None else pd.to_numeric(raw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = encode_column(model, place, numbers)
        np.testing.assert_array_equal(found[:, place], expected, err_msg=column["name"])
    assert np.isinf(found).any(0).sum() >= 9
    assert encoding["columns"][1]["bend"] is not None
    assert encoding["columns"][2]["constant"]
    assert encoding["columns"][12]["left_out"]


def encode_column(model: CircuitClassifier, place: int, values: Any) -> np.ndarray:
    """How the model encodes a column, among familiar values of the others."""
    frame = familiar(120).iloc[np.arange(len(values)) % 120].reset_index(drop=True)
    frame[frame.columns[place]] = values
    return encode_cells(model, frame)[:, place].numpy()


def test_the_encoding_says_what_a_program_reads(model: CircuitClassifier) -> None:
    encoding = encoding_of(model, ["probabilities"])
    assert encoding["input"] == {"name": "x", "type": "float64", "shape": ["rows", 13]}
    assert encoding["outputs"] == {"probabilities": "p(class | x), (N, C)"}
    assert (encoding["classes"], encoding["rejection_rate"]) == ([0, 1], 0.05)
    assert [column["name"] for column in encoding["columns"]] == list(familiar(5).columns)
    assert encoding_of(model.circuit_)["input"]["shape"] == ["rows", 13]
