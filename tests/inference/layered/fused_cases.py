"""What the fused step is checked on: layers of many shapes, against the reference in float64.

``TRITON_INTERPRET=1 python -m tests.inference.layered.fused_cases`` checks all of them on a CPU. Triton decides when it
is imported whether it interprets, so that takes a process of its own.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

import socratic
from socratic.inference.layered import algebra
from socratic.inference.layered.fused import log_sum_layer
from socratic.inference.layered.sum_product import log_sums
from socratic.inference.layered.values import LogValues, Products


class Layer(NamedTuple):
    """The size of a layer, and what is particular about its values."""

    n_folds: int
    n_sums: int
    n_left: int
    n_right: int
    n_rows: int
    spread: float = 3.0
    dead: bool = False


LAYERS = [
    Layer(1, 1, 1, 1, 1),
    Layer(3, 5, 4, 3, 37),
    Layer(1, 20, 6, 5, 70),
    Layer(2, 10, 3, 8, 33),
    Layer(5, 33, 2, 2, 64),
    Layer(3, 4, 3, 3, 40, spread=40.0),
    Layer(3, 4, 3, 3, 40, dead=True),
]


def children(layer: Layer, device: str) -> tuple[Tensor, LogValues, LogValues]:
    """Weights, and both sides as views of one earlier layer, as a circuit has them."""
    random = torch.Generator().manual_seed(0)

    def side(n_nodes: int) -> LogValues:
        values = layer.spread * torch.randn(layer.n_folds + 2, n_nodes, layer.n_rows, generator=random)
        if layer.dead:
            values[1, :, 3], values[2, 0] = -math.inf, -math.inf
        scale = 1e4 * torch.randn(layer.n_folds + 2, 1, layer.n_rows, generator=random, dtype=torch.float64)
        return LogValues(*(part[1:-1].to(device) for part in LogValues.rescale(values, scale)))

    logits = torch.randn(layer.n_folds, layer.n_sums, layer.n_left * layer.n_right, generator=random)
    return torch.softmax(logits, -1).to(device), side(layer.n_left), side(layer.n_right)


def reference(weights: Tensor, left: LogValues, right: LogValues) -> LogValues:
    scale = left.log_scale + right.log_scale
    products = Products(left.log_value.double(), right.log_value.double(), scale)
    return LogValues.rescale(log_sums(weights.double(), products), scale)


def check(layer: Layer, device: str) -> None:
    """The kernel against the reference in float64."""
    weights, left, right = children(layer, device)
    found, expected = log_sum_layer(weights, left, right), reference(weights, left, right)
    assert found.log_value.dtype == torch.float32
    assert found.log_scale.dtype == torch.float64
    torch.testing.assert_close(found.log_value.double(), expected.log_value, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(found.log_scale, expected.log_scale, rtol=0.0, atol=2e-6)


@torch.no_grad()
def check_circuit() -> None:
    """A whole circuit on a CPU, every layer of which is left to the interpreter."""
    circuit = socratic.rat_spn(6, 2, n_sums=3, n_leaves=2, depth=2, n_repetitions=2)
    rows = [torch.randn(n_rows, 6) for n_rows in (1, 35)]
    expected = [copy.deepcopy(circuit).double().log_likelihood(x) for x in rows]
    with patch.object(algebra, "can_fuse", return_value=True) as asked:
        for x, value in zip(rows, expected, strict=True):
            torch.testing.assert_close(circuit.log_likelihood(x).double(), value, rtol=1e-5, atol=1e-5)
    assert asked.call_count == 2 * (len(circuit.inner_layers()) + len(circuit.root_branches()))


if __name__ == "__main__":
    for each in LAYERS:
        check(each, "cpu")
    check_circuit()
    print(len(LAYERS), "layers and a circuit agree")
