"""Visits of sums against responsibilities computed node by node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, ModelFileError, WeightPosterior
from socratic.inference.weight_posterior import FORMAT, VERSION
from socratic.model_files import write_tensors
from tests.inference.circuits import peaky_circuit
from tests.inference.dirichlet import responsibilities
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows


def brute_force(graph: Graph, x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Visits (sums,) in the order of the graph's sums."""
    nodes = graph.nodes
    total = np.zeros(graph.n_sums)
    for row, label, count in zip(x, y, weight, strict=True):
        reached = responsibilities(graph, row.tolist(), int(label))
        total += count * np.array([reached[id(nodes[number])] for number in graph.sum_numbers.tolist()])
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_visits_of_graphs_equal_brute_force(shape: str) -> None:
    for seed in range(10):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        rng = np.random.default_rng(seed)
        x, y, weight = (
            random_rows(5, graph.n_features, seed),
            rng.integers(0, graph.n_classes, 5),
            rng.gamma(1.0, size=5),
        )
        posterior = socratic.weight_posterior(graph, x, y, sample_weight=weight, chunk_size=2)
        (visits,) = posterior.visits
        assert visits.dtype == torch.float64
        np.testing.assert_allclose(visits, brute_force(graph, x, y, weight), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_visits_of_layers_equal_those_of_the_graph(product: str) -> None:
    circuit = peaky_circuit((7, 3, 3, 2, 2, 3, product))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 7)), rng.integers(0, 3, 30)
    x[rng.random(x.shape) < 0.2] = np.nan
    layered = socratic.weight_posterior(circuit, x, y, chunk_size=7)
    (of_graph,) = socratic.weight_posterior(circuit.to_graph(), x, y).visits
    assert torch.equal(layered.visits[-1], torch.bincount(torch.as_tensor(y)).double())
    flat = torch.cat([part.flatten() for part in layered.visits])
    torch.testing.assert_close(flat.sort().values, of_graph.sort().values, rtol=1e-9, atol=1e-9)


def test_a_region_has_as_many_visits_as_its_repetition() -> None:
    """With one repetition every row passes every region once."""
    circuit = socratic.rat_spn(6, 2, n_sums=3, n_leaves=2, depth=2, n_repetitions=1)
    posterior = socratic.weight_posterior(circuit, torch.randn(40, 6), torch.arange(40) % 2)
    for part in posterior.visits[:-1]:
        torch.testing.assert_close(part.sum(-1), torch.full((len(part),), 40.0, dtype=torch.float64), rtol=1e-5, atol=0)


def test_rows_far_from_every_leaf_are_counted_too() -> None:
    circuit = peaky_circuit((4, 2, 2, 2, 2, 2, "all-pairs")).float()
    posterior = socratic.weight_posterior(circuit, torch.full((3, 4), 1e4), [0, 1, 1])
    assert posterior.visits[-1].tolist() == [1.0, 2.0]
    assert all(torch.isfinite(part).all() for part in posterior.visits)


def test_one_class_needs_no_labels_and_no_rows_leave_the_prior() -> None:
    circuit = socratic.rat_spn(4, 1, n_sums=2, n_leaves=2, depth=2)
    assert socratic.weight_posterior(circuit, torch.randn(5, 4)).visits[-1].tolist() == [5.0]
    nothing = socratic.weight_posterior(circuit, torch.zeros(0, 4), prior_strength=2.0)
    assert all((part == 2.0).all() for part in nothing.strengths(torch.zeros(())))


def test_wrong_labels_and_weights_are_refused() -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2)
    x = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="y must hold the class of each row: the circuit has 2 classes; got None"):
        socratic.weight_posterior(circuit, x)
    with pytest.raises(ValueError, match="y must hold classes from 0 to 1; got 0 to 2"):
        socratic.weight_posterior(circuit, x, [0, 1, 2])
    with pytest.raises(
        ValueError, match=r"y must hold a whole number for each of 3 rows; got the shape \(3,\) of type float64"
    ):
        socratic.weight_posterior(circuit, x, [0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="sample_weight must hold a finite number of at least 0 for each of 3 rows"):
        socratic.weight_posterior(circuit, x, [0, 1, 1], sample_weight=[1.0, -1.0, 1.0])


def test_a_posterior_is_saved_and_read_back(tmp_path: Path) -> None:
    circuit = socratic.rat_spn(6, 2, n_sums=3, n_leaves=2, depth=2)
    posterior = socratic.weight_posterior(
        circuit, torch.randn(9, 6), torch.arange(9) % 2, prior_strength=2.0, worth=0.1
    )
    posterior.save(tmp_path / "doubt.safetensors")
    again = WeightPosterior.load(tmp_path / "doubt.safetensors")
    assert (again.prior_strength, again.worth) == (2.0, 0.1)
    assert all(torch.equal(one, other) for one, other in zip(again.visits, posterior.visits, strict=True))
    circuit.save(tmp_path / "circuit.safetensors")
    with pytest.raises(ModelFileError, match=r"circuit\.safetensors is no socratic\.weight-posterior"):
        WeightPosterior.load(tmp_path / "circuit.safetensors")
    tensors, config = posterior.parts()
    write_tensors(tmp_path / "bad.safetensors", FORMAT, VERSION, tensors, {**config, "worth": -1})
    with pytest.raises(ModelFileError, match=r"bad\.safetensors is damaged: it does not describe a weight posterior"):
        WeightPosterior.load(tmp_path / "bad.safetensors")
