"""Modules of SPFlow, leaf families and layer kinds one by one, against SPFlow itself in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from spflow.learn import learn_spn
from spflow.modules import leaves
from spflow.modules.einsum import EinsumLayer, LinsumLayer
from spflow.modules.ops.split import SplitMode
from spflow.modules.products import ElementwiseProduct, OuterProduct, Product
from spflow.modules.sums import ElementwiseSum, RepetitionMixingLayer, Sum
from spflow.zoo.einet import Einet
from spflow.zoo.rat import RatSPN
from torch import Tensor

import socratic
from socratic.circuit import Leaf
from socratic.circuit import Product as ProductNode
from socratic.circuit import Sum as SumNode
from tests.oracles import topological

V = 9


@pytest.fixture(autouse=True)
def same_structures() -> None:
    """SPFlow draws the sizes of leaf regions from NumPy's global generator."""
    np.random.seed(0)  # noqa: NPY002


def normal(scope: list[int] | int, n_leaves: int = 3, n_repetitions: int = 1) -> leaves.Normal:
    shape = (1 if isinstance(scope, int) else len(scope), n_leaves, n_repetitions)
    return leaves.Normal(scope, n_leaves, n_repetitions, loc=torch.randn(shape), scale=0.5 + torch.rand(shape))


def gaussian_rows(n_rows: int = 6) -> Tensor:
    x = torch.randn(n_rows, V, dtype=torch.float64)
    x[0, 3] = x[1, :] = x[2, 0] = torch.nan
    return x


def values_of(module: Any, x: Tensor) -> Tensor:
    """SPFlow's log-likelihoods (N, C)."""
    with torch.no_grad():
        values: Tensor = module.log_likelihood(x).flatten(1)
    return values


def assert_same(imported: socratic.Circuit | socratic.Graph, module: Any, x: Tensor) -> None:
    found = imported.log_likelihood(x[:, : imported.n_features]).detach()
    torch.testing.assert_close(found, values_of(module, x), rtol=1e-9, atol=1e-9)


def einet(leaf_modules: list[Any], **settings: Any) -> Einet:
    sizes: dict[str, Any] = {"num_classes": 3, "num_sums": 4, "num_leaves": 3, "depth": 3, "num_repetitions": 2}
    return Einet(leaf_modules, **{**sizes, **settings}).double()


@pytest.mark.parametrize(
    "settings",
    [
        {"layer_type": "einsum"},
        {"layer_type": "linsum", "num_leaves": 5},
        {"layer_type": "einsum", "num_repetitions": 1},
        {"layer_type": "einsum", "num_leaves": 2, "depth": 1},
        {"layer_type": "linsum", "depth": 0},
        {"layer_type": "einsum", "structure": "bottom-up"},
        {"layer_type": "linsum", "structure": "bottom-up", "depth": 2},
    ],
)
def test_an_einet_becomes_a_tensor_circuit(settings: dict[str, Any]) -> None:
    n_leaves, n_repetitions = settings.get("num_leaves", 3), settings.get("num_repetitions", 2)
    module = einet([normal(list(range(V)), n_leaves, n_repetitions)], **settings)
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert circuit.n_classes == 3
    assert_same(circuit, module.root_node.inputs, gaussian_rows())


@pytest.mark.parametrize("outer_product", [True, False])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_rat_spn_becomes_a_tensor_circuit(outer_product: bool, depth: int) -> None:
    module = RatSPN(
        [normal(list(range(V)), 4, 3)],
        n_root_nodes=2,
        n_region_nodes=4,
        num_repetitions=3,
        depth=depth,
        outer_product=outer_product,
    ).double()
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert circuit.region_graph.n_repetitions == 3
    assert_same(circuit, module.root_node.inputs, gaussian_rows())


def test_the_prior_of_the_classes_is_told_apart() -> None:
    module = einet([normal(list(range(V)), 3, 2)])
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    prior = socratic.interop.class_prior(module)
    x = gaussian_rows()
    posterior = torch.softmax(circuit.log_likelihood(x) + prior.log(), dim=-1)
    torch.testing.assert_close(posterior, module.log_posterior(x).exp(), rtol=1e-9, atol=1e-12)
    mixture = socratic.interop.from_spflow(module.root_node)
    assert_same(mixture, module, x)  # the sum over the classes itself, as a circuit of one class
    with pytest.raises(ValueError, match="others have no class prior"):
        socratic.interop.class_prior(einet([normal(list(range(V)), 3, 2)], num_classes=1))
    with pytest.raises(ValueError, match="others have no class prior"):
        socratic.interop.class_prior(module.root_node)


