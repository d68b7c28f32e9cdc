from __future__ import annotations

import pytest
import torch
from torch import Tensor

import socratic
from socratic.families import Bernoulli, Categorical, Gaussian


@pytest.mark.parametrize(
    ("n_features", "n_edges", "n_parameters", "n_of_leaves"),
    [(784, 1_422_400, 1_376_800, 156_800), (3072, 1_651_200, 1_834_400, 614_400)],
)
def test_the_papers_sizes(n_features: int, n_edges: int, n_parameters: int, n_of_leaves: int) -> None:
    """Appendix C, for MNIST and SVHN: 1.42M and 1.65M edges, 1.38M and 1.83M parameters, of leaves 157k and 614k."""
    circuit = socratic.rat_spn(
        n_features, 10, n_sums=20, n_leaves=20, depth=5, n_repetitions=5, leaf="gaussian", seed=0
    )
    assert socratic.summary(circuit, methods=False).n_edges == n_edges
    assert circuit.n_parameters == n_parameters
    assert sum(parameter.numel() for parameter in circuit.leaves.parameters()) == n_of_leaves


def test_weights_are_normalised() -> None:
    circuit = socratic.rat_spn(7, 3, n_sums=4, n_leaves=2, depth=3, n_repetitions=2).double()
    weights = circuit.weights()
    for layer in weights.layers:
        torch.testing.assert_close(layer.sum(-1), torch.ones_like(layer[..., 0]))
    per_class = sum(branch.sum(dim=(0, 2)) for branch in weights.roots)
    torch.testing.assert_close(per_class, torch.ones(3, dtype=torch.float64))


def underflowing(n_features: int = 2) -> socratic.Circuit:
    """A circuit whose roots live on a product of weight e^-200 where the other is impossible."""
    leaf = Categorical(2)
    circuit = socratic.rat_spn(n_features, 1, n_sums=1, n_leaves=2, depth=1, n_repetitions=1, leaf=leaf)
    with torch.no_grad():
        circuit.root_branches()[0].logits.copy_(torch.tensor([0.0, -200.0, -200.0, -200.0]))
        for values in circuit.leaves.leaf_groups()[0].values.values():
            values.copy_(torch.tensor([[0.0, -1e30], [-1e30, 0.0]]).expand_as(values))
    return circuit


def test_weights_too_small_for_the_type_are_said() -> None:
    circuit = underflowing()
    row = [[1.0, 1.0]]
    with pytest.warns(RuntimeWarning, match=r"3 weights in roots\[0\] are below 1.2e-38"):
        circuit.weights()
    with pytest.warns(RuntimeWarning, match=r"in all queries but likelihoods; circuit.double\(\) keeps them"):
        assert circuit.log_likelihood(row).item() == pytest.approx(-200.0)
    assert circuit.to_graph().log_likelihood(row).item() == pytest.approx(-200.0)  # graphs keep logarithms
    assert circuit.double().log_likelihood(row).item() == pytest.approx(-200.0)


def test_edges_that_are_not_there_are_not_lost() -> None:
    circuit = underflowing()
    with torch.no_grad():
        circuit.root_branches()[0].logits[..., 1:] = -torch.inf
    assert circuit.weights().roots[0].flatten().tolist() == [1.0, 0.0, 0.0, 0.0]  # and no warning


def test_roots_are_normalised_over_branches_of_different_shape() -> None:
    circuit = socratic.spatial_spn(5, 3, 2, n_repetitions=4, n_sums=2, n_leaves=3).double()
    assert len(circuit.root_branches()) > 1
    per_class = sum(branch.sum(dim=(0, 2)) for branch in circuit.weights().roots)
    torch.testing.assert_close(per_class, torch.ones(2, dtype=torch.float64))


