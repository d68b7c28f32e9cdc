"""Columns whose densities are uncertain, against enumeration: exact to 1e-9."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import socratic
from socratic.families import Categorical, Gaussian
from tests.oracles import count_masks, enumerate_masks

NAN = float("nan")
COMPLETE = [0.3, -1.0, 0.2, 1.0, 0.0]
ROWS = torch.tensor([COMPLETE, [0.3, NAN, 0.2, NAN, 0.5], [NAN, -2.0, NAN, 1.0, NAN], [NAN] * 5], dtype=torch.float64)
VARIANCES = {0: 0.04, 1: 0.3, 3: 0.5}
WAYS: dict[str, dict[str, Any]] = {
    "exact": {},
    "unit": {"masks": "unit"},
    "roots": {"root_dropout": True},
    "certain-sums": {"dropout": 0.0},
}


def circuit_of_wide_leaves(n_sums: int = 1) -> socratic.Circuit:
    """Inner sums above leaf regions of one column and of two, both of which are uncertain."""
    circuit = socratic.rat_spn(5, 2, depth=2, n_repetitions=1, n_sums=n_sums, n_leaves=2, seed=3).double()
    assert any(len(scope) > 1 and VARIANCES.keys() >= set(scope) for scope in circuit.leaves.scopes)
    return circuit.requires_grad_(False)


def tree_of_two_sums() -> socratic.Graph:
    """A sum over the columns 0 and 1 times one over the others."""

    def product(columns: range, mean: float) -> socratic.Product:
        return socratic.Product([socratic.Leaf(column, Gaussian.of(mean, 1.5)) for column in columns])

    sums = [
        socratic.Sum([product(columns, mean) for mean in (-0.5, 1.0)], [0.3, 0.7])
        for columns in (range(2), range(2, 5))
    ]
    return socratic.Graph(socratic.Product(sums), dtype=torch.float64).requires_grad_(False)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("build", [circuit_of_wide_leaves, tree_of_two_sums])
@pytest.mark.parametrize("chunk_size", [None, 1])
def test_moments_equal_enumeration(build: Any, way: str, chunk_size: int | None) -> None:
    """Each univariate leaf of an uncertain column is 1 +- size times its density, as a coin of its own falls."""
    circuit = build()
    graph = circuit if isinstance(circuit, socratic.Graph) else circuit.to_graph()
    settings = {"dropout": 0.3, "masks": "edge", "root_dropout": False, **WAYS[way]}
    found = socratic.tdi(circuit, ROWS, leaf_variance=VARIANCES, chunk_size=chunk_size, **settings)
    assert found.method in ("layered", "tree")
    assert count_masks(graph, settings["masks"], root_dropout=False) >= 4
    for number, row in enumerate(ROWS.tolist()):
        known = [leaf for leaf in graph.leaves.nodes if leaf.variable in VARIANCES and not np.isnan(row[leaf.variable])]
        coins = {id(leaf): [(coin, VARIANCES[int(leaf.variable)] ** 0.5)] for coin, leaf in enumerate(known)}
        truth = enumerate_masks(graph, row, **settings, leaf_coins=coins)
        np.testing.assert_allclose(found.log_mean[number], np.log(truth.mean), atol=1e-9)
        np.testing.assert_allclose(found.relative_covariance[number], truth.relative_covariance, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["expansion", "log-moments", "auto"])
def test_posteriors_take_columns_as_they_take_the_leaves_these_make_uncertain(method: Any) -> None:
    circuit = circuit_of_wide_leaves(n_sums=3)
    growth = [np.prod([1.0 + VARIANCES.get(column, 0.0) for column in scope]) for scope in circuit.leaves.scopes]
    by_leaves = torch.tensor(growth, dtype=torch.float64).sub(1.0).view(-1, 1)
    settings: dict[str, Any] = {"dropout": 0.1, "method": method, "class_prior": [0.3, 0.7]}
    complete = ROWS[:1]
    expected = socratic.dropout_posterior(circuit, complete, leaf_variance=by_leaves, **settings)
    found = socratic.dropout_posterior(circuit, complete, leaf_variance=VARIANCES, **settings)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.std, expected.std)
    assert found.method == ("expansion" if method == "expansion" else "log-moments")
    if method != "auto":  # which samples masks where leaves are certain
        assert (found.std > socratic.dropout_posterior(circuit, complete, **settings).std).all()


@pytest.mark.parametrize("build", [circuit_of_wide_leaves, tree_of_two_sums])
def test_columns_without_variance_change_nothing(build: Any) -> None:
    circuit = build()
    for nothing in ({}, {1: 0.0}, {0: 0, 2: np.float32(0.0)}):
        found, plain = socratic.tdi(circuit, ROWS, leaf_variance=nothing), socratic.tdi(circuit, ROWS)
        assert torch.equal(found.relative_covariance, plain.relative_covariance)
        assert torch.equal(found.log_mean, plain.log_mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_variances_are_cut_off(dtype: torch.dtype) -> None:
    leaf = socratic.Leaf(0, Categorical.of([0.5, 0.5]))
    graph = socratic.Graph(leaf, dtype=dtype).requires_grad_(False)
    assert socratic.tdi(graph, [[1.0]], leaf_variance={0: 2.0}).relative_variance.item() == pytest.approx(2.0)
    with pytest.warns(RuntimeWarning, match="relative variances above .* were cut off"):
        found = socratic.tdi(graph, [[1.0]], leaf_variance={0: 1e300})
    assert torch.isfinite(found.relative_variance).all()


@pytest.mark.parametrize(
    ("variance", "message"),
    [
        ({5: 0.1}, r"leaf_variance must map numbers of columns, from 0 to 4, to variances; got the column 5"),
        ({-1: 0.1}, "got the column -1"),
        ({"age": 0.1}, "got the column 'age'"),
        ({True: 0.1}, "got the column True"),
        ({0: -0.1}, r"leaf_variance\[0\] must be a finite number of at least 0; got -0.1"),
        ({0: NAN}, r"leaf_variance\[0\] must be a finite number of at least 0; got nan"),
        ({0: None}, r"leaf_variance\[0\] must be a finite number of at least 0; got None"),
    ],
)
def test_errors_name_the_column(variance: Any, message: str) -> None:
    for build in (circuit_of_wide_leaves, tree_of_two_sums):
        with pytest.raises(ValueError, match=message):
            socratic.tdi(build(), ROWS, leaf_variance=variance)