FAMILIES: dict[str, tuple[Callable[[list[int]], Any], Callable[[], Tensor]]] = {
    "normal": (lambda scope: normal(scope, 3, 2), lambda: torch.randn(6, V)),
    "bernoulli": (
        lambda scope: leaves.Bernoulli(scope, logits=torch.randn(len(scope), 3, 2)),
        lambda: torch.randint(2, (6, V)),
    ),
    "categorical": (
        lambda scope: leaves.Categorical(scope, logits=torch.randn(len(scope), 3, 2, 4)),
        lambda: torch.randint(4, (6, V)),
    ),
    "binomial": (
        lambda scope: leaves.Binomial(
            scope, total_count=torch.full((len(scope), 3, 2), 7.0), logits=torch.randn(len(scope), 3, 2)
        ),
        lambda: torch.randint(8, (6, V)),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_leaf_families(name: str) -> None:
    make, draw = FAMILIES[name]
    module = einet([make(list(range(V)))], layer_type="einsum")
    x = draw().double()
    x[0, 3] = x[1, :4] = torch.nan
    assert_same(socratic.interop.from_spflow(module), module.root_node.inputs, x)


def test_families_of_leaves_may_be_mixed_and_permuted() -> None:
    scopes = {"bernoulli": [5, 0], "normal": [3, 8, 1], "binomial": [2], "categorical": [7, 4, 6]}
    module = einet([FAMILIES[name][0](scope) for name, scope in scopes.items()], layer_type="linsum")
    x = torch.empty(6, V, dtype=torch.float64)
    for name, scope in scopes.items():
        x[:, scope] = FAMILIES[name][1]().double()[:, scope]
    x[0, 3] = x[1, 5] = torch.nan
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert_same(circuit, module.root_node.inputs, x)


def test_a_probability_of_zero() -> None:
    leaf = leaves.Categorical([0], logits=torch.zeros(1, 2, 1, 3), validate_args=False)
    leaf.logits = torch.tensor([[0.0, -torch.inf, 1.0], [0.5, 0.0, -torch.inf]]).view(1, 2, 1, 3)
    module = Sum(leaf, weights=torch.tensor([0.3, 0.7])).double()
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert_same(circuit, module, torch.tensor([[0.0], [1.0], [2.0], [torch.nan]], dtype=torch.float64))
    with torch.no_grad():
        assert bool(torch.isfinite(socratic.tdi(circuit, [[1.0]], dropout=0.2).relative_variance).all())


def test_nested_sums_and_products_become_a_graph_that_shares_what_they_shared() -> None:
    """Two products share a sum: no tree."""
    shared = Sum(normal(0), out_channels=3)
    products = [Product([shared, normal(1)]), Product([shared, normal(1)])]
    module = Sum(products, out_channels=2).double()
    graph = socratic.interop.from_spflow(module)
    assert isinstance(graph, socratic.Graph)
    assert_same(graph, module, gaussian_rows())
    roots = graph.roots
    assert all(isinstance(root, SumNode) for root in roots)
    assert roots[0].children is roots[1].children  # type: ignore[union-attr]
    nodes = topological(roots)
    assert sum(isinstance(node, Leaf) for node in nodes) == 9  # three leaves of each of three modules
    assert sum(isinstance(node, SumNode) for node in nodes) == 5
    left = [node.children[0] for node in nodes if isinstance(node, ProductNode)]
    assert len(left) == 6
    assert len({id(node) for node in left}) == 3  # each used by two products


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_graphs_have_the_type_of_their_source(dtype: torch.dtype) -> None:
    lone = socratic.interop.from_spflow(normal(0).to(dtype))
    assert isinstance(lone, socratic.Graph)
    assert lone.dtype == dtype
    shared = Sum(normal(0), out_channels=3)
    module = Product([shared, normal(2)]).to(dtype)
    graph = socratic.interop.from_spflow(module)
    assert isinstance(graph, socratic.Graph)
    assert graph.dtype == dtype
    assert graph.n_features == 3
    assert socratic.tdi(graph, torch.zeros(1, 3), root_dropout=True).method == "tree"


def test_shared_leaves_do_not_keep_a_circuit_from_tensors() -> None:
    """Leaves are certain: a copy of them changes no moment."""
    shared = normal(0)
    module = Sum([Product([shared, normal(1)]), Product([shared, normal(1)])], out_channels=2).double()
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert_same(circuit, module, gaussian_rows())


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sum(OuterProduct([normal(0, 2), normal(1, 3), normal(2, 2)]), out_channels=2),
        lambda: Sum(ElementwiseProduct([normal(0, 3), normal(1, 1), normal(4, 3)]), out_channels=2),
        lambda: Sum([Sum(normal([0]), out_channels=2), normal(0, 2)], out_channels=2),
        lambda: ElementwiseSum([normal(0, 3), normal(0, 1), normal(0, 3)], out_channels=2),
        lambda: Product([Sum(normal(0), out_channels=2), Sum(normal(5), out_channels=2)]),
        lambda: Sum(
            EinsumLayer([Sum(normal(0), out_channels=2), normal(1, 3)], out_channels=4),
            out_channels=1,
        ),
        lambda: RepetitionMixingLayer(
            LinsumLayer(Sum(normal([0, 1], 3, 2), out_channels=2, num_repetitions=2), out_channels=3),
            out_channels=3,
            num_repetitions=2,
        ),
        lambda: Sum(
            Product(
                ElementwiseProduct(
                    SplitMode.by_index([[0, 3], [1, 2]]).create(Sum(normal([0, 1, 2, 3]), out_channels=2)),
                )
            ),
            out_channels=2,
        ),
        lambda: Sum(
            OuterProduct(SplitMode.interleaved(3).create(normal([2, 4, 7])), num_splits=3),
            out_channels=2,
        ),
        lambda: normal(3),
    ],
    ids=[
        "outer product of three",
        "a single channel is part of every product",
        "sums of sums and leaves",
        "element-wise sum",
        "product at the root",
        "einsum of two inputs",
        "repetitions",
        "split by index",
        "interleaved split",
        "leaves alone",
    ],
)
def test_any_nesting(build: Callable[[], Any]) -> None:
    module = build().double()
    assert_same(socratic.interop.from_spflow(module), module, gaussian_rows())


