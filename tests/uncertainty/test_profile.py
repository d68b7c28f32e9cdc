from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.covariance import LedoitWolf

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.errors import ModelFileError
from socratic.families import Bernoulli, Gaussian
from socratic.uncertainty.profile import Profile
from tests.inference.circuits import peaky_circuit

NAN = np.nan
PRIOR = [0.3, 0.7]


def circuit_of(n_repetitions: int = 2) -> socratic.Circuit:
    return peaky_circuit((8, 2, n_repetitions, 3, 3, 2, "all-pairs"), seed=1)


def rows_of(circuit: socratic.Circuit, n: int, seed: int = 0) -> torch.Tensor:
    return socratic.sample(circuit, n, class_prior=PRIOR, seed=seed).x


def test_it_is_the_mahalanobis_distance_of_the_regions() -> None:
    circuit = circuit_of()
    familiar, others = rows_of(circuit, 300), 2.0 * rows_of(circuit, 20, seed=1)
    profile = Profile.fit(circuit, familiar, class_prior=PRIOR, min_columns=3)
    regions = [
        socratic.region_log_likelihood(circuit, x, min_columns=3, class_prior=PRIOR).values.numpy()
        for x in (familiar, others)
    ]
    expected = LedoitWolf().fit(regions[0]).mahalanobis(regions[1]) / 2.0
    np.testing.assert_allclose(profile.score(circuit, others, class_prior=PRIOR), expected, rtol=1e-8)


def test_given_the_class_rows_are_compared_with_their_own() -> None:
    circuit = circuit_of()
    familiar, others = rows_of(circuit, 2000), rows_of(circuit, 20, seed=1)
    profile = Profile.fit(circuit, familiar, class_prior=PRIOR, by_class=True)
    assert profile.excess.shape[0] == 2

    def best(x: torch.Tensor) -> torch.Tensor:
        return (circuit.log_likelihood(x).detach() + torch.tensor(PRIOR).double().log()).argmax(1)

    regions = [socratic.region_log_likelihood(circuit, x, min_columns=2, class_index=best(x)).values.numpy() for x in
               (familiar, others)]  # fmt: skip
    means = np.stack([regions[0][best(familiar) == label].mean(0) for label in range(2)])
    pooled = LedoitWolf(assume_centered=True).fit(regions[0] - means[best(familiar)])
    expected = pooled.mahalanobis(regions[1] - means[best(others)]) / 2.0
    np.testing.assert_allclose(profile.score(circuit, others, class_prior=PRIOR), expected, rtol=0.05)


def in_other_units(circuit: socratic.Circuit, factor: float) -> Graph:
    """The same distribution of rows whose columns were multiplied."""
    graph = circuit.to_graph()

    def scaled(node: Node) -> Node:
        if isinstance(node, Leaf):
            plain = node.distribution.parameters
            return Leaf(node.variable, Gaussian.of(plain["mean"] * factor, plain["variance"] * factor**2))
        children = tuple(map(scaled, node.children))
        return Product(children) if isinstance(node, Product) else Sum(children, node.weights)

    return Graph(tuple(map(scaled, graph.roots)), graph.n_features, dtype=torch.float64)


def test_units_do_not_matter_also_where_values_are_missing() -> None:
    circuit = peaky_circuit((4, 2, 1, 2, 2, 2, "all-pairs"), seed=1)
    familiar, others = rows_of(circuit, 100), rows_of(circuit, 20, seed=1)
    others[::2, 0] = others[::3, 1] = familiar[::5, 2] = NAN
    graph, grams = circuit.to_graph(), in_other_units(circuit, 1000.0)
    for by_class in (False, True):
        profiles = [Profile.fit(model, familiar * factor, by_class=by_class) for model, factor in
                    ((graph, 1.0), (grams, 1000.0))]  # fmt: skip
        expected, found = profiles[0].score(graph, others), profiles[1].score(grams, 1000.0 * others)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_missing_values_make_rows_neither_unfamiliar_nor_impossible() -> None:
    circuit = circuit_of()
    familiar, others = rows_of(circuit, 1000), rows_of(circuit, 1000, seed=1)
    profile = Profile.fit(circuit, familiar, class_prior=PRIOR)
    whole = profile.score(circuit, others, class_prior=PRIOR)
    others[torch.rand(others.shape, generator=torch.Generator().manual_seed(0)) < 0.3] = NAN
    partly = profile.score(circuit, others, class_prior=PRIOR)
    assert np.median(partly) < np.quantile(whole, 0.7)
    assert np.quantile(partly, 0.95) < 1.5 * np.quantile(whole, 0.95)
    nothing = profile.score(circuit, np.full((1, 8), NAN), class_prior=PRIOR)
    np.testing.assert_allclose(nothing, 0.0, atol=1e-12)


def test_it_finds_rows_that_are_too_likely() -> None:
    circuit = peaky_circuit((100, 3, 1, 2, 2, 1, "all-pairs"), seed=1)
    familiar = [socratic.sample(circuit, 300, seed=seed).x for seed in range(2)]
    profile = Profile.fit(circuit, familiar[0])
    smooth = socratic.mpe(circuit, np.full((1, 100), NAN)).x
    assert circuit.log_likelihood(smooth).item() > circuit.log_likelihood(familiar[1]).max().item()
    assert profile.score(circuit, smooth)[0] > 1.5 * profile.score(circuit, familiar[1]).max()


