"""Model files of graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.errors import ModelFileError
from socratic.families import Bernoulli, Binomial, Categorical, Gaussian
from tests.circuit.test_storage import header_of, reconfigure, rewrite
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows


def mixed() -> Graph:
    parts = [
        Leaf(0, Bernoulli.of(0.0)),
        Leaf(1, Categorical.of((0.2, 0.0, 0.8))),
        Leaf(2, Binomial.of(4, 0.5)),
        Leaf(3, Gaussian.of(1.0, 1e-9)),
    ]
    other = [*parts[:3], Leaf(3, Gaussian.of(0.0, 2.0))]
    shared = Product(tuple(parts))
    return Graph(
        (Sum((shared, Product(tuple(other))), (0.3, 0.7)), shared),
        n_features=6,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "graph.safetensors"
    mixed().save(path)
    return path


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_saved_graph_comes_back_to_the_last_bit(dtype: torch.dtype, tmp_path: Path) -> None:
    graphs = [Graph(random_roots(shape, seed), dtype=dtype) for shape in SHAPES for seed in range(4)]
    for graph in graphs:
        with torch.no_grad():
            graph.logits.mul_(1.3)  # not normalised any more
        graph.save(tmp_path / "graph")
        loaded = socratic.load(tmp_path / "graph")
        assert isinstance(loaded, Graph)
        assert loaded.dtype == dtype
        x = random_rows(4, graph.n_features, 0)
        assert torch.equal(loaded(x), graph(x))
        for masks in ("edge", "unit"):  # sharing is kept, too
            found, expected = (socratic.tdi(one, x, masks=masks) for one in (loaded, graph))
            assert found.reason == expected.reason
            assert torch.equal(found.relative_covariance, expected.relative_covariance)
        assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_everything_else_comes_back(model: Path) -> None:
    loaded = socratic.load(model)
    assert isinstance(loaded, Graph)
    assert loaded.n_features == 6
    assert loaded.n_nodes == mixed().n_nodes
    leaf = loaded.nodes[0]
    assert isinstance(leaf, Leaf)
    assert leaf.distribution == Bernoulli.of(0.0)
    x = [[0.0, 2.0, 1.0, 1.0, 0.0, 0.0], [1.0, 2.0, 1.0, 1.0, 0.0, 0.0]]
    assert torch.equal(loaded(x), mixed()(x))
    assert loaded.roots[0] is loaded.roots[0]


def test_equal_graphs_are_equal_files(model: Path, tmp_path: Path) -> None:
    socratic.load(model).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("wiring.children", lambda t: t + 40),
        ("wiring.children", lambda t: t - 40),
        ("wiring.children", lambda t: t.float()),
        ("wiring.children", lambda t: t[:-1]),
        ("wiring.children", torch.zeros_like),
        ("wiring.arity", torch.zeros_like),
        ("wiring.roots", lambda t: t[:0]),
        ("wiring.roots", lambda t: t - 100),
        ("wiring.roots", lambda t: t * 0),
        ("wiring.variables", lambda t: t + 10),
        ("wiring.variables", lambda t: t[:-1]),
        ("wiring.variables", None),
        ("logits", lambda t: t[:-1]),
        ("logits", lambda t: t * torch.nan),
        ("logits", lambda t: t.double()),
        ("logits", None),
        ("leaves.batches.0.values.logit", None),
        ("leaves.batches.0.values.logit", lambda t: t * torch.nan),
        ("leaves.batches.0.values.logit", lambda t: t[:0]),
    ],
)
def test_damaged_tensors_are_refused(model: Path, name: str, change: object) -> None:
    tensors = load_file(model)
    tensor = tensors.pop(name)
    if callable(change):
        tensors[name] = change(tensor).contiguous()
    rewrite(model, header_of(model), tensors)
    with pytest.raises(ModelFileError, match="is damaged: it does not describe a graph"):
        socratic.load(model)


def test_unknown_tensors_are_refused(model: Path) -> None:
    rewrite(model, header_of(model), {**load_file(model), "more": torch.zeros(2)})
    with pytest.raises(ModelFileError, match="more"):
        socratic.load(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_features": 2},
        {"n_features": "many"},
        {"families": []},
        {"families": [{"family": "unknown"}] * 4},
        {"n_leaves": [10**12, 1, 1, 2]},
        {"n_leaves": None},
    ],
)
def test_damaged_configurations_are_refused(model: Path, changes: dict[str, object]) -> None:
    reconfigure(model, **changes)
    with pytest.raises(ModelFileError, match="is damaged"):
        socratic.load(model)


def test_other_versions_are_refused(model: Path) -> None:
    rewrite(model, {**header_of(model), "version": 2})
    with pytest.raises(ModelFileError, match="has format version 2"):
        socratic.load(model)


def test_a_truncated_file_is_refused(model: Path) -> None:
    model.write_bytes(model.read_bytes()[:-8])
    with pytest.raises(ModelFileError, match="is damaged"):
        socratic.load(model)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, tmp_path / "foreign")
    with pytest.raises(ModelFileError, match="socratic did not write it"):
        socratic.load(tmp_path / "foreign")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_zero_and_extreme_variances_come_back(dtype: torch.dtype, tmp_path: Path) -> None:
    leaves = (Leaf(0, Gaussian.of(0.0, 1.1754944e-38)), Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0)))
    graph = Graph(Sum(leaves, (0.5, 0.5, 0.0)), dtype=dtype)
    for raw_variance in (None, -120.0, 800.0):
        if raw_variance is not None:
            with torch.no_grad():
                graph.leaves.leaf_batches()[0].values["raw_variance"][1] = raw_variance
        graph.save(tmp_path / "graph")
        loaded = socratic.load(tmp_path / "graph")
        for name, value in graph.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value)


def test_leaves_that_are_certain_come_back(tmp_path: Path) -> None:
    rows = torch.tensor([[0.0, 3.0], [1.0, 3.0], [0.0, 0.0], [1.0, 0.0]])
    first = Product((Leaf(0, Bernoulli.of(1.0)), Leaf(1, Binomial.of(3, 0.5))))
    graph = Graph(Sum((first, Product((Leaf(0, Bernoulli.of(0.0)), Leaf(1, Binomial.of(3, 1.0))))), (0.25, 0.75)))
    graph.save(tmp_path / "graph")
    found = socratic.load(tmp_path / "graph").log_likelihood(rows)
    expected = torch.tensor([0.75, 0.25 / 8, 0.0, 0.25 / 8]).log()
    torch.testing.assert_close(found[:, 0], expected)
    for wrong in ("leaves.batches.0.values.logit", "logits"):
        with torch.no_grad():
            graph.get_parameter(wrong)[0] = float("nan" if "leaves" in wrong else "inf")
        with pytest.raises(ValueError, match="parameters that are NaN or infinite, and cannot be saved"):
            graph.save(tmp_path / "wrong")
        graph = socratic.load(tmp_path / "graph")


@pytest.mark.parametrize("value", [float("-inf")])
def test_weights_and_variances_that_are_none_are_refused(value: float, tmp_path: Path) -> None:
    for wrong in ("logits", "leaves.batches.0.values.raw_variance"):
        graph = Graph(Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))), (0.5, 0.5)))
        with torch.no_grad():
            graph.get_parameter(wrong).fill_(value)
        graph.save(tmp_path / "graph")
        with pytest.raises(ModelFileError, match="not finite"):
            socratic.load(tmp_path / "graph")
