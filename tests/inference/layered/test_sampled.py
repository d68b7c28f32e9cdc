"""Passes under masks and with drawn weights: several in one walk are those of single walks."""

from __future__ import annotations

import pytest
import torch

import socratic
from socratic import memory
from socratic.circuit.circuit import Weights
from socratic.inference.dropout import Dropout
from socratic.inference.engine import MaskDraw
from socratic.inference.kinds import engine_of
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.sum_product import log_sums_with_zeros
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import walk
from socratic.inference.passes import independent_passes
from socratic.memory import Budget
from socratic.structure.region_graph import Partition, Region, RegionGraph

KINDS = ["all-pairs", "element-wise", "uneven"]
MASKS = pytest.mark.parametrize("masks", ["edge", "unit"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def make_circuit(kind: str, dtype: torch.dtype) -> socratic.Circuit:
    if kind != "uneven":
        product = {"product": kind}
        return socratic.rat_spn(7, 3, n_sums=4, n_leaves=4, depth=2, n_repetitions=3, **product).to(dtype)
    scopes = [(0, 1, 2), (0,), (1, 2), (1,), (2,), (0, 1, 2)]  # a leaf meets a sum, and one repetition has no products
    partitions = (Partition(0, (1, 2)), Partition(2, (3, 4)), Partition(0, (5,)))
    graph = RegionGraph(3, tuple(map(Region, scopes)), partitions)
    return socratic.Circuit(graph, n_classes=2, n_sums=4, n_leaves=4).to(dtype)


def rows_of(circuit: socratic.Circuit, n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, circuit.n_features, generator=generator).to(circuit.dtype)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Up to rounding: torch's products of matrices may depend on how many there are."""
    error = 8.0 * torch.finfo(expected.dtype).eps
    torch.testing.assert_close(found, expected, rtol=error, atol=error)


@MASKS
@DTYPES
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_weights_are_0_or_what_they_were(kind: str, root: bool, masks: str, dtype: torch.dtype) -> None:
    """Against weights that are filled in, bit by bit."""
    circuit = make_circuit(kind, dtype)
    rows = rows_of(circuit, 5)
    evaluation = engine_of(circuit).masked(rows, Dropout(0.3, masks, root))
    draws = list(independent_passes(evaluation.mask_shapes, 0.3, 4, torch.Generator().manual_seed(1)))
    weights, n_layers = circuit.weights(), len(circuit.inner_layers())
    leaves = LogValues.rescale(circuit.leaves.log_density(rows))
    for dropped in draws:
        parts = [*weights.layers, *weights.roots]
        filled = [part.masked_fill(mask, 0.0) for part, mask in zip(parts, dropped, strict=False)]
        filled += parts[len(dropped) :]
        masked = Weights(filled[:n_layers], filled[n_layers:])
        expected = walk(circuit, leaves, masked, LogAlgebra(log_sums_with_zeros)).of_classes(dtype)
        (found,) = evaluation.log_likelihood([MaskDraw(dropped, None)])
        assert torch.equal(found, expected)


@DTYPES
@pytest.mark.parametrize("n_rows", [0, 1, 20])
@pytest.mark.parametrize("settings", [{"leaf_dropout": 0.2}, {"balanced": True, "masks": "unit", "root_dropout": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_passes_do_not_depend_on_how_many_are_taken_up_together(
    kind: str, settings: dict[str, object], n_rows: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuit = make_circuit(kind, dtype)
    x = rows_of(circuit, n_rows)
    found = {}
    for size in (1, 20_000, 2**40):  # one, a few, or all at a time
        monkeypatch.setattr(memory, "_PASS_BYTES", Budget(size, size))
        found[size] = list(socratic.sample_log_likelihoods(circuit, x, dropout=0.3, n_passes=11, **settings))
        assert len(found[size]) == 11
    for single, few, together in zip(*found.values(), strict=True):
        close(few, single)
        close(together, single)


@DTYPES
@pytest.mark.parametrize("kind", KINDS)
def test_nor_do_drawn_weights(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = make_circuit(kind, dtype)
    x = rows_of(circuit, 3)
    visits = tuple(torch.full(shape, 5.0, dtype=torch.float64) for shape in engine_of(circuit).sum_shapes)
    doubt = socratic.WeightPosterior(visits)
    found = []
    for size in (1, 2**40):
        monkeypatch.setattr(memory, "_PASS_BYTES", Budget(size, size))
        found.append(torch.stack(list(socratic.passes(circuit, x, doubt, n_passes=5))))
    close(*found)
