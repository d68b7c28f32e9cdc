"""Circuits and graphs: what is exported says what the queries say, for any number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import socratic
from socratic import Dropout
from socratic.export import export_onnx, export_program
from socratic.export.models import exported
from tests.export.comparing import furthest, said_by_runtime, said_by_torch

PRIOR = (0.5, 0.3, 0.2)
DTYPES = (torch.float32, torch.float64)


def circuit_of(dtype: torch.dtype = torch.float32) -> socratic.Circuit:
    families = ["gaussian", "bernoulli", "poisson", "categorical", "gaussian", "gamma"]
    leaves = [socratic.families.Categorical(4) if name == "categorical" else name for name in families]
    return socratic.rat_spn(n_features=6, n_classes=3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, leaf=leaves).to(
        dtype
    )


def rows_of(n_rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    rng = np.random.default_rng(n_rows)
    x = np.column_stack(
        [
            rng.normal(size=n_rows),
            rng.integers(2, size=n_rows),
            rng.poisson(3, size=n_rows),
            rng.integers(4, size=n_rows),
            rng.normal(size=n_rows) * 30,
            rng.gamma(2, size=n_rows) + 0.1,
        ]
    )
    x[rng.random(x.shape) < 0.2] = np.nan
    x[0] = np.nan
    return torch.as_tensor(x, dtype=dtype)


def expected_of(circuit: Any, x: torch.Tensor, doubt: Any) -> dict[str, np.ndarray]:
    with torch.no_grad():
        log_likelihood = circuit.log_likelihood(x)
        moments = socratic.moments(circuit, x, doubt)
        posterior = moments.posterior(PRIOR)
        found = {
            "class_log_likelihood": log_likelihood,
            "probabilities": torch.softmax(log_likelihood + torch.log(torch.tensor(PRIOR, dtype=x.dtype)), 1),
            "log_mean": moments.log_mean,
            "relative_covariance": moments.relative_covariance,
            "mean": posterior.mean,
            "std": posterior.std,
            "entropy": posterior.entropy,
            "mutual_information": posterior.mutual_information,
            "log_std": posterior.log_density_std,
        }
    return {name: value.numpy() for name, value in found.items() if value is not None}


def doubt_of(circuit: Any, kind: str) -> Any:
    if kind == "weights":
        return socratic.weight_posterior(circuit, rows_of(40, circuit.dtype), np.arange(40) % 3)
    return Dropout(0.2, kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["weights", "edge", "unit"])
def test_modules_say_what_queries_say(kind: str, dtype: torch.dtype) -> None:
    circuit = circuit_of(dtype)
    doubt, x = doubt_of(circuit, kind), rows_of(50, dtype)
    found = said_by_torch(circuit, x, class_prior=PRIOR, doubt=doubt)
    assert max(furthest(found, expected_of(circuit, x, doubt)).values()) < 1e-6


def test_there_are_no_moments_without_doubt() -> None:
    assert exported(circuit_of()).names == ("class_log_likelihood", "probabilities")
    with pytest.raises(ValueError, match="'std' cannot be exported: moments are over what is in doubt: give doubt; "):
        exported(circuit_of()).choose(["std"])


def test_names_are_checked() -> None:
    made = exported(circuit_of())
    with pytest.raises(ValueError, match="'mode' cannot be exported: there is no such output of this model; what"):
        made.choose(["mode"])
    with pytest.raises(ValueError, match="outputs must be a sequence of names; got the text 'probabilities'"):
        made.choose("probabilities")
    with pytest.raises(ValueError, match="outputs must name at least one output"):
        made.choose([])
    with pytest.raises(ValueError, match=r"path must end in \.onnx; got 'model.pt'"):
        export_onnx(circuit_of(), "model.pt")
    with pytest.raises(ValueError, match=r"model must be a circuit, a graph, or a fitted .*; got a str"):
        export_onnx("model", "model.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("as_graph", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_runtime_says_what_queries_say(dtype: torch.dtype, as_graph: bool, tmp_path: Path) -> None:
    circuit: Any = circuit_of(dtype)
    circuit = circuit.to_graph() if as_graph else circuit
    doubt = doubt_of(circuit, "weights")
    export_onnx(circuit, tmp_path / "model.onnx", class_prior=PRIOR, doubt=doubt)
    for n_rows in (1, 7, 1000):
        x = rows_of(n_rows, dtype)
        expected = expected_of(circuit, x, doubt)
        found = said_by_runtime(tmp_path / "model.onnx", x.numpy())
        # A root turns rounding of 1e-17 into 1e-9, where nothing is known of a row and there is no variance.
        for part in (found, expected):
            part["log_std"] **= 2
        scale = max(1.0, *(float(np.abs(part[np.isfinite(part)]).max()) for part in expected.values()))
        assert max(furthest(found, expected).values()) < (1e-9 if dtype == torch.float64 else 1e-4 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["edge", "unit"])
def test_programs_say_what_queries_say(kind: str) -> None:
    circuit = circuit_of()
    doubt = doubt_of(circuit, kind)
    program = export_program(circuit, ["log_mean", "std"], class_prior=PRIOR, doubt=doubt)
    for n_rows in (1, 7):
        x = rows_of(n_rows)
        found = dict(zip(("log_mean", "std"), (part.numpy() for part in program.module()(x)), strict=True))
        assert max(furthest(found, expected_of(circuit, x, doubt)).values()) < 1e-5


@pytest.mark.slow
def test_weights_of_zero_keep_sums_that_underflow(tmp_path: Path) -> None:
    circuit = socratic.rat_spn(n_features=4, n_classes=2, n_sums=3, n_leaves=3, depth=1, n_repetitions=1)
    with torch.no_grad():
        circuit.root_branches()[0].logits[:, 0, ::2] = -torch.inf
    x = 300.0 * torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    expected = circuit.log_likelihood(x).detach().numpy()
    assert (np.abs(np.diff(expected)) > 800).any()  # more than float64 could hold relative to the best
    export_onnx(circuit, tmp_path / "model.onnx")
    found = said_by_runtime(tmp_path / "model.onnx", x.numpy())["class_log_likelihood"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
