"""What every family promises, by numbers: densities, moments, quantiles, fitting, storage."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from socratic.circuit.leaves import LeafLayer
from socratic.families import Distribution, ExponentialFamily, Family, as_family, family_from_dict
from tests.families.members import SOME, VARIANTS, draw, is_discrete, quantiles, random_members, random_parameters

N_LEAVES = 4
FAR = (1e-6, 1e-4, 0.01, 0.99, 1 - 1e-4, 1 - 1e-6)


@pytest.fixture(params=VARIANTS, ids=str)
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


def expectation(distribution: Distribution, power: int, around: float) -> float:
    """The average of (x - around)^power by adding or integrating up the plain density."""
    family = distribution.family

    def term(value: float) -> float:
        return math.exp(distribution.log_density(value)) * (value - around) ** power

    parameters = family.from_plain([distribution.parameters])
    if is_discrete(family):
        last = int(quantiles(family, parameters, (1 - 1e-12,)).item()) + 50
        return math.fsum(term(float(value)) for value in range(last + 1))
    edges = np.unique(quantiles(family, parameters, (*FAR, *SOME)).numpy())
    edges = np.unique(np.linspace(edges[:-1], edges[1:], 10))  # short pieces: a jump near an end may be missed
    pieces = zip([-math.inf, *edges], [*edges, math.inf], strict=True)
    return math.fsum(quad(term, *piece, limit=200)[0] for piece in pieces)


def test_single_densities_are_normalised_with_these_moments(family: Family) -> None:
    parameters = random_parameters(family, N_LEAVES)
    means, variances = family.mean(parameters), family.variance(parameters)
    for index, distribution in enumerate(family.distributions(parameters)):
        assert expectation(distribution, 0, 0.0) == pytest.approx(1.0, abs=1e-4)
        mean = expectation(distribution, 1, 0.0)
        assert means[index].item() == pytest.approx(mean, rel=1e-4, abs=1e-4)
        assert variances[index].item() == pytest.approx(expectation(distribution, 2, mean), rel=1e-3)


def test_no_value_is_more_probable_than_the_mode(family: Family) -> None:
    parameters = random_parameters(family, N_LEAVES)
    modes = family.mode(parameters)
    assert not family.invalid(modes).any()
    for index, distribution in enumerate(family.distributions(parameters)):
        best = distribution.log_density(modes[index].item())
        others = quantiles(family, parameters, (*FAR, *SOME))[index]
        assert best >= max(distribution.log_density(value) for value in others.tolist()) - 1e-5


def test_quantiles_are_inverse_to_the_cumulated_density(family: Family) -> None:
    parameters = random_parameters(family, N_LEAVES)
    found = quantiles(family, parameters)
    assert not family.invalid(found).any()
    assert (found.diff(dim=1) >= 0).all()
    for index, distribution in enumerate(family.distributions(parameters)):
        for place in (3, 12, 20):
            value = found[index, place].item()
            if is_discrete(family):
                below, to = (
                    math.fsum(math.exp(distribution.log_density(float(k))) for k in range(int(value) + extra))
                    for extra in (0, 1)
                )
                assert below < SOME[place] <= to + 1e-12
            else:
                previous = found[index, place - 1].item()
                mass = quad(lambda x, d=distribution: math.exp(d.log_density(x)), previous, value, limit=200)[0]
                assert mass == pytest.approx(SOME[place] - SOME[place - 1], rel=1e-4)


def test_draws_have_the_moments(family: Family) -> None:
    parameters = random_parameters(family, N_LEAVES)
    for index, distribution in enumerate(family.distributions(parameters)):
        drawn = draw(distribution, 20_000, seed=index)
        mean, variance = family.mean(parameters)[index].item(), family.variance(parameters)[index].item()
        assert drawn.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / len(drawn)))
        assert drawn.var() == pytest.approx(variance, rel=0.2)


def test_tensors_agree_with_single_leaves(family: Family) -> None:
    """In circuits by statistics or directly, in graphs directly; float32 is as good as it can be."""
    layer = LeafLayer([family] * 2, [(0, 1), (1,)], N_LEAVES)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    (group,) = layer.leaf_groups()
    first = {name: value.detach()[0].double() for name, value in group.parameter_values().items()}
    x = quantiles(family, first, (0.01, 0.2, 0.5, 0.9, 0.999))[:2].t().contiguous()
    x[1, 0] = torch.nan
    rough = layer.log_density(x.float()).detach().double()
    exact = layer.double().log_density(x).detach()
    single = layer.distributions()
    for region, scope in enumerate(layer.scopes):
        for index in range(N_LEAVES):
            for row in range(len(x)):
                known = [v for v in scope if not x[row, v].isnan()]
                expected = sum(single[region][v][index].log_density(float(x[row, v])) for v in known)
                assert exact[region, index, row].item() == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert ((rough - exact).abs() <= 1e-4 + 1e-4 * exact.abs()).all()


def test_gradients_are_finite_far_from_all_data(family: Family) -> None:
    parameters = {name: value.requires_grad_() for name, value in random_parameters(family, N_LEAVES).items()}
    values = quantiles(family, {name: value.detach() for name, value in parameters.items()}, FAR)
    if family.real:
        values = torch.cat([values, torch.full((N_LEAVES, 2), 1e6, dtype=torch.float64)], dim=1)
    family.log_density(parameters, values).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in parameters.values())


def fit(family: Family, values: np.ndarray, weight: np.ndarray | None = None, rows: float = 0.0) -> Distribution:
    """The member fitted to weighted values; ``rows`` rows as of the family's neutral member."""
    neutral = {name: value.unsqueeze(1) for name, value in family.from_plain([family.neutral]).items()}
    known = torch.from_numpy(values).unsqueeze(0)
    weights = torch.ones_like(known) if weight is None else torch.from_numpy(weight).unsqueeze(0)
    fitted = family.fit(known, weights, towards=neutral, rows=rows)
    return family.distributions({name: value[0] for name, value in fitted.items()})[0]


