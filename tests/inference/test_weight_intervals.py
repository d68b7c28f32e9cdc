"""Bounds over weight intervals: never violated by weights in them, and reached by some."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Sum, WeightIntervals
from socratic.circuit.nodes import Node
from socratic.families import Gaussian
from tests.inference.dirichlet import evaluate
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.inference.test_weight_moments import CASES, build
from tests.oracles import topological


def contaminated(graph: Graph, epsilon: float, n_points: int, seed: int) -> dict[int, np.ndarray]:
    """Weights (P, K) of each sum within its interval, by its id: most of them at corners of it."""
    rng = np.random.default_rng(seed)
    found = {}
    for node in topological(graph):
        if isinstance(node, Sum):
            (present,) = np.array(node.weights).nonzero()
            other = np.zeros((n_points, len(node.weights)))
            other[:, present] = rng.dirichlet(np.full(len(present), 0.05), size=n_points)
            found[id(node)] = (1.0 - epsilon) * np.array(node.weights) + epsilon * other
    return found


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.2, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_weights_violate_the_bounds(shape: str, epsilon: float) -> None:
    for seed in range(4):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        x = random_rows(2, graph.n_features, seed)
        bounds = socratic.likelihood_bounds(graph, x, WeightIntervals(epsilon))
        for row in range(len(x)):
            values = np.log(evaluate(graph, x[row].tolist(), contaminated(graph, epsilon, 500, seed)))
            assert (values >= bounds.lower[row].numpy() - 1e-9).all()
            assert (values <= bounds.upper[row].numpy() + 1e-9).all()


def test_bounds_are_reached() -> None:
    """With everything unknown each sum is one of its children, and the bounds are values of induced trees."""
    graph = Graph(random_roots("structured", 1), dtype=torch.float64)
    x = random_rows(1, graph.n_features, 1)
    values = np.log(evaluate(graph, x[0].tolist(), corners(graph, 20_000)))
    bounds = socratic.likelihood_bounds(graph, x, WeightIntervals(1.0))
    np.testing.assert_allclose(bounds.lower[0], values.min(0), atol=1e-9)
    np.testing.assert_allclose(bounds.upper[0], values.max(0), atol=1e-9)


def corners(graph: Graph, n_points: int) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(0)
    sums = [node for node in topological(graph) if isinstance(node, Sum)]
    return {id(node): np.eye(len(node.weights))[rng.integers(0, len(node.weights), n_points)] for node in sums}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("zeros", [False, True])
def test_layers_give_what_graphs_give(case: str, zeros: bool) -> None:
    circuit, _, x = build(case)
    if zeros:
        with torch.no_grad():
            for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
                if layer.n_children > 1:
                    layer.logits[:, 0, 0] = -torch.inf
    graph = circuit.to_graph()
    for epsilon in (0.0, 0.05, 1.0):
        layered, of_nodes = (socratic.likelihood_bounds(c, x, WeightIntervals(epsilon)) for c in (circuit, graph))
        torch.testing.assert_close(layered.lower, of_nodes.lower, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layered.upper, of_nodes.upper, rtol=1e-9, atol=1e-9)
        if epsilon == 0.0:
            torch.testing.assert_close(layered.lower, circuit.log_likelihood(torch.as_tensor(x)).detach())
            torch.testing.assert_close(layered.upper, layered.lower)
    torch.testing.assert_close(socratic.robustness(circuit, x), socratic.robustness(graph, x), rtol=0, atol=1e-5)


def test_the_predicted_class_stands_as_long_as_is_said() -> None:
    graph = build("root-of-repetitions")[0].to_graph()
    x = np.random.default_rng(5).normal(size=(12, 3))
    epsilon = socratic.robustness(graph, x)
    predicted = graph.log_likelihood(torch.as_tensor(x)).argmax(1)
    assert (epsilon > 0.0).all()
    for row in range(len(x)):
        values = evaluate(graph, x[row].tolist(), contaminated(graph, float(epsilon[row]), 2000, row))
        assert (values.argmax(1) == int(predicted[row])).all()


def test_robustness_of_two_classes_apart_is_exact() -> None:
    """Without shared sums the classes reach their bounds together: it is where lower and upper bound meet."""
    near, far = (Leaf(0, Gaussian.of(mean, 1.0)) for mean in (0.0, 2.0))
    roots: list[Node] = [Sum((near, far), (0.9, 0.1)), Sum((near, far), (0.2, 0.8))]
    graph = Graph(roots, dtype=torch.float64)
    x = [[0.3], [1.7]]
    epsilon = socratic.robustness(graph, x, class_prior=[0.4, 0.6], n_steps=40)
    for row in range(2):
        bounds = socratic.likelihood_bounds(graph, x[row : row + 1], WeightIntervals(float(epsilon[row])))
        first, second = (row, 1 - row)
        prior = np.log([0.4, 0.6])
        gap = bounds.lower[0, first] + prior[first] - bounds.upper[0, second] - prior[second]
        assert float(gap) == pytest.approx(0.0, abs=1e-6)


def test_one_class_always_stands_and_equal_ones_never() -> None:
    one = build("branches")[0]
    assert socratic.robustness(one, np.zeros((2, 3))).tolist() == [1.0, 1.0]
    leaf = Leaf(0, Gaussian.of(0.0, 1.0))
    equal = Graph((Sum((leaf,), (1.0,)), Sum((leaf,), (1.0,))), dtype=torch.float64)
    assert socratic.robustness(equal, [[0.1]]).tolist() == [0.0]


def test_what_is_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epsilon must be a finite number between 0 and 1; got 1\.5"):
        WeightIntervals(1.5)
    circuit, posterior, x = build("branches")
    with pytest.raises(ValueError, match=r"doubt must be WeightIntervals\(epsilon\); got a WeightPosterior"):
        socratic.likelihood_bounds(circuit, x, posterior)
