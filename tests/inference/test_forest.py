"""Forests: every tree is a circuit over rows and classes, against enumeration, integration and sampling."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from socratic.circuit.forest import Forest
from socratic.families import Bernoulli, Categorical, Gaussian
from socratic.inference import forest as module
from socratic.inference.forest import (
    TreeAnswers,
    cell_doubt,
    cell_parameters,
    forest_posterior,
    forest_shares,
    tempered_shares,
    tree_answers,
    tree_log_joint,
)
from socratic.learning.structure import grow_forest
from tests.oracles import consistent_cells

FAMILIES = [Gaussian(), Categorical(3), Bernoulli()]
GRID = np.linspace(-14.0, 16.0, 30_001)


def table(n: int = 80, seed: int = 0, missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = np.column_stack([rng.normal(1.5 * y, 0.7), (y + rng.integers(2, size=n)) % 3, rng.random(n) < 0.3 + 0.2 * y])
    x = x.astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


@pytest.fixture(scope="module")
def forest() -> Forest:
    return grow_forest(*table(), FAMILIES, 3, n_trees=5, most_cells=12, seed=1)


def every_row() -> list[np.ndarray]:
    values = itertools.product(range(3), range(2))
    return [np.column_stack([GRID, np.full_like(GRID, a), np.full_like(GRID, b)]) for a, b in values]


def answers_of(forest: Forest, x: np.ndarray, worth: float, prior_strength: float) -> TreeAnswers:
    return tree_answers(forest, x, cell_doubt(forest, worth=worth, prior_strength=prior_strength))


def test_every_tree_is_normalised(forest: Forest) -> None:
    total = sum(np.exp(tree_log_joint(forest, rows)).sum((0, 2)) for rows in every_row()) * (GRID[1] - GRID[0])
    assert np.allclose(total, 1.0, atol=3e-3)  # densities jump at the ends of boxes


def test_missing_values_are_summed_and_integrated_out(forest: Forest) -> None:
    known = np.array([[0.4, np.nan, 1.0]])
    parts = [np.exp(tree_log_joint(forest, np.array([[0.4, code, 1.0]]))) for code in range(3)]
    assert np.allclose(np.exp(tree_log_joint(forest, known)), sum(parts), rtol=1e-10)
    rows = np.column_stack([GRID, np.full_like(GRID, 2.0), np.full_like(GRID, 0.0)])
    integral = np.exp(tree_log_joint(forest, rows)).sum(0) * (GRID[1] - GRID[0])
    assert np.allclose(np.exp(tree_log_joint(forest, np.array([[np.nan, 2.0, 0.0]])))[0], integral, rtol=2e-2)


def test_answers_are_the_shares_of_the_joint(forest: Forest) -> None:
    x, _ = table(seed=5, missing=0.4)
    joint = np.exp(tree_log_joint(forest, x))
    answers = answers_of(forest, x, 1.0, 0.1)
    assert np.allclose(answers.shares, joint / joint.sum(2, keepdims=True), atol=1e-12)


def test_terms_are_those_of_every_consistent_cell(forest: Forest) -> None:
    x, _ = table(seed=5, missing=0.4)
    consistent, statistics = consistent_cells(forest, x), forest.columns.statistics(x)
    found = tree_log_joint(forest, x)
    for tree in range(forest.n_trees):
        natural, log_weight = cell_parameters(forest, tree)
        terms = np.where(consistent[:, tree], np.exp(statistics @ natural.T + log_weight), 0.0)
        np.testing.assert_allclose(np.exp(found[:, tree]), terms @ forest.class_share[tree], rtol=1e-12)


@pytest.mark.parametrize("cost", [0, 10**9])
def test_cells_that_are_multiplied_and_those_that_are_gathered_say_the_same(
    forest: Forest, monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    x, _ = table(seed=5, missing=0.6)
    expected = tree_log_joint(forest, x)
    monkeypatch.setattr(module, "_FEW_CELLS", 0)
    monkeypatch.setattr(module, "_COST_OF_GATHERING", cost)
    monkeypatch.setattr(module, "table_rows", lambda _: 7)
    assert np.allclose(tree_log_joint(forest, x), expected, rtol=1e-10)


def test_moments_against_draws_of_the_cells_class_probabilities(forest: Forest) -> None:
    x, _ = table(seed=5, missing=0.3)
    x = x[:8]
    answers = answers_of(forest, x, 0.5, 2.0)
    rng = np.random.default_rng(0)
    alpha = (2.0 + 0.5 * forest.count)[:, :, None] * np.maximum(forest.class_share, 1e-12)
    gammas = rng.standard_gamma(alpha, size=(20_000, *alpha.shape))
    drawn = gammas / gammas.sum(-1, keepdims=True)
    joint = tree_log_joint(forest, x)
    assert np.isfinite(joint).any()
    for row in range(len(x)):
        consistent = consistent_cells(forest, x[[row]])[0]
        for tree in range(forest.n_trees):
            if consistent[tree].sum() > 1:  # where shares of cells are needed: only the mean is checked here
                continue
            sample = drawn[:, tree, consistent[tree]][:, 0]
            assert np.allclose(sample.mean(0), answers.shares[row, tree], atol=0.02)
            assert np.allclose(sample.var(0), answers.variance[row, tree], atol=0.004)
            within = -(sample * np.log(np.maximum(sample, 1e-300))).sum(1).mean()
            assert within == pytest.approx(answers.entropy[row, tree], abs=0.02)


def test_memory_of_a_posterior_is_that_of_its_trees_and_classes(forest: Forest) -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(3_000, 0.1), (4, forest.n_trees))
    answers = TreeAnswers(shares, shares * (1.0 - shares) / 9.0, np.zeros(shares.shape[:2]))
    even = np.full(3_000, 1.0 / 3_000)
    classes = dataclasses.replace(
        forest,
        class_prior=even,
        class_bias=np.zeros(3_000),
        class_share=np.broadcast_to(even, (*forest.count.shape, 3_000)),
    )
    found = forest_posterior(classes, answers, classes.class_prior)  # squares of classes would be 300 MB a row
    assert found.std.shape == (4, 3_000)


def test_posterior_is_that_of_the_average_and_doubt_goes_down_with_rows(forest: Forest) -> None:
    x, _ = table(seed=5, missing=0.2)
    few = forest_posterior(forest, answers_of(forest, x, 0.1, 0.1), forest.class_prior)
    many = forest_posterior(forest, answers_of(forest, x, 10.0, 0.1), forest.class_prior)
    shares = forest_shares(forest, answers_of(forest, x, 1.0, 0.1), forest.class_prior)
    assert np.allclose(few.mean.numpy(), shares)
    assert (few.mutual_information >= many.mutual_information - 1e-12).all()
    assert (few.std >= many.std - 1e-12).all()
    assert (few.std**2 <= few.mean * (1.0 - few.mean) + 1e-12).all()


def test_another_prior_moves_the_odds(forest: Forest) -> None:
    x, _ = table(seed=5)
    answers = answers_of(forest, x, 1.0, 0.1)
    prior = np.array([0.2, 0.3, 0.5])
    plain, moved = forest_shares(forest, answers, forest.class_prior), forest_shares(forest, answers, prior)
    expected = plain * prior / forest.class_prior
    assert np.allclose(moved, expected / expected.sum(1, keepdims=True))


def test_rows_far_from_everything_still_belong_to_a_class(forest: Forest) -> None:
    x = np.array([[1e9, 0.0, 1.0], [-1e300, np.nan, np.nan], [np.nan, np.nan, np.nan]])
    shares = forest_shares(forest, answers_of(forest, x, 1.0, 0.1), forest.class_prior)
    assert np.isfinite(shares).all()
    assert np.allclose(shares.sum(1), 1.0)


TEMPERINGS = [(1.0, 0.0, [0.0, 0.0, 0.0]), (2.5, 0.2, [0.4, -0.3, -0.1]), (0.3, 0.05, [-1.0, 0.5, 0.5])]


@pytest.mark.parametrize(("sharpness", "caution", "bias"), TEMPERINGS)
def test_a_row_of_which_nothing_is_known_gets_the_class_prior(
    forest: Forest, sharpness: float, caution: float, bias: list[float]
) -> None:
    forest = dataclasses.replace(forest, sharpness=sharpness, caution=caution, class_bias=np.array(bias))
    answers = answers_of(forest, np.full((1, 3), np.nan), 1.0, 0.1)
    for prior in (forest.class_prior, np.array([0.2, 0.3, 0.5])):
        assert np.allclose(forest_shares(forest, answers, prior), prior, atol=1e-12)
        assert np.allclose(forest_posterior(forest, answers, prior).mean, prior, atol=1e-12)


@pytest.mark.parametrize(("sharpness", "caution", "bias"), TEMPERINGS)
def test_deviations_are_those_of_answers_that_vary_a_little(
    sharpness: float, caution: float, bias: list[float]
) -> None:
    forest = grow_forest(*table(), FAMILIES, 3, n_trees=2, most_cells=12, seed=1)
    forest = dataclasses.replace(forest, sharpness=sharpness, caution=caution, class_bias=np.array(bias))
    prior = np.array([0.2, 0.3, 0.5])
    mean = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], size=20)
    change = 1e-5 * np.array([0.7, -0.2, -0.5])
    trees = np.stack([mean + change, mean - change], 1)  # whose average is the mean
    answers = TreeAnswers(trees, np.zeros_like(trees), np.zeros(trees.shape[:2]))
    above, below = (tempered_shares(torch.as_tensor(trees[:, tree]), forest, prior).numpy() for tree in range(2))
    found = forest_posterior(forest, answers, prior).std.numpy()
    assert np.allclose(found, np.abs(above - below) / 2.0, rtol=1e-4)


@pytest.mark.parametrize(("sharpness", "caution", "bias"), TEMPERINGS)
def test_deviations_are_those_of_the_whole_covariance(
    forest: Forest, sharpness: float, caution: float, bias: list[float]
) -> None:
    """Compared with products of matrices for each row."""
    forest = dataclasses.replace(forest, sharpness=sharpness, caution=caution, class_bias=np.array(bias))
    answers = answers_of(forest, table(seed=5, missing=0.4)[0], 0.3, 0.1)
    found = forest_posterior(forest, answers, np.array([0.2, 0.3, 0.5]))
    told = module._tell(torch.as_tensor(answers.shares.mean(1)), module.Tempering.of(forest))
    for row, mean in enumerate(answers.shares.mean(1)):
        answer, sure, shares, information = (
            each[row].numpy() for each in (found.mean, told.sure, told.shares, told.told)
        )
        slope = np.diag(sharpness / np.maximum(mean, 1e-30)) + np.outer(told.slope[row].numpy() * bias, information)
        slope = (1.0 - caution) * np.diag(sure / shares) @ (slope - sure @ slope)
        slope = np.diag(answer) @ (slope - answer @ slope)
        centred = answers.shares[row] - mean
        covariance = centred.T @ centred / forest.n_trees + np.diag(answers.variance[row].mean(0))
        variance = np.minimum(np.diag(slope @ covariance @ slope.T), answer * (1.0 - answer))
        assert np.allclose(found.std[row], np.sqrt(variance), atol=1e-9)


def test_a_class_without_rows_is_never_the_answer() -> None:
    x, y = table()
    forest = grow_forest(x, np.minimum(y, 1), FAMILIES, 3, n_trees=4, seed=1)
    answers = answers_of(forest, x, 1.0, 0.1)
    for prior in (forest.class_prior, np.array([0.2, 0.3, 0.5])):
        found = forest_posterior(forest, answers, prior)
        assert np.allclose(found.mean.sum(1), 1.0)
        assert (found.mean[:, 2] == 0.0).all()
        assert torch.isfinite(found.std).all()


def test_growing_depends_on_the_seed_alone() -> None:
    x, y = table()
    one, two, other = (
        grow_forest(x, y, FAMILIES, 3, n_trees=3, seed=seed, n_jobs=jobs) for seed, jobs in [(1, 1), (1, 2), (2, 1)]
    )
    assert all(np.array_equal(value, two.parts()[0][name]) for name, value in one.parts()[0].items())
    assert not np.array_equal(one.count, other.count)


def test_a_damaged_forest_is_refused(forest: Forest) -> None:
    arrays, config = forest.parts()
    assert Forest.from_parts(arrays, config).n_trees == 5
    with pytest.raises(ValueError, match="mean of a forest must have the shape"):
        Forest.from_parts({**arrays, "mean": arrays["mean"][:, :2]}, config)
    with pytest.raises(ValueError, match="left of a forest must hold whole numbers from 0"):
        Forest.from_parts({**arrays, "left": arrays["left"] + 10_000}, config)
    for way_back in (0, 1):  # to the root, and to a node that has a parent already
        right = np.where(arrays["cell"] < 0, way_back, arrays["right"])
        with pytest.raises(ValueError, match="must lead to nodes of their own"):
            Forest.from_parts({**arrays, "right": right}, config)
    with pytest.raises(ValueError, match="positive variances"):
        Forest.from_parts({**arrays, "variance": 0.0 * arrays["variance"]}, config)
    with pytest.raises(ValueError, match="sharpness of a forest must be at least 0; got -1"):
        Forest.from_parts(arrays, {**config, "sharpness": -1.0})
    with pytest.raises(ValueError, match="caution of a forest must be from 0 to 1; got nan"):
        Forest.from_parts(arrays, {**config, "caution": np.nan})
    with pytest.raises(ValueError, match="class_bias of a forest must be finite"):
        Forest.from_parts({**arrays, "class_bias": np.full(3, np.inf)}, config)


def test_one_row_a_class_and_rows_that_are_all_alike() -> None:
    x = np.zeros((4, 2))
    forest = grow_forest(x, np.array([0, 0, 1, 1]), [Gaussian()] * 2, 2, n_trees=4)
    shares = forest_shares(forest, answers_of(forest, x, 1.0, 0.1), forest.class_prior)
    assert np.isfinite(shares).all()


def test_a_column_that_no_tree_looks_at_makes_no_difference() -> None:
    x, y = table(missing=0.0)
    x[:, 1] = np.nan
    forest = grow_forest(x, y, FAMILIES, 3, n_trees=5, most_cells=12, seed=1)
    joint = np.exp(tree_log_joint(forest, x))
    shares = joint / joint.sum(2, keepdims=True)
    for column in (np.nan, 2.0):
        x[:, 1] = column
        found = answers_of(forest, x, 1.0, 0.1)
        np.testing.assert_allclose(found.shares, shares, rtol=1e-9)


@pytest.mark.parametrize("columns", [[0], [1, 2]], ids=["numbers alone", "categories alone"])
def test_columns_of_one_kind(columns: list[int]) -> None:
    x, y = table(missing=0.3)
    x, families = x[:, columns], [FAMILIES[column] for column in columns]
    forest = grow_forest(x, y, families, 3, n_trees=5, most_cells=12, seed=1)
    joint = np.exp(tree_log_joint(forest, x))
    found = answers_of(forest, x, 1.0, 0.1)
    np.testing.assert_allclose(found.shares, joint / joint.sum(2, keepdims=True), rtol=1e-9)
