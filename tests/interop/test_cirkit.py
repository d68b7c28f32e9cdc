"""Circuits of cirkit, leaf families and layer kinds one by one, against cirkit itself in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from cirkit.backend.torch.queries import IntegrateQuery
from cirkit.pipeline import PipelineContext
from cirkit.symbolic import functional
from cirkit.symbolic.circuit import Circuit as SymbolicCircuit
from cirkit.symbolic.layers import GaussianLayer, SumLayer
from cirkit.templates import data_modalities
from cirkit.templates.region_graph import RandomBinaryTree
from cirkit.templates.utils import Parameterization, name_to_input_layer_factory, parameterization_to_factory
from cirkit.utils.scope import Scope
from torch import Tensor

import socratic
from socratic.interop.cirkit import read_cirkit
from socratic.interop.nodes import as_nodes
from tests.oracles import enumerate_masks


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    """cirkit takes the logarithms of binomial coefficients in the default type."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def compiled(symbolic: SymbolicCircuit, *, fold: bool = True, optimize: bool = True) -> Any:
    return PipelineContext(backend="torch", semiring="lse-sum", fold=fold, optimize=optimize).compile(symbolic)


def image_circuit(region_graph: str, layer: str, family: str = "gaussian", **settings: Any) -> SymbolicCircuit:
    sizes: dict[str, Any] = {"num_input_units": 3, "num_sum_units": 3, "num_classes": 2}
    return data_modalities.image_data(
        (1, 3, 3), region_graph, input_layer=family, sum_product_layer=layer, **{**sizes, **settings}
    )


def rows(family: str = "gaussian", n_features: int = 9) -> Tensor:
    # Near the leaves: where every product underflows, cirkit puts a floor under its values.
    return torch.randn(5, n_features) if family == "gaussian" else torch.randint(100, 156, (5, n_features)).double()


