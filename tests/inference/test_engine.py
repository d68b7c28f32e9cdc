"""The contract of engines: every query gives the same answers for a layered circuit and for its graph."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import socratic
from socratic import inference
from socratic.inference.dropout import Dropout
from socratic.inference.engine import Engine, MaskDraw
from socratic.inference.graph.engine import GraphEngine
from socratic.inference.kinds import engine_of
from socratic.inference.layered.engine import LayeredEngine
from tests.inference.queries.worlds import CIRCUIT_KINDS, EVIDENCE, PRIOR, make_circuit

MASKS = pytest.mark.parametrize("masks", ["edge", "unit"])
close = torch.testing.assert_close


@pytest.fixture(params=CIRCUIT_KINDS)
def both(request: pytest.FixtureRequest) -> tuple[socratic.Circuit, socratic.Graph]:
    """The same function twice."""
    circuit = make_circuit(request.param, seed=3)
    return circuit, circuit.to_graph()


def assert_same(query: object, both: tuple[socratic.Circuit, socratic.Graph], *args: object, **options: object) -> None:
    """All tensors in the two results agree to 1e-9."""
    first, second = (query(circuit, *args, **options) for circuit in both)  # type: ignore[operator]
    parts = [(first, second)] if isinstance(first, torch.Tensor) else zip(tensors(first), tensors(second), strict=True)
    for one, other in parts:
        close(one, other, rtol=1e-9, atol=1e-9, equal_nan=True)


def tensors(result: object) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in vars(result).values():
        found += value.values() if isinstance(value, dict) else [value] if isinstance(value, torch.Tensor) else []
    assert found
    return found


def test_each_kind_has_its_engine(both: tuple[socratic.Circuit, socratic.Graph]) -> None:
    assert [type(engine_of(circuit)) for circuit in both] == [LayeredEngine, GraphEngine]


def test_likelihoods(both: tuple[socratic.Circuit, socratic.Graph]) -> None:
    rows, prior = EVIDENCE, PRIOR.tolist()
    assert_same(socratic.log_likelihood, both, rows)
    assert_same(socratic.log_likelihood, both, rows, chunk_size=2)
    assert_same(socratic.marginal_log_likelihood, both, rows, class_prior=prior)
    assert_same(socratic.conditional_log_likelihood, both, rows[3:4], rows[[0, 3]], class_prior=prior, chunk_size=1)
    assert_same(socratic.column_surprise, both, rows, class_prior=prior, chunk_size=2)
    values = [socratic.training_log_likelihood(circuit, rows, generator=torch.Generator()).exp() for circuit in both]
    close(*values, rtol=1e-9, atol=1e-9)


@MASKS
@pytest.mark.parametrize("root_dropout", [False, True])
def test_moments(both: tuple[socratic.Circuit, socratic.Graph], masks: str, root_dropout: bool) -> None:
    settings = {"dropout": 0.3, "masks": masks, "root_dropout": root_dropout}
    for covariance in ("exact", "independent"):
        assert_same(socratic.tdi, both, EVIDENCE, covariance=covariance, **settings)
        assert_same(socratic.tdi, both, EVIDENCE, covariance=covariance, chunk_size=2, **settings)
    # A layered circuit knows that repetitions are independent, so that its bound is the closer one.
    closer, wider = (socratic.tdi(circuit, EVIDENCE, covariance="upper", **settings) for circuit in both)
    close(closer.log_mean, wider.log_mean)
    assert (closer.relative_variance <= wider.relative_variance + 1e-12).all()
    options = {"method": "expansion", "class_prior": PRIOR.tolist()}
    assert_same(socratic.dropout_posterior, both, EVIDENCE, **settings, **options)
    graph = both[1]
    nodes = socratic.node_moments(graph, EVIDENCE, **settings)
    moments = socratic.tdi(graph, EVIDENCE, **settings)
    close(nodes.log_mean[:, graph.root_numbers], moments.log_mean)
    close(nodes.relative_variance[:, graph.root_numbers], moments.relative_variance)


@MASKS
@pytest.mark.parametrize("root_dropout", [False, True])
def test_masked_evaluations(both: tuple[socratic.Circuit, socratic.Graph], masks: str, root_dropout: bool) -> None:
    """Without masks nothing changes, and where all children are dropped nothing is left, unless roots keep theirs."""
    assert_same(socratic.monte_carlo_dropout, both, EVIDENCE, dropout=0.0, n_passes=2, class_prior=PRIOR.tolist())
    for circuit in both:
        rows = torch.as_tensor(EVIDENCE)
        evaluation = engine_of(circuit).masked(rows, Dropout(0.5, masks, root_dropout))
        none, everything = ([torch.full(shape, fill) for shape in evaluation.mask_shapes] for fill in (False, True))
        leaves = [torch.full(shape, True) for shape in evaluation.leaf_mask_shapes]
        draws = [MaskDraw(none, None), MaskDraw(everything, None), MaskDraw(none, leaves)]
        plain, dead, no_leaves = evaluation.log_likelihood(draws)
        close(plain, circuit.log_likelihood(rows))
        assert (dead == -torch.inf).all()
        close(no_leaves, torch.zeros(len(rows), 2, dtype=torch.float64))
        for draw, values in zip(draws, (plain, dead, no_leaves), strict=True):
            close(evaluation.log_likelihood([draw])[0], values)


def test_queries_that_come_down_again(both: tuple[socratic.Circuit, socratic.Graph]) -> None:
    prior = {"class_prior": PRIOR.tolist()}
    assert_same(socratic.expectation, both, EVIDENCE, tables=range(4), chunk_size=2, **prior)
    assert_same(socratic.mpe, both, EVIDENCE, **prior)
    for circuit in both:
        drawn = socratic.conditional_sample(circuit, EVIDENCE, 2000, seed=1)
        known = np.isfinite(EVIDENCE)
        assert (drawn.x[:, 0].numpy()[known] == EVIDENCE[known]).all()
        expected = socratic.expectation(circuit, EVIDENCE)
        error = 5.0 * torch.sqrt(expected.variance / 2000)
        assert ((drawn.x.mean(1) - expected.mean).abs() <= error).all()


LACKING = {
    "node moments": (
        lambda engine: engine.no_node_moments,
        lambda engine: socratic.node_moments(engine.circuit, EVIDENCE),
    ),
    "log-moments of masks": (
        lambda engine: engine.no_log_moments(Dropout(0.2), leaves=None),
        lambda engine: socratic.dropout_posterior(engine.circuit, EVIDENCE, method="log-moments"),
    ),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_an_engine_lacks_has_a_reason(name: str, both: tuple[socratic.Circuit, socratic.Graph]) -> None:
    """Where there is a reason the query is refused with it, and where there is none it is answered."""
    reason_of, ask = LACKING[name]
    reasons = []
    for engine in map(engine_of, both):
        reasons.append(reason_of(engine))
        if reasons[-1] is None:
            assert all(len(values) == len(EVIDENCE) for values in tensors(ask(engine)))
            continue
        with pytest.raises(ValueError, match=f"is not possible here: {re.escape(reasons[-1])}"):
            ask(engine)
    assert sum(reason is None for reason in reasons) == 1


def test_what_is_no_circuit_is_refused() -> None:
    leaf = make_circuit("all-pairs").to_graph().nodes[0]
    with pytest.raises(ValueError, match=r"circuit must be a Circuit or Graph; got a Leaf: wrap it, Graph\(node\)"):
        socratic.sample(leaf)
    with pytest.raises(ValueError, match="circuit must be a Circuit or Graph; got a list"):
        socratic.tdi([1.0], EVIDENCE)


def test_no_query_asks_for_the_kind_of_circuit() -> None:
    """One function does, and hands out engines; everything else is written over them."""
    folder = Path(inference.__file__).parent
    asks = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"isinstance\([^\n]*\b(Graph|Circuit)\b", path.read_text())
    }
    assert asks == {"kinds.py"}


def test_every_engine_says_what_it_is() -> None:
    for engine in (LayeredEngine, GraphEngine):
        assert issubclass(engine, Engine)
        assert not engine.__abstractmethods__
