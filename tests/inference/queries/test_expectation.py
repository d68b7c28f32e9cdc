from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic.families import Binomial, Categorical, Gaussian
from socratic.inference.kinds import engine_of
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import walk
from tests.inference.circuits import peaky_circuit
from tests.inference.queries.worlds import EVIDENCE, KINDS, PRIOR, make_world


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("class_index", [None, 0])
def test_expectations_equal_enumeration(kind: str, class_index: int | None) -> None:
    world = make_world(kind, seed=1)
    prior = PRIOR if class_index is None else np.eye(2)[class_index]
    options = {"class_prior": PRIOR.tolist()} if class_index is None else {"class_index": class_index}
    found = socratic.expectation(world.circuit, EVIDENCE, tables=range(4), chunk_size=2, **options)
    for row, evidence in enumerate(EVIDENCE):
        given = world.given(evidence, prior)
        mean = given @ world.states
        np.testing.assert_allclose(found.mean[row], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.variance[row], given @ (world.states - mean) ** 2, rtol=1e-9, atol=1e-12)
        for variable, table in found.probabilities.items():
            expected = [given[world.states[:, variable] == value].sum() for value in range(table.shape[1])]
            np.testing.assert_allclose(table[row], expected, rtol=1e-9, atol=1e-12)
        classes = prior * (world.probability * world.matches(evidence)[:, None]).sum(0)
        np.testing.assert_allclose(found.class_probabilities[row], classes / classes.sum(), rtol=1e-9)


def test_gaussian_expectations_equal_integrals() -> None:
    circuit = socratic.rat_spn(
        3, 2, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, leaf=[Gaussian(), Categorical(3), Gaussian()]
    ).double()
    evidence = np.array([[np.nan, np.nan, 0.7], [np.nan, 2.0, np.nan]])
    found = socratic.expectation(circuit, evidence)
    grid = np.linspace(-12, 12, 4001)
    for row, variable in [(0, 0), (1, 0), (1, 2)]:
        asked = np.full((len(grid), 3), np.nan)
        asked[:, variable] = grid
        density = socratic.conditional_log_likelihood(circuit, asked, evidence[[row]]).exp().detach().numpy()
        mean = np.trapezoid(density * grid, grid)
        assert found.mean[row, variable].item() == pytest.approx(mean, abs=1e-8)
        assert found.variance[row, variable].item() == pytest.approx(
            np.trapezoid(density * (grid - mean) ** 2, grid), abs=1e-8
        )
    assert found.mean[0, 2] == 0.7
    assert found.variance[0, 2] == 0.0


def test_leaf_shares_are_the_gradient_of_the_log_likelihood() -> None:
    """The other way to them: how the log-likelihood changes with a leaf's log-density."""
    circuit = peaky_circuit((6, 2, 3, 3, 2, 2, "all-pairs"))
    rows = torch.randn(5, 6, dtype=torch.float64)
    rows[:, ::2] = torch.nan
    density = circuit.leaves.log_density(rows).detach().requires_grad_()
    roots = walk(circuit, LogValues.rescale(density), circuit.weights(), LogAlgebra()).of_classes(rows.dtype)
    (gradient,) = torch.autograd.grad(torch.logsumexp(roots, 1).sum(), density)
    with torch.no_grad():
        shares = engine_of(circuit).evaluate(rows).leaf_shares(torch.softmax(roots, 1))
    torch.testing.assert_close(shares, gradient)