def test_the_seed_decides_structure_and_parameters() -> None:
    x = torch.randn(4, 6)
    same = [socratic.rat_spn(6, 2, depth=2, seed=5).log_likelihood(x) for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(same[0], socratic.rat_spn(6, 2, depth=2, seed=6).log_likelihood(x))


def test_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    circuit = socratic.rat_spn(6, 2, depth=2, seed=5)
    socratic.monte_carlo_dropout(circuit, torch.zeros(2, 6), dropout=0.2, n_passes=3)
    assert torch.equal(torch.rand(3), expected)


def test_families_may_differ_by_variable() -> None:
    families = ["gaussian", Bernoulli(), Categorical(3), Gaussian(max_variance=None)]
    circuit = socratic.rat_spn(4, 2, depth=2, leaf=families)
    assert len(circuit.leaves.leaf_groups()) == 4
    assert torch.isfinite(circuit.log_likelihood(torch.tensor([[0.3, 1.0, 2.0, -0.2]]))).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_classes": 0}, "n_classes must be a whole number of at least 1; got 0"),
        ({"n_sums": 2.5}, "n_sums must be a whole number of at least 1; got 2.5"),
        ({"n_leaves": 0}, "n_leaves must be a whole number of at least 1; got 0"),
        ({"product": "cross"}, "product must be one of 'all-pairs', 'element-wise'; got 'cross'"),
        ({"leaf": "gauss"}, "leaf must be one of"),
        ({"leaf": Gaussian}, r"such as socratic.families.Gaussian\(\); got <class"),
        ({"leaf": ["gaussian"] * 3}, "one for each of 5 features; got 3"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"product": "element-wise", "n_sums": 3, "n_leaves": 2, "depth": 3}, "set n_leaves equal to n_sums"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    arguments = {"n_features": 5, "n_classes": 2, "depth": 2, **settings}
    with pytest.raises(ValueError, match=message):
        socratic.rat_spn(**arguments)


def test_a_moved_circuit_stays_itself() -> None:
    circuit = socratic.rat_spn(6, 2, depth=2)
    x = torch.randn(3, 6)
    before = circuit.log_likelihood(x)
    assert circuit.double().dtype == torch.float64
    torch.testing.assert_close(circuit.log_likelihood(x), before.double(), atol=1e-4, rtol=1e-5)


def test_every_parameter_gets_a_gradient() -> None:
    circuit = socratic.rat_spn(7, 3, n_sums=3, n_leaves=2, depth=2, n_repetitions=2)
    circuit(torch.randn(5, 7)).sum().backward()
    for name, parameter in circuit.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's compiler, about itself
@torch.no_grad()
def test_queries_are_traced_as_one_graph() -> None:
    circuit, x = socratic.rat_spn(8, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2), torch.randn(5, 8)

    def moments(x: Tensor) -> Tensor:
        return socratic.tdi(circuit, x, dropout=0.2).relative_covariance

    for query in (circuit.log_likelihood, moments):
        traced = torch.compile(query, fullgraph=True, backend="eager")
        torch.testing.assert_close(traced(x), query(x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's compiler, about itself
def test_a_compiled_circuit_gives_the_same_values_and_gradients() -> None:
    circuit = socratic.rat_spn(13, 3, n_sums=4, n_leaves=4, depth=2, n_repetitions=2)
    compiled = torch.compile(circuit, fullgraph=True)
    x = torch.randn(20, 13)
    x[0, 3] = torch.nan
    torch.testing.assert_close(compiled(x), circuit(x))
    compiled(x).logsumexp(1).sum().backward()
    gradients = {name: parameter.grad for name, parameter in circuit.named_parameters()}
    circuit.zero_grad(set_to_none=True)
    circuit(x).logsumexp(1).sum().backward()
    for name, parameter in circuit.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-4, rtol=1e-4)


def test_layers_may_have_different_numbers_of_sums_and_regions_a_single_child() -> None:
    scopes = [(0, 1, 2), (0, 1), (2,), (0, 1), (2,), (0,), (1,)]
    partitions = [(0, 1, 2), (1, 3), (2, 4), (3, 5, 6)]
    graph = socratic.RegionGraph.from_dict({"n_features": 3, "regions": scopes, "partitions": partitions})
    circuit = socratic.Circuit(graph, n_classes=2, n_sums=[4, 3, 5], n_leaves=2)
    assert [(layer.n_nodes, layer.n_children) for layer in circuit.inner_layers()] == [(4, 2), (3, 4), (5, 3)]
    assert circuit.root_branches()[0].n_children == 5 * 4
    x = torch.randn(4, 3)
    assert circuit.log_likelihood(x).shape == (4, 2)
    assert socratic.Circuit.from_config(circuit.to_config()).n_sums == (4, 3, 5)
    with pytest.raises(ValueError, match="n_sums must be one number or one for each of 3 inner layers; got 2"):
        socratic.Circuit(graph, n_classes=2, n_sums=[4, 3], n_leaves=2)
    with pytest.raises(ValueError, match="n_sums must be a whole number of at least 1; got 0"):
        socratic.Circuit(graph, n_classes=2, n_sums=[4, 0, 5], n_leaves=2)


def test_columns_that_take_every_number_need_no_check() -> None:
    circuit = socratic.rat_spn(
        5,
        2,
        n_sums=2,
        n_leaves=2,
        depth=1,
        n_repetitions=1,
        leaf=["gaussian", "bernoulli", "student-t", "bernoulli", "poisson"],
    )
    found = [([family.name for family in families], columns) for families, columns in circuit.restricted_columns]
    assert found == [(["bernoulli"], [1, 3]), (["poisson"], [4])]
    assert circuit.to_graph().restricted_columns == circuit.restricted_columns