def log_likelihood(distribution: Distribution, values: np.ndarray) -> float:
    parameters = distribution.family.from_plain([distribution.parameters])
    return distribution.family.log_density(parameters, torch.from_numpy(values).unsqueeze(0)).sum().item()


def test_fitting_finds_the_member_that_drew_the_values(family: Family) -> None:
    parameters = random_parameters(family, N_LEAVES)
    for index, truth in enumerate(family.distributions(parameters)):
        values = draw(truth, 20_000, seed=index)
        found = fit(family, values)
        assert log_likelihood(found, values) >= log_likelihood(truth, values) - 0.1
        again = found.family.from_plain([found.parameters])
        spread = math.sqrt(family.variance(parameters)[index].item())
        assert found.family.mean(again).item() == pytest.approx(
            family.mean(parameters)[index].item(), abs=0.05 * spread
        )
        assert math.sqrt(found.family.variance(again).item()) == pytest.approx(spread, rel=0.1)


def test_weights_count_as_copies(family: Family) -> None:
    values = draw(random_members(family, 1)[0], 60)
    copies = np.random.default_rng(0).integers(0, 4, 60)
    weighted, repeated = fit(family, values, copies.astype(float)), fit(family, np.repeat(values, copies))
    probe = values[:20]
    assert log_likelihood(weighted, probe) == pytest.approx(log_likelihood(repeated, probe), rel=1e-6)


def test_without_values_a_leaf_is_what_it_is_drawn_to(family: Family) -> None:
    found = fit(family, np.full(3, np.nan), rows=1.0)
    probe = draw(Distribution(family, family.neutral), 20)
    assert log_likelihood(found, probe) == pytest.approx(
        log_likelihood(type(family).of(**family.neutral), probe), rel=1e-3
    )
    nothing = fit(family, np.full(3, np.nan), rows=0.0)
    assert math.isfinite(log_likelihood(nothing, probe))


def test_parts_of_columns_are_kept_from_overfitting(family: Family) -> None:
    """One value, or none, leaves a density that is finite everywhere the column is."""
    column = draw(random_members(family, 1)[0], 300)
    whole = family.fit_column(column)
    for part in (column[:0], column[:1], np.repeat(column[:1], 9)):
        found = whole.family.fit_part(part, whole, rows=1.0, min_variance=0.01)
        assert math.isfinite(log_likelihood(found, column))
    constant = family.fit_column(np.repeat(column[:1], 50))
    assert math.isfinite(constant.log_density(float(column[0])))
    assert math.isfinite(family.fit_column(column[:0]).log_density(float(column[0])))


def test_families_and_members_are_plain_data(family: Family) -> None:
    assert family_from_dict(json.loads(json.dumps(family.to_dict()))) == family
    assert type(as_family(family.name)) is type(family)
    assert as_family(family.to_dict()) == family
    for member in random_members(family, N_LEAVES):
        again = type(member.family).of(**json.loads(json.dumps(dict(member.parameters))))
        assert again == member
        (back,) = member.family.distributions(member.family.from_plain([member.parameters]))
        value = draw(member, 1)[0]
        assert back.log_density(value) == pytest.approx(member.log_density(value), rel=1e-6)
        assert member.describe().startswith(f"{family.name}: ")
        assert "\n" not in member.describe()


def test_expected_statistics_are_those_of_the_member(family: Family) -> None:
    """What expectation maximisation is drawn to where no row comes by is a leaf as it is."""
    parameters = {name: value.unsqueeze(0) for name, value in random_parameters(family, N_LEAVES).items()}
    centre = family.centre(parameters)
    again = family.from_expectations(family.expectations(parameters, centre), centre)
    both = (family.distributions({name: value[0] for name, value in p.items()}) for p in (parameters, again))
    for one, other in zip(*both, strict=True):
        probe = draw(one, 20)
        assert log_likelihood(other, probe) == pytest.approx(log_likelihood(one, probe), rel=1e-4)


def test_statistics_are_as_many_as_said(family: Family) -> None:
    parameters = {name: value.unsqueeze(0) for name, value in random_parameters(family, N_LEAVES).items()}
    values = quantiles(family, {name: value[0] for name, value in parameters.items()})[:1, :3].unsqueeze(0)
    centre = family.centre(parameters)
    assert len(family.leaf_statistics(parameters, values, centre.view(-1, 1, 1))) == family.n_statistics
    assert family.expectations(parameters, centre).shape == (1, family.n_statistics, N_LEAVES)
    if isinstance(family, ExponentialFamily):
        assert family.natural(parameters, centre).shape == (1, family.n_statistics, N_LEAVES)


def test_values_outside_the_domain_are_told(family: Family) -> None:
    strange = torch.tensor([-1.0, 0.5, 1e9, math.nan], dtype=torch.float64)
    wrong = family.invalid(strange)
    assert not wrong[-1]
    assert family.real == (not wrong.any())
    distribution = Distribution(family, family.neutral)
    for value, refused in zip(strange.tolist()[:-1], wrong.tolist()[:-1], strict=True):
        if refused:
            assert distribution.log_density(value) == -math.inf