def test_float32_far_below_zero() -> None:
    """At ten thousand nats below zero single leaves still get their shares."""
    circuit = socratic.rat_spn(300, 2, n_sums=4, n_leaves=4, depth=3, n_repetitions=2)
    evidence = 8.0 * torch.ones(2, 300)
    evidence[:, 100:] = torch.nan
    found = socratic.expectation(circuit, evidence)
    exact = socratic.expectation(circuit.double(), evidence)
    assert float(circuit.log_likelihood(evidence).detach().max()) < -2000
    torch.testing.assert_close(found.mean.double(), exact.mean, rtol=0, atol=2e-3)
    torch.testing.assert_close(found.variance.double(), exact.variance, rtol=0, atol=2e-3)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_a_sum_that_lives_on_its_regions_worst_terms(product: str) -> None:
    """Zero weights leave class 1 to leaves hundreds of nats below those of class 0: in float32 too."""
    circuit = socratic.rat_spn(
        4, 2, n_sums=2, n_leaves=2, depth=1, n_repetitions=1, leaf=Gaussian(0.01, 0.02), product=product
    )
    with torch.no_grad():
        circuit.leaves.leaf_groups()[0].values["mean"].copy_(torch.tensor([[0.0, 10.0]]).expand(4, 2))
        (root,) = circuit.root_branches()
        root.logits.fill_(-torch.inf)
        root.logits[:, 0, 0] = 0.0
        root.logits[:, 1, -1] = 0.0
    evidence = torch.tensor([[0.0, 0.0, 0.0, torch.nan]])
    for class_index, mean in [(0, 0.0), (1, 10.0)]:
        found = socratic.expectation(circuit, evidence, class_index=class_index)
        assert found.mean[0, 3].item() == pytest.approx(mean)
        drawn = socratic.conditional_sample(circuit, evidence, 50, class_index=class_index)
        assert float((drawn.x[0, :, 3] - mean).abs().max()) < 1.0


def test_impossible_evidence_gives_nan_for_its_row_alone() -> None:
    circuit = socratic.rat_spn(3, 2, depth=1, n_sums=2, n_leaves=2, leaf=Gaussian(1e-33, None)).double()
    with torch.no_grad():
        circuit.leaves.leaf_groups()[0].values["raw_variance"].fill_(-690.0)
    evidence = np.array([[np.nan, np.nan, np.nan], [1e300, np.nan, np.nan]])
    assert bool((circuit.log_likelihood(evidence)[1] == -torch.inf).all())
    found = socratic.expectation(circuit, evidence)
    assert not found.mean[0].isnan().any()
    assert found.mean[1].isnan().all()
    assert found.class_probabilities[1].isnan().all()
    drawn = socratic.conditional_sample(circuit, evidence, 3)
    assert drawn.classes[1].tolist() == [-1, -1, -1]
    assert drawn.x[1, :, 1:].isnan().all()
    assert not drawn.x[0].isnan().any()
    best = socratic.mpe(circuit, evidence)
    assert best.classes[1].item() == -1
    assert best.log_likelihood[1].item() == -np.inf
    assert best.x[1, 1:].isnan().all()
    assert socratic.conditional_log_likelihood(circuit, evidence, evidence)[1].isnan()


def test_only_discrete_variables_have_tables() -> None:
    circuit = socratic.rat_spn(2, 1, depth=1, leaf=[Gaussian(), Binomial(300)])
    assert socratic.expectation(circuit, np.full((3, 2), np.nan), tables=[1]).probabilities[1].shape == (3, 301)
    with pytest.raises(ValueError, match="finitely many values; variable 0 has more"):
        socratic.expectation(circuit, np.full((1, 2), np.nan), tables=[0])
    with pytest.raises(ValueError, match=r"tables must be a sequence of variables, such as \[1\]; got 1"):
        socratic.expectation(circuit, np.full((1, 2), np.nan), tables=1)
    with pytest.raises(ValueError, match="tables must hold variables from 0 to 1; got 'a'"):
        socratic.expectation(circuit, np.full((1, 2), np.nan), tables="a")
    with pytest.raises(ValueError, match="tables must hold variables from 0 to 1; got 2"):
        socratic.expectation(circuit, np.full((1, 2), np.nan), tables=[2])


def test_no_rows_give_empty_results() -> None:
    circuit = make_world("all-pairs").circuit
    found = socratic.expectation(circuit, np.zeros((0, 4)), tables=[1])
    assert found.mean.shape == found.variance.shape == (0, 4)
    assert found.probabilities[1].shape == (0, 3)
    assert socratic.conditional_sample(circuit, np.zeros((0, 4)), 3).x.shape == (0, 3, 4)
    assert socratic.mpe(circuit, np.zeros((0, 4))).x.shape == (0, 4)
