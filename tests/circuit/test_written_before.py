"""Model files of the first format, written by the code before leaf families had files of their own, still load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import socratic

FILES = Path(__file__).parent / "written_before"
EXPECTED = json.loads((FILES / "expected.json").read_text())


@pytest.mark.parametrize("kind", ["circuit", "graph"])
def test_models_give_the_same_likelihoods(kind: str) -> None:
    rows = np.array(EXPECTED["x"], dtype=np.float64)
    model = socratic.load(FILES / f"{kind}.safetensors")
    found = model.log_likelihood(rows).detach().numpy()
    np.testing.assert_allclose(found, EXPECTED[kind], rtol=1e-5)


def test_classifiers_give_the_same_probabilities() -> None:
    pandas = pytest.importorskip("pandas")
    model = socratic.load(FILES / "classifier.safetensors")
    found = model.predict_proba(pandas.DataFrame(EXPECTED["table"]))
    np.testing.assert_allclose(found, EXPECTED["classifier"], rtol=1e-6)
