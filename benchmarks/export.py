"""Latency of ONNX Runtime beside that of torch, one thread each, after a check that they agree.

``python -m benchmarks.export`` prints the ratios; below 1 the file is faster.
"""

from __future__ import annotations

import statistics
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

import socratic
from benchmarks.timing import seconds_in_turn
from socratic.export import export_onnx

OUTPUTS = ("probabilities", "log_likelihood")
BATCHES = (1, 100, 1000)
_MOST = 1e-4


def models() -> dict[str, Any]:
    """Classifiers of digits of several structures."""
    x, y = load_digits(return_X_y=True)
    sizes = {"depth": 3, "n_repetitions": 3, "n_sums": 10, "n_epochs": 2}
    settings: dict[str, dict[str, Any]] = {
        "forest": {},
        "kernels": {"structure": "kernels"},
        "random trees": {"structure": "random", **sizes},
    }
    return {name: socratic.CircuitClassifier(random_state=0, **each).fit(x, y) for name, each in settings.items()}


def ratios(model: Any, x: np.ndarray, path: Path) -> dict[int, tuple[float, float]]:
    """Milliseconds of ONNX Runtime, and its ratio to torch, for batches of each size."""
    import onnxruntime

    export_onnx(model, path, OUTPUTS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options)
    (codes,) = model._batches(x)
    found = {}
    for size in BATCHES:
        rows = codes[:size]

        def by_torch(rows: torch.Tensor = rows) -> tuple[np.ndarray, np.ndarray]:
            return model._shares(rows), model._log_density(rows, model._log_joint(rows))

        def by_runtime(rows: torch.Tensor = rows) -> Any:
            return session.run(OUTPUTS, {"x": rows.numpy()})

        for ours, theirs in zip(by_torch(), by_runtime(), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=_MOST, atol=_MOST)
        times = seconds_in_turn([by_torch, by_runtime], torch.device("cpu"))
        torch_time, runtime_time = map(statistics.median, times)
        found[size] = (1e3 * runtime_time, runtime_time / torch_time)
    return found


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    x = load_digits(return_X_y=True)[0]
    print("| model | " + " | ".join(f"{size} rows" for size in BATCHES) + " |")
    print("| --- |" + " --- |" * len(BATCHES))
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models().items():
            each = ratios(model, x, Path(folder) / "model.onnx")
            print(f"| {name} | " + " | ".join(f"{ms:.2g} ms ({ratio:.2f} x)" for ms, ratio in each.values()) + " |")


if __name__ == "__main__":
    main()
