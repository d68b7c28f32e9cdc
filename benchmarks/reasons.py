"""Reasons: the surprise of every column in one pass, beside one marginal query for each of them.

``python -m benchmarks.reasons [--device cuda]`` prints the table. With SHAP installed (the extra ``benchmarks``)
also its KernelExplainer of the same model. Float32; the paper's size (S = I = 20, D = R = 5,
C = 10) for rows of 784 columns, a spatial tree for images of 28 x 28, and a learned graph for a table of 64 columns.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import socratic
from benchmarks.timing import median_seconds, ratio

BATCH = 200

Row = tuple[str, str]


def by_marginals(model: socratic.Circuit | socratic.Graph, x: torch.Tensor) -> torch.Tensor:
    """Surprises (N, V) from V + 1 log-likelihoods."""
    whole = socratic.marginal_log_likelihood(model, x)
    found = torch.empty_like(x)
    for column in range(x.shape[1]):
        rest = x.clone()
        rest[:, column] = torch.nan
        found[:, column] = socratic.marginal_log_likelihood(model, rest) - whole
    return found


@torch.no_grad()
def rows_of(name: str, model: socratic.Circuit | socratic.Graph, x: torch.Tensor) -> list[Row]:
    """Times of one model."""
    device = model.device
    forward = median_seconds(lambda: socratic.marginal_log_likelihood(model, x), device, repeats=5)
    together = median_seconds(lambda: socratic.column_surprise(model, x), device, repeats=3, warm_up=1)
    one_by_one = median_seconds(lambda: by_marginals(model, x), device, repeats=1, warm_up=0)
    difference = float((socratic.column_surprise(model, x) - by_marginals(model, x)).abs().max())
    return [
        (f"{name}: log-likelihood, batch {BATCH}", f"{forward * 1e3:.1f} ms"),
        (f"{name}: surprise of {x.shape[1]} columns", f"{together * 1e3:.1f} ms, {together / forward:.1f} x"),
        (f"{name}: by {x.shape[1]} marginals", f"{one_by_one:.2f} s, {ratio(one_by_one, together, difference, 0.01)}"),
    ]


def shap_rows(name: str, x: np.ndarray, n_rows: int = 5, n_background: int = 50) -> list[Row]:
    """``explain`` of a table, beside SHAP's explainer of any model, with its default settings and on log p(x)."""
    shap = importlib.import_module("shap")
    model = socratic.CircuitOutlierDetector(random_state=0).fit(x)
    explainer = shap.KernelExplainer(model.score_samples, shap.sample(x, n_background, random_state=0))
    cpu = torch.device("cpu")
    ours = median_seconds(lambda: model.explain(x[:n_rows]), cpu, repeats=5)
    theirs = median_seconds(lambda: explainer.shap_values(x[:n_rows], silent=True), cpu, repeats=1, warm_up=0)
    return [
        (f"{name}: explain, {n_rows} rows of {x.shape[1]} columns", f"{ours * 1e3:.1f} ms"),
        (f"{name}: SHAP's KernelExplainer, {n_background} as background", f"{theirs:.1f} s, {theirs / ours:.0f} x"),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    device = torch.device(parser.parse_args().device)
    torch.manual_seed(0)
    x = torch.randn(BATCH, 784, device=device)
    random = socratic.rat_spn(784, 10, n_sums=20, n_leaves=20, depth=5, n_repetitions=5).to(device)
    spatial = socratic.spatial_spn(28, 28, n_classes=10, n_sums=20, n_leaves=20, patch_size=2).to(device)
    digits = torch.as_tensor(load_digits().data, dtype=torch.float32)
    graph = socratic.Graph(socratic.learn_spn(digits.numpy(), "gaussian")).to(device)
    for name, value in [
        *rows_of("random trees", random, x),
        *rows_of("spatial tree", spatial, x),
        *rows_of(f"learned graph of {graph.n_nodes:,} nodes", graph, digits[:BATCH].to(device)),
    ]:
        print(f"| {name} | {value} |")
    if importlib.util.find_spec("shap") is not None:
        for table, load in (("wine", load_wine), ("breast cancer", load_breast_cancer)):
            for name, value in shap_rows(table, load(return_X_y=True)[0]):
                print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