def assert_same(imported: socratic.Circuit | socratic.Graph, circuit: Any, x: Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(imported.log_likelihood(x), circuit(x).squeeze(1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("layer", ["cp", "cp-t", "tucker"])
def test_trees_become_tensor_circuits(layer: str, optimize: bool, fold: bool) -> None:
    """Folded or not, with Hadamard, Kronecker and sum layers or with CP and Tucker layers."""
    circuit = compiled(image_circuit("quad-tree-2", layer), fold=fold, optimize=optimize)
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    assert imported.n_classes == 2
    assert_same(imported, circuit, rows())


@pytest.mark.parametrize("family", ["gaussian", "categorical", "binomial"])
@pytest.mark.parametrize("region_graph", ["random-binary-tree", "linear-tree"])
def test_leaf_families(family: str, region_graph: str) -> None:
    circuit = compiled(image_circuit(region_graph, "tucker", family))
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    assert_same(imported, circuit, rows(family))


def test_more_leaves_than_sums() -> None:
    circuit = compiled(image_circuit("quad-tree-2", "cp", num_input_units=5))
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    assert imported.leaves.n_nodes == 5
    assert_same(imported, circuit, rows())


@pytest.mark.parametrize(("region_graph", "layer"), [("quad-graph", "cp"), ("quad-tree-4", "cp-t")])
def test_other_shapes_become_graphs(region_graph: str, layer: str) -> None:
    """Regions with several partitions, and products of four."""
    circuit = compiled(image_circuit(region_graph, layer))
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Graph)
    assert imported.dtype == torch.float64
    assert_same(imported, circuit, rows())


@pytest.mark.parametrize("mixing", [True, False])
@pytest.mark.parametrize("depth", [None, 1])
def test_repetitions(mixing: bool, depth: int | None) -> None:
    """Mixed by one weight for each class and repetition, or by a sum over all classes of all repetitions."""
    weight = parameterization_to_factory(Parameterization(activation="softmax", initialization="normal"))
    mixing_weight = None
    if mixing:
        from cirkit.symbolic.parameters import mixing_weight_factory

        def mixing_weight(shape: tuple[int, ...]) -> Any:
            return mixing_weight_factory(shape, param_factory=weight)

    symbolic = RandomBinaryTree(6, depth=depth, num_repetitions=3).build_circuit(
        input_factory=name_to_input_layer_factory("gaussian"),
        sum_product="tucker",
        sum_weight_factory=weight,
        nary_sum_weight_factory=mixing_weight,
        num_input_units=3,
        num_sum_units=3,
        num_classes=2,
        factorize_multivariate=True,
    )
    circuit = compiled(symbolic)
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    assert imported.region_graph.n_repetitions == 3
    assert_same(imported, circuit, rows(n_features=6))


def test_missing_values_are_integrated_as_cirkit_does() -> None:
    circuit = compiled(image_circuit("quad-tree-2", "cp", "categorical"))
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    x = rows("categorical")
    missing = [1, 4, 5]
    with torch.no_grad():
        expected = IntegrateQuery(circuit)(x.long(), integrate_vars=Scope(missing)).squeeze(1)
        x[:, missing] = torch.nan
        torch.testing.assert_close(imported.log_likelihood(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_every_sum_has_its_masks(masks: str) -> None:
    """The tensors of a CP circuit have the moments of its nodes, all masks enumerated: no sum is lost or added."""
    symbolic = data_modalities.image_data(
        (1, 1, 3),
        "linear-tree",
        input_layer="gaussian",
        num_input_units=2,
        sum_product_layer="cp",
        num_sum_units=2,
        num_classes=2,
    )
    circuit = compiled(symbolic)
    imported = socratic.interop.from_cirkit(circuit)
    assert isinstance(imported, socratic.Circuit)
    x = [[0.3, -0.2, 0.5]]
    exact = enumerate_masks(as_nodes(read_cirkit(circuit)), x[0], 0.2, masks, root_dropout=False)
    moments = socratic.tdi(imported, x, dropout=0.2, masks=masks)
    torch.testing.assert_close(moments.log_mean[0].exp().detach(), torch.tensor(exact.mean))
    torch.testing.assert_close(moments.relative_covariance[0].detach(), torch.tensor(exact.relative_covariance))


def test_what_is_not_supported_is_named() -> None:
    free = Parameterization(activation="none", initialization="normal")
    circuit = compiled(image_circuit("quad-tree-2", "cp", sum_weight_param=free))
    with pytest.raises(ValueError, match=r"TorchSumLayer \(layer 1\) has weights that are negative or do not add up"):
        socratic.interop.from_cirkit(circuit)
    circuit = compiled(image_circuit("quad-tree-2", "cp", "embedding"))
    with pytest.raises(ValueError, match=r"TorchEmbeddingLayer \(layer 0\) is not supported; supported are TorchGauss"):
        socratic.interop.from_cirkit(circuit)
    logits = {"logits": Parameterization(activation="none", initialization="normal")}
    circuit = compiled(image_circuit("quad-tree-2", "cp", "categorical", input_params=logits))
    with pytest.raises(ValueError, match=r"TorchCategoricalLayer \(layer 0\) has probabilities that do not add up"):
        socratic.interop.from_cirkit(circuit)
    with pytest.raises(TypeError, match=r"must be a compiled cirkit circuit; got Circuit .*compile a symbolic one"):
        socratic.interop.from_cirkit(image_circuit("quad-tree-2", "cp"))
    squared = functional.multiply(image_circuit("quad-tree-2", "cp"), image_circuit("quad-tree-2", "cp"))
    with pytest.raises(ValueError, match=r"TorchGaussianLayer \(layer 0\) has a log-partition of its own"):
        socratic.interop.from_cirkit(compiled(squared))
    two = functional.concatenate([image_circuit("quad-tree-2", "cp"), image_circuit("quad-tree-2", "cp")])
    with pytest.raises(ValueError, match="must have one output layer, with a unit for each class; got 2"):
        socratic.interop.from_cirkit(compiled(two))
    deviations = {"stddev": Parameterization(activation="none", initialization="normal")}
    circuit = compiled(image_circuit("quad-tree-2", "cp", input_params=deviations))
    with pytest.raises(ValueError, match=r"TorchGaussianLayer \(layer 0\) has standard deviations that are not pos"):
        socratic.interop.from_cirkit(circuit)
    circuit = compiled(image_circuit("quad-tree-2", "cp"))
    for parameter in circuit.parameters():
        parameter.data.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"TorchGaussianLayer \(layer 0\) has a parameter 'mean' that does not hold"):
        socratic.interop.from_cirkit(circuit)


def test_a_circuit_that_is_no_distribution_is_refused() -> None:
    first, second = GaussianLayer(Scope([0]), 2), GaussianLayer(Scope([1]), 2)
    mixed = SumLayer(2, 1, arity=2)
    symbolic = SymbolicCircuit([first, second, mixed], {mixed: [first, second]}, [mixed])
    with pytest.raises(ValueError, match="must be smooth and decomposable"):
        socratic.interop.from_cirkit(compiled(symbolic))


def test_log_odds_of_binomial_leaves() -> None:
    free = {"logits": Parameterization(activation="none", initialization="normal")}
    circuit = compiled(image_circuit("quad-tree-2", "tucker", "binomial", input_params=free))
    assert_same(socratic.interop.from_cirkit(circuit), circuit, rows("binomial"))
