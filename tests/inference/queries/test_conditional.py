from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Gaussian
from tests.inference.queries.worlds import EVIDENCE, KINDS, NAN, PRIOR, make_world


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("class_index", [None, 1])
def test_conditionals_equal_enumeration(kind: str, class_index: int | None) -> None:
    world = make_world(kind)
    prior = PRIOR if class_index is None else np.eye(2)[class_index]
    options = {"class_prior": PRIOR.tolist()} if class_index is None else {"class_index": class_index}
    for evidence in EVIDENCE:
        expected = world.given(evidence, prior)
        matching = world.matches(evidence)
        found = socratic.conditional_log_likelihood(world.circuit, world.states[matching], evidence[None], **options)
        np.testing.assert_allclose(found.exp().detach(), expected[matching], rtol=1e-9)


def test_what_is_asked_may_leave_variables_open() -> None:
    world = make_world("all-pairs")
    evidence, asked = np.array([[1.0, NAN, NAN, NAN]]), np.array([[NAN, NAN, 2.0, NAN]])
    given = world.given(evidence[0], PRIOR)
    expected = given[world.states[:, 2] == 2.0].sum()
    found = socratic.conditional_log_likelihood(world.circuit, asked, evidence, class_prior=PRIOR)
    assert found.exp().item() == pytest.approx(expected, rel=1e-9)


def test_marginals_mix_classes() -> None:
    world = make_world("element-wise")
    found = socratic.marginal_log_likelihood(world.circuit, EVIDENCE, class_prior=PRIOR).exp().detach()
    np.testing.assert_allclose(found, [world.joint(row, PRIOR).sum() for row in EVIDENCE], rtol=1e-9)
    by_row = socratic.marginal_log_likelihood(world.circuit, EVIDENCE[:2], class_index=[1, 0])
    each = world.circuit.log_likelihood(EVIDENCE[:2])
    torch.testing.assert_close(by_row, torch.stack([each[0, 1], each[1, 0]]))


def test_one_row_of_evidence_serves_all_and_classes_may_differ() -> None:
    world = make_world("all-pairs")
    states, evidence = world.states[[0, 5, 6]], np.full((1, 4), NAN)
    found = socratic.conditional_log_likelihood(world.circuit, states, evidence, class_index=torch.tensor([0, 1, 0]))
    expected = world.circuit.log_likelihood(states)[[0, 1, 2], [0, 1, 0]]
    torch.testing.assert_close(found, expected)


def test_conditionals_keep_their_digits_thousands_of_nats_below_zero() -> None:
    circuit = socratic.rat_spn(400, 2, n_sums=3, n_leaves=3, depth=3, n_repetitions=2)
    x = 8.0 * torch.ones(1, 400)
    evidence = x.clone()
    evidence[0, :3] = torch.nan
    found = socratic.conditional_log_likelihood(circuit, x, evidence, class_index=0)
    exact = socratic.conditional_log_likelihood(circuit.double(), x, evidence, class_index=0)
    assert socratic.marginal_log_likelihood(circuit, evidence).item() < -10_000
    assert found.item() == pytest.approx(exact.item(), abs=0.02)


def test_conditionals_far_away_are_differences_before_rounding() -> None:
    def normals(mean: float) -> Product:
        return Product((Leaf(0, Gaussian.of(mean, 1.0)), Leaf(1, Gaussian.of(mean, 2.0))))

    graph = Graph(Sum((normals(0.0), normals(1.0)), (0.5, 0.5)), dtype=torch.float32)
    x, evidence = [[-1e6, 0.5]], [[-1e6, NAN]]
    found = socratic.conditional_log_likelihood(graph, x, evidence)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(Gaussian.of(0.0, 2.0).log_density(0.5), abs=1e-4)  # the digits of float64
    circuit = socratic.rat_spn(2, 1, depth=1, n_repetitions=1)
    found, exact = (socratic.conditional_log_likelihood(kind, x, evidence) for kind in (circuit, circuit.double()))
    assert found.item() == pytest.approx(exact.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_index": 2}, "class_index must be between 0 and 1; got 2"),
        ({"class_index": [0, 1, 0]}, r"one for each of 2 rows; got the shape \(3,\)"),
        ({"class_index": 0.5}, "class_index must hold whole numbers; got 0.5"),
        ({"class_index": 0, "class_prior": [0.5, 0.5]}, "give one of them, not both"),
        ({"class_prior": [0.5, 0.6]}, "class_prior must sum to 1"),
        ({"evidence": np.zeros((3, 4))}, "evidence must have one row, or as many as x; got 3 and 2"),
        ({"evidence": np.array([[0.0, 1.0, NAN, NAN]])}, "different values in row 0, column 1"),
    ],
)
def test_misuse_is_named(options: dict[str, object], message: str) -> None:
    circuit = make_world("all-pairs").circuit
    with pytest.raises(ValueError, match=message):
        socratic.conditional_log_likelihood(circuit, np.zeros((2, 4)), **{"evidence": np.full((2, 4), NAN), **options})
