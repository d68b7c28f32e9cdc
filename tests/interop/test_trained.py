"""Circuits of a million parameters, trained on digits by the libraries they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import cross_entropy

import socratic
from tests.interop.evaluation import scores_against_sampling

pytestmark = pytest.mark.slow

CLASSES = 10


def digits() -> tuple[Tensor, Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    return torch.tensor(pixels / 8 - 1, dtype=torch.float32), torch.tensor(labels)


def train(module: Any, log_likelihoods: Callable[[Tensor], Tensor], n_steps: int, batch_size: int) -> None:
    """Some steps on cross-entropy and likelihood, by the library's own evaluation."""
    x, y = digits()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.03)
    losses = []
    for _ in range(n_steps):
        batch = torch.randperm(1500)[:batch_size]
        values = log_likelihoods(x[batch])
        loss = cross_entropy(values, y[batch]) - values.logsumexp(-1).mean() / x.shape[1]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 0.1


def spflow_model(kind: str) -> tuple[Any, Callable[[Tensor], Tensor], Callable[[Any], Any]]:
    from spflow.modules.leaves import Normal
    from spflow.zoo.einet import Einet
    from spflow.zoo.rat import RatSPN

    np.random.seed(0)  # noqa: NPY002 - SPFlow draws the sizes of leaf regions from it
    shape = (64, 20, 5)
    loc, scale = 0.7 * torch.randn(shape), 0.5 + 0.5 * torch.rand(shape)
    leaves = Normal(list(range(64)), 20, 5, loc=loc, scale=scale, validate_args=False)
    if kind == "einet":
        sizes = {"num_classes": CLASSES, "num_sums": 20, "num_leaves": 20, "depth": 5, "num_repetitions": 5}
        model: Any = Einet([leaves], layer_type="einsum", **sizes)
    else:
        sizes = {"n_root_nodes": CLASSES, "n_region_nodes": 20, "depth": 5, "num_repetitions": 5}
        model = RatSPN([leaves], outer_product=True, **sizes)
    return model, lambda x: model.root_node.inputs.log_likelihood(x).flatten(1), socratic.interop.from_spflow


def cirkit_model(
    region_graph: str, layer: str, n_sums: int
) -> tuple[Any, Callable[[Tensor], Tensor], Callable[[Any], Any]]:
    from cirkit.pipeline import PipelineContext
    from cirkit.templates import data_modalities

    symbolic = data_modalities.image_data(
        (1, 8, 8),
        region_graph,
        input_layer="gaussian",
        num_input_units=n_sums,
        sum_product_layer=layer,
        num_sum_units=n_sums,
        num_classes=CLASSES,
    )
    model = PipelineContext(backend="torch", semiring="lse-sum", fold=True, optimize=True).compile(symbolic)
    return model, lambda x: model(x).squeeze(1), socratic.interop.from_cirkit


@pytest.mark.parametrize(
    ("build", "n_steps", "batch_size", "dropout"),
    [
        (lambda: spflow_model("einet"), 30, 64, 0.1),
        (lambda: spflow_model("rat"), 12, 16, 0.1),
        (lambda: cirkit_model("quad-tree-2", "cp", 100), 30, 64, 0.02),
        (lambda: cirkit_model("random-binary-tree", "tucker", 26), 30, 64, 0.05),
    ],
    ids=["spflow-einet", "spflow-rat", "cirkit-cp", "cirkit-tucker"],
)
def test_a_trained_circuit_is_the_same_here_and_its_moments_agree_with_sampling(
    build: Callable[[], Any], n_steps: int, batch_size: int, dropout: float
) -> None:
    model, log_likelihoods, read = build()
    assert sum(parameter.numel() for parameter in model.parameters()) > 1_000_000
    train(model, log_likelihoods, n_steps, batch_size)
    model.eval()
    circuit = read(model)
    assert isinstance(circuit, socratic.Circuit)
    assert circuit.n_parameters > 1_000_000
    x, _ = digits()
    x = x[1500:1600].clone()
    with torch.no_grad():
        expected, found = log_likelihoods(x), circuit.log_likelihood(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)
    for masks in ("edge", "unit"):
        of_means, of_variances, n_resolved = scores_against_sampling(
            circuit, x[:3], dropout=dropout, masks=masks, n_batches=40, per_batch=50
        )
        assert n_resolved == 3 * CLASSES
        assert of_means < 4
        assert of_variances < 4
