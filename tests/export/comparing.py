"""What ONNX Runtime says of rows, beside what Python says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from socratic.export.models import exported


def said_by_torch(model: Any, x: torch.Tensor, **options: Any) -> dict[str, np.ndarray]:
    """All outputs of a model before it is exported."""
    made = exported(model, **options)
    with torch.no_grad():
        return dict(zip(made.names, (part.numpy() for part in made(x)), strict=True))


def said_by_runtime(path: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs of an ONNX file."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    return dict(zip([part.name for part in session.get_outputs()], session.run(None, {"x": x}), strict=True))


def said_in_python(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """The same of a classifier, by its public methods."""
    answer = model.answer(rows)
    doubt = answer.uncertainty
    names = ("mean", "std", "entropy", "mutual_information", "p_value")
    return {
        "probabilities": model.predict_proba(rows),
        "log_likelihood": model.score_samples(rows),
        **{name: getattr(doubt, name) for name in names},
    }


def furthest(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The largest difference of each output; those that are infinite must be so in both."""
    differences = {}
    for name, values in found.items():
        right = expected[name][: len(values)]
        assert values.shape == right.shape, name
        there = np.isfinite(right)
        np.testing.assert_array_equal(np.isfinite(values), there, err_msg=name)
        differences[name] = float(np.abs(values[there] - right[there]).max(initial=0.0))
    return differences
