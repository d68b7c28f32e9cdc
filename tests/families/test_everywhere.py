"""Every family in every place that leaves are used: circuits, graphs, learners, estimators, files, pictures."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import socratic
from socratic.families import FAMILIES, Family
from socratic.learning import Rows, TrainingSettings, fit_em, fit_gradient, initialise_leaves
from tests.families.members import NAMES, is_discrete, two_clusters

NAN = float("nan")


@pytest.fixture(params=NAMES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]()


def rows_of(x: np.ndarray, y: np.ndarray | None = None) -> Rows:
    labels = np.zeros(len(x), dtype=np.int64) if y is None else y
    return Rows(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels), torch.ones(len(x)))


def small_circuit(family: Family, n_classes: int = 1, seed: int = 0) -> socratic.Circuit:
    return socratic.rat_spn(
        3, n_classes, n_sums=2, n_leaves=2, depth=1, n_repetitions=2, leaf=family, seed=seed
    ).double()


def some_values(family: Family, n_rows: int = 6) -> np.ndarray:
    x, _ = two_clusters(family, n_rows, seed=3)
    x[0] = NAN
    x[1, 1] = NAN
    return x


def test_circuits_and_their_graphs_agree(family: Family, tmp_path: Path) -> None:
    circuit = small_circuit(family, 2)
    x = some_values(family)
    expected = circuit.log_likelihood(x).detach()
    assert expected.isfinite().all()
    torch.testing.assert_close(expected[0], torch.zeros(2, dtype=torch.float64))
    graph = circuit.to_graph()
    torch.testing.assert_close(graph.log_likelihood(x).detach(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(socratic.tdi(graph, x).log_mean, socratic.tdi(circuit, x).log_mean, rtol=1e-6, atol=1e-6)
    for model, name in ((circuit, "circuit"), (graph, "graph")):
        model.save(tmp_path / name)
        again = socratic.load(tmp_path / name)
        assert torch.equal(again.log_likelihood(x), model.log_likelihood(x))
    spatial = socratic.spatial_spn(2, 2, 1, n_sums=2, n_leaves=2, leaf=family)
    assert spatial.log_likelihood(np.full((1, 4), NAN)).detach().abs().item() < 1e-5


def test_queries_agree_on_circuits_and_graphs(family: Family) -> None:
    circuit = small_circuit(family)
    graph = circuit.to_graph()
    x = some_values(family)
    one, other = (socratic.expectation(model, x) for model in (circuit, graph))
    torch.testing.assert_close(one.mean, other.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(one.variance, other.variance, rtol=1e-4, atol=1e-6)
    for model in (circuit, graph):
        drawn = socratic.sample(model, 4000, seed=1).x
        assert not family.invalid(drawn).any()
        spread = (one.variance[0] / len(drawn)).sqrt()
        assert ((drawn.mean(0) - one.mean[0]).abs() < 5 * spread).all()
        completed = socratic.conditional_sample(model, x, 3).x
        assert not completed.isnan().any()
        best = socratic.mpe(model, x)
        assert not family.invalid(best.x).any()
        assert (best.log_likelihood <= best.log_bound + 1e-9).all()
    if family.n_values is not None:
        table = socratic.expectation(circuit, x, tables=[1]).probabilities[1]
        torch.testing.assert_close(table.sum(1), torch.ones(len(x), dtype=torch.float64))


def test_values_outside_the_domain_are_refused(family: Family) -> None:
    if family.real:
        pytest.skip("every number is a value")
    wrong = [[-1.0, NAN, NAN]]
    for model in (small_circuit(family), small_circuit(family).to_graph()):
        with pytest.raises(ValueError, match=f"in column 0, whose leaves are {family.name}; got -1 in row 0"):
            model.log_likelihood(wrong)


def test_expectation_maximisation_raises_the_likelihood(family: Family) -> None:
    x, _ = two_clusters(family, 300)
    x[:20, 0] = NAN
    circuit = small_circuit(family).float()
    initialise_leaves(circuit, torch.as_tensor(x))
    history = fit_em(circuit, rows_of(x), n_epochs=12, smoothing=1e-3)
    losses = [epoch.loss for epoch in history.epochs]
    assert all(later <= earlier + 1e-3 for earlier, later in itertools.pairwise(losses))
    assert -circuit.log_likelihood(x).detach().mean().item() / 3 <= losses[0]


def test_gradients_raise_the_likelihood(family: Family) -> None:
    x, y = two_clusters(family, 200)
    circuit = small_circuit(family, 2).float()
    initialise_leaves(circuit, torch.as_tensor(x))
    settings = TrainingSettings(
        n_epochs=8, batch_size=50, learning_rate=0.05, cross_entropy_weight=0.5, dropout=0.1, leaf_dropout=0.1
    )
    history = fit_gradient(circuit, rows_of(x, y), settings, torch.log(torch.tensor([0.5, 0.5])))
    assert all(value.isfinite().all() for value in circuit.parameters())
    assert history.epochs[-1].loss < history.epochs[0].loss


def test_structures_are_learned(family: Family) -> None:
    x, _ = two_clusters(family, 400)
    x[:20, 0] = NAN
    graph = socratic.Graph(socratic.learn_spn(x, family, min_rows=40), dtype=torch.float64)
    fresh, _ = two_clusters(family, 200)
    found = graph.log_likelihood(fresh).detach()
    assert found.isfinite().all()
    whole = [family.fit_column(x[~np.isnan(x[:, column]), column]) for column in range(3)]
    alone = [sum(leaf.log_density(value) for leaf, value in zip(whole, row, strict=True)) for row in fresh]
    assert found.mean().item() > np.mean(alone) - 0.05


def test_estimators_take_names_and_instances(family: Family, tmp_path: Path) -> None:
    x, y = two_clusters(family, 240)
    settings = {"n_sums": 3, "n_repetitions": 2, "n_epochs": 5, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # too few rows to calibrate by
        by_name = socratic.CircuitClassifier(leaf=dict.fromkeys(("x0", "x1", "x2"), family.name), **settings).fit(x, y)
        model = socratic.CircuitClassifier(leaf={"x0": family, "x1": family, "x2": "gaussian"}, **settings).fit(x, y)
    assert [column.kind for column in model.table_.columns] == [family.name, family.name, "gaussian"]
    assert [column.kind for column in by_name.table_.columns] == [family.name] * 3
    assert all(line.startswith(f"x{i}: {family.name} (") for i, line in enumerate(by_name.describe_columns()))
    expected = model.predict_proba(x)
    assert np.isfinite(expected).all()
    model.save(tmp_path / "model")
    again = socratic.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(x), expected)
    drawn, _ = by_name.sample(50, random_state=0)
    assert not family.invalid(torch.as_tensor(np.asarray(drawn, dtype=np.float64))).any()


def test_pictures_and_summaries_name_the_family(family: Family) -> None:
    circuit = small_circuit(family)
    assert socratic.summary(circuit).leaves == {family.name: 12}
    assert repr(socratic.summary(circuit.to_graph())).count(family.name) == 1
    pytest.importorskip("graphviz")
    picture = socratic.draw(socratic.Graph(socratic.Leaf(0, circuit.leaves.leaf_groups()[0].distributions()[0][0])))
    assert f"{family.name}: " in picture.source


def test_whole_numbers_stay_whole(family: Family) -> None:
    if not is_discrete(family):
        pytest.skip("values are not whole numbers")
    drawn = socratic.sample(small_circuit(family), 100).x
    assert torch.equal(drawn, drawn.round())
