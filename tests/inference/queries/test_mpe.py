from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Categorical, Gaussian
from tests.inference.queries.worlds import (
    CIRCUIT_KINDS,
    EVIDENCE,
    FAMILIES,
    KINDS,
    PRIOR,
    World,
    make_circuit,
    make_world,
    world_of,
)


def best_states(world: World, evidence: np.ndarray) -> tuple[float, set[tuple[int, int]]]:
    """Highest p(state, class) of states that agree with the evidence, and all (state, class) that have it."""
    joint = world.probability * PRIOR * world.matches(evidence)[:, None]
    best = joint.max()
    places = np.argwhere(joint >= best * (1 - 1e-12))
    return float(best), {(int(state), int(class_)) for state, class_ in places}


def deterministic_world(kind: str, seed: int) -> World:
    """Each sum keeps one child, at random."""
    circuit = make_circuit(kind, seed)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for layer in circuit.inner_layers():
            kept = torch.as_tensor(rng.integers(layer.n_children, size=layer.logits.shape[:2]))
            layer.logits.fill_(-torch.inf).scatter_(2, kept.unsqueeze(2), 0.0)
        for branch in circuit.root_branches():
            branch.logits.fill_(-torch.inf)
        for class_ in range(circuit.n_classes):
            branch = circuit.root_branches()[rng.integers(len(circuit.root_branches()))]
            branch.logits[rng.integers(branch.n_folds), class_, rng.integers(branch.n_children)] = 0.0
    return world_of(circuit)


def exact_states(world: World) -> socratic.Explanation:
    """The most probable rows of a deterministic circuit, checked to be the best of all states."""
    found = socratic.mpe(world.circuit, EVIDENCE, class_prior=PRIOR)
    assert found.exact
    for row, evidence in enumerate(EVIDENCE):
        best, states = best_states(world, evidence)
        assert found.log_likelihood[row].exp().item() == pytest.approx(best, rel=1e-9)
        (state,) = np.flatnonzero((world.states == found.x[row].numpy()).all(1))
        assert (int(state), int(found.classes[row])) in states
    return found


@pytest.mark.parametrize("kind", CIRCUIT_KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_deterministic_circuits_give_the_best_state(kind: str, seed: int) -> None:
    world = deterministic_world(kind, seed)
    found = exact_states(world)
    torch.testing.assert_close(found.log_bound, found.log_likelihood)


def decision_graph(rng: np.random.Generator, variables: tuple[int, ...]) -> Node:
    """A random deterministic circuit: sums decide between the values of a variable, in an order that may differ."""
    variable, rest = variables[0], tuple(rng.permutation(variables[1:]).tolist())
    n_values = FAMILIES[variable].n_values or 0
    cut = int(rng.integers(1, n_values))
    children: list[Node] = []
    for possible in (np.arange(n_values) < cut, np.arange(n_values) >= cut):
        probabilities = rng.dirichlet(np.ones(n_values)) * possible
        leaf = Leaf(variable, Categorical.of(tuple((probabilities / probabilities.sum()).tolist())))
        children.append(Product((leaf, decision_graph(rng, rest))) if rest else leaf)
    return Sum(tuple(children), tuple(rng.dirichlet(np.ones(2)).tolist()))


def chow_liu_trees(rng: np.random.Generator) -> tuple[Node, ...]:
    """One for each class, from random tables."""
    sizes = [family.n_values or 0 for family in FAMILIES]
    families = [Categorical(size) for size in sizes]
    tables = [rng.integers(0, sizes, size=(25, 4)).astype(float) for _ in range(2)]
    return tuple(socratic.chow_liu_tree(table, families, smoothing=1.0) for table in tables)


@pytest.mark.parametrize("kind", ["decisions", "chow-liu"])
@pytest.mark.parametrize("seed", range(4))
def test_deterministic_graphs_give_the_best_state(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    roots = chow_liu_trees(rng) if kind == "chow-liu" else [decision_graph(rng, (0, 1, 2, 3)) for _ in range(2)]
    world = world_of(Graph(roots, dtype=torch.float64))
    found = exact_states(world)
    assert torch.equal(found.log_bound, found.log_likelihood)


@pytest.mark.parametrize("kind", KINDS)
def test_other_circuits_stay_between_enumeration_and_the_bound(kind: str) -> None:
    hits = 0
    for seed in range(10):
        world = make_world(kind, seed)
        found = socratic.mpe(world.circuit, EVIDENCE, class_prior=PRIOR, chunk_size=2)
        assert not found.exact
        for row, evidence in enumerate(EVIDENCE):
            best, _ = best_states(world, evidence)
            (state,) = np.flatnonzero((world.states == found.x[row].numpy()).all(1))
            value = world.probability[state, found.classes[row]] * PRIOR[found.classes[row]]
            assert world.matches(evidence)[state]
            assert found.log_likelihood[row].item() == pytest.approx(np.log(value), rel=1e-9)
            assert value <= best * (1 + 1e-9)
            assert found.log_bound[row].item() >= np.log(best) - 1e-9
            hits += value >= best * (1 - 1e-9)
    assert hits >= 25  # of 50: the approximation is worth something


def test_max_product_is_that_of_the_best_tree() -> None:
    """A mixture of two products of Gaussians: its larger mode is the better component's mean."""
    circuit = socratic.rat_spn(2, 1, depth=0, n_sums=1, n_leaves=2, n_repetitions=1, leaf=Gaussian(0.1, 0.2)).double()
    with torch.no_grad():
        circuit.leaves.leaf_groups()[0].values["mean"].copy_(torch.tensor([[-3.0, 3.0], [-3.0, 3.0]]))
        circuit.leaves.leaf_groups()[0].values["raw_variance"].zero_()
        circuit.root_branches()[0].logits.copy_(torch.tensor([[[0.0, 1.0]]]))
    found = socratic.mpe(circuit, [[np.nan, np.nan], [-2.0, np.nan]])
    assert found.x.tolist() == [[3.0, 3.0], [-2.0, -3.0]]
    assert not found.exact


def test_given_classes_and_float32() -> None:
    world = make_world("all-pairs")
    exact = socratic.mpe(world.circuit, EVIDENCE, class_index=1)
    found = socratic.mpe(world.circuit.float(), EVIDENCE, class_index=1)
    assert torch.equal(found.x.double(), exact.x)
    assert found.classes.tolist() == [1] * len(EVIDENCE)


def test_a_single_leaf_a_region_is_deterministic() -> None:
    circuit = socratic.rat_spn(4, 1, depth=2, n_sums=1, n_leaves=1, n_repetitions=1, leaf=list(FAMILIES))
    assert socratic.mpe(circuit, EVIDENCE).exact
    assert not socratic.mpe(make_world("two shapes").circuit, EVIDENCE).exact