def test_weights_count_as_copies() -> None:
    circuit = circuit_of()
    x, others = rows_of(circuit, 60), rows_of(circuit, 5, seed=1)
    twice = torch.cat([x, x[:20]])
    weights = np.ones(60)
    weights[:20] = 2.0
    one = Profile.fit(circuit, x, weights)
    other = Profile.fit(circuit, twice)
    np.testing.assert_allclose(one.column_mean, other.column_mean)
    np.testing.assert_allclose(one.excess, other.excess)
    zero = Profile.fit(circuit, twice, np.r_[np.ones(60), np.zeros(20)]).score(circuit, others)
    np.testing.assert_allclose(zero, Profile.fit(circuit, x).score(circuit, others))


def test_impossible_rows_are_infinitely_unusual() -> None:
    graph = Graph(
        Sum((Product((Leaf(0, Bernoulli.of(1.0)), Leaf(1, Gaussian.of(0.0, 1.0)))),
             Product((Leaf(0, Bernoulli.of(1.0)), Leaf(1, Gaussian.of(3.0, 1.0))))), (0.4, 0.6)),
    )  # fmt: skip
    x = np.column_stack([np.ones(50), np.random.default_rng(0).normal(size=50)])
    x[0, 0] = 0.0
    profile = Profile.fit(graph, x)
    scores = profile.score(graph, x)
    assert scores[0] == np.inf
    assert np.isfinite(scores[1:]).all()
    with pytest.raises(ValueError, match="x must hold at least 2 rows that are possible and have a weight; got 1"):
        Profile.fit(graph, x[:2])


@pytest.mark.parametrize("value", [1e100, 1e154, 1e200])
def test_rows_too_far_out_for_a_number_are_infinitely_unusual(value: float) -> None:
    circuit = socratic.rat_spn(4, 1, n_sums=2, n_leaves=2, depth=2, n_repetitions=2).double()
    x = torch.randn(60, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    profile = Profile.fit(circuit, x, min_columns=1)
    strange = x[:1].clone()
    strange[0, 1] = value
    assert profile.score(circuit, strange).tolist() == [np.inf]


def test_classes_without_a_region_say_nothing_of_it() -> None:
    def pair(a: int, b: int, mean: float) -> Product:
        return Product((Leaf(a, Gaussian.of(mean, 1.0)), Leaf(b, Gaussian.of(mean, 1.0))))

    graph = Graph((Product((pair(0, 1, 0.0), Leaf(2, Gaussian.of(0.0, 1.0)))),
                   Product((pair(1, 2, 9.0), Leaf(0, Gaussian.of(9.0, 1.0))))), dtype=torch.float64)  # fmt: skip
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[40:] += 9.0
    profile = Profile.fit(graph, x, by_class=True)
    scores = profile.score(graph, x)
    assert np.isfinite(scores).all()
    assert profile.score(graph, x[:1] + 4.5)[0] > scores.max()


@pytest.mark.parametrize("by_class", [False, True])
def test_it_is_stored_as_plain_arrays(by_class: bool) -> None:
    circuit = circuit_of()
    x = rows_of(circuit, 40)
    profile = Profile.fit(circuit, x, by_class=by_class)
    arrays, config = profile.to_state()
    again = Profile.from_state(arrays, config)
    np.testing.assert_array_equal(again.score(circuit, x), profile.score(circuit, x))
    again.check(circuit)
    with pytest.raises(ValueError, match="its profile does not fit its circuit"):
        Profile.from_state({**arrays, "precision": np.eye(3)}, config).check(circuit)
    with pytest.raises(ValueError, match="its profile must hold finite numbers"):
        Profile.from_state({**arrays, "excess": arrays["excess"] * np.nan}, config).check(circuit)
    with pytest.raises(ModelFileError, match=r"the profile of the model cannot be read .*; save the model again"):
        Profile.from_state(arrays, {**config, "min_columns": 0})


def test_large_regions_count_where_there_are_too_many() -> None:
    x = torch.randn(30, 64)
    circuit = socratic.rat_spn(64, 1, n_sums=1, n_leaves=1, depth=5, n_repetitions=40)
    n_regions = len(socratic.region_log_likelihood(circuit, x).scopes)
    profile = Profile.fit(circuit, x)
    assert n_regions > 2 * 512
    assert profile.excess.shape[1] <= 512
    assert profile.min_columns > 2


@pytest.mark.parametrize("by_class", [False, True])
def test_crossed_scores_are_those_of_profiles_without_the_fold(by_class: bool) -> None:
    circuit = circuit_of()
    x = rows_of(circuit, 90)
    x[::7, 2] = NAN
    weights = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    folds = np.random.default_rng(1).integers(0, 4, 90)
    profile, scores = Profile.fit_crossed(circuit, x, folds, weights, class_prior=PRIOR, by_class=by_class)
    whole = Profile.fit(circuit, x, weights, class_prior=PRIOR, by_class=by_class)
    np.testing.assert_allclose(profile.score(circuit, x), whole.score(circuit, x), rtol=1e-9)
    for fold in range(4):
        mine = folds == fold
        others = Profile.fit(circuit, x[~mine], weights[~mine], class_prior=PRIOR, by_class=by_class)
        expected = others.score(circuit, x[mine], class_prior=PRIOR)
        np.testing.assert_allclose(scores[mine], expected, rtol=1e-6)
    assert scores.mean() > profile.score(circuit, x, class_prior=PRIOR).mean()  # own rows look too familiar


def test_a_single_fold_has_no_others_to_be_compared_with() -> None:
    circuit = circuit_of()
    x = rows_of(circuit, 20)
    profile, scores = Profile.fit_crossed(circuit, x, np.zeros(20, dtype=int))
    np.testing.assert_allclose(scores, profile.score(circuit, x))