def test_models_may_be_parts() -> None:
    """A mixture of two Einets: its root is one with theirs."""
    parts = [einet([normal(list(range(V)), 3, 2)], num_classes=1) for _ in range(2)]
    module = Sum(parts).double()
    circuit = socratic.interop.from_spflow(module)
    assert isinstance(circuit, socratic.Circuit)
    assert circuit.region_graph.n_repetitions == 4
    assert_same(circuit, module, gaussian_rows())


def test_a_learned_structure() -> None:
    x = torch.randn(200, 4)
    x[:, 1] += x[:, 0]
    x[100:] += 3.0
    module = learn_spn(x, leaf_modules=leaves.Normal(list(range(4))), min_instances_slice=60).double()
    assert_same(socratic.interop.from_spflow(module), module, x[:5].double())


def test_what_is_not_supported_is_named() -> None:
    rate = torch.ones(1, 3, 1)
    module = Sum(Product([normal(0), leaves.Poisson([1], rate=rate)]))
    with pytest.raises(ValueError, match=r"Poisson \('inputs.inputs.inputs.1'\) is not supported; supported are"):
        socratic.interop.from_spflow(module)
    with pytest.raises(ValueError, match=r"Poisson \(the module itself\) is not supported"):
        socratic.interop.from_spflow(leaves.Poisson([1], rate=rate))
    with pytest.raises(ValueError, match=r"Normal \(the module itself\) has 2 features and 1 repetitions as outputs"):
        socratic.interop.from_spflow(normal([0, 1]))
    with pytest.raises(TypeError, match="must be a module of SPFlow; got Linear"):
        socratic.interop.from_spflow(torch.nn.Linear(1, 1))
    counts = torch.tensor([3.0, 4.0]).view(1, 2, 1)
    with pytest.raises(ValueError, match=r"Binomial .* has different numbers of trials for one variable"):
        socratic.interop.from_spflow(leaves.Binomial([0], total_count=counts, logits=torch.zeros(1, 2, 1)))
    broken = normal(0)
    broken.loc.data[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"Normal .* has parameters that are not numbers"):
        socratic.interop.from_spflow(broken)
    mixture = Sum(normal(0))
    mixture.logits.data[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"Sum \(the module itself\) has weights that are not numbers"):
        socratic.interop.from_spflow(mixture)
    conditional = normal(0)
    conditional.parameter_fn = torch.nn.Identity()
    with pytest.raises(ValueError, match=r"Normal .* computes its parameters from other variables"):
        socratic.interop.from_spflow(conditional)
