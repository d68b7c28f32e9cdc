from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import socratic
from socratic.circuit.layout import plan_layout
from socratic.families import Binomial, Categorical, Family
from socratic.inference.kinds import engine_of
from socratic.memory import Budget


@pytest.fixture
def circuit() -> socratic.Circuit:
    return socratic.rat_spn(7, 3, n_sums=4, n_leaves=3, depth=3, n_repetitions=2).double()


def test_probabilities_of_all_states_sum_to_one() -> None:
    circuit = socratic.rat_spn(
        4,
        2,
        n_sums=3,
        n_leaves=2,
        depth=2,
        n_repetitions=2,
        leaf=["bernoulli", Categorical(3), Binomial(2), "bernoulli"],
    ).double()
    states = torch.tensor(list(itertools.product(range(2), range(3), range(3), range(2))), dtype=torch.float64)
    torch.testing.assert_close(circuit.log_likelihood(states).exp().sum(0), torch.ones(2, dtype=torch.float64))


def test_missing_values_are_marginalised_exactly() -> None:
    circuit = socratic.rat_spn(3, 2, n_sums=3, n_leaves=2, depth=2, leaf=Categorical(3)).double()
    row = torch.tensor([[2.0, torch.nan, 1.0]], dtype=torch.float64)
    filled = torch.tensor([[2.0, value, 1.0] for value in range(3)], dtype=torch.float64)
    expected = torch.logsumexp(circuit.log_likelihood(filled), dim=0, keepdim=True)
    torch.testing.assert_close(circuit.log_likelihood(row), expected)


def test_missing_gaussians_integrate_out(circuit: socratic.Circuit) -> None:
    rows = torch.zeros(4001, 7, dtype=torch.float64)
    rows[:, 2] = torch.linspace(-12, 12, 4001)
    integral = torch.trapezoid(circuit.log_likelihood(rows).exp(), rows[:, 2], dim=0)
    missing = torch.zeros(1, 7, dtype=torch.float64)
    missing[0, 2] = torch.nan
    torch.testing.assert_close(circuit.log_likelihood(missing).exp()[0], integral, rtol=1e-8, atol=0)


def test_a_row_without_values_has_log_likelihood_zero(circuit: socratic.Circuit) -> None:
    found = circuit.log_likelihood(torch.full((2, 7), torch.nan))
    torch.testing.assert_close(found, torch.zeros(2, 3, dtype=torch.float64))


def test_an_empty_batch_gives_an_empty_result(circuit: socratic.Circuit) -> None:
    assert circuit.log_likelihood(torch.zeros(0, 7)).shape == (0, 3)


def test_arrays_and_lists_are_welcome(circuit: socratic.Circuit) -> None:
    x = np.zeros((2, 7), dtype=np.int64)
    assert torch.equal(circuit.log_likelihood(x), circuit.log_likelihood(x.tolist()))


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_chunks_do_not_change_results(circuit: socratic.Circuit, chunk_size: int) -> None:
    x = torch.randn(10, 7)
    torch.testing.assert_close(circuit.log_likelihood(x, chunk_size=chunk_size), circuit.log_likelihood(x))


def test_tiles_do_not_change_results(circuit: socratic.Circuit, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(10, 7)
    whole = circuit.log_likelihood(x)
    monkeypatch.setattr("socratic.memory._TILE_BYTES", Budget(200, 200))
    with torch.no_grad():
        torch.testing.assert_close(circuit.log_likelihood(x), whole)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_products_of_distant_winners_do_not_underflow(product: str) -> None:
    """The best left and the best right leaf do not meet in element-wise products: 2,800 nats are lost."""
    circuit = socratic.rat_spn(2, 1, n_sums=2, n_leaves=2, depth=1, n_repetitions=1, product=product).double()
    with torch.no_grad():
        circuit.leaves.leaf_groups()[0].values["mean"].copy_(torch.tensor([[0.0, 60.0], [60.0, 0.0]]))
    x = torch.zeros(1, 2, dtype=torch.float64)
    (expected,) = socratic.sample_log_likelihoods(circuit, x, dropout=0.0, n_passes=1)
    found = circuit.log_likelihood(x)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in circuit.parameters())


def test_a_value_too_large_for_the_type_is_shown_as_given() -> None:
    with pytest.raises(ValueError, match=r"x must be finite in torch.float32 .*; got 1e\+300 in row 0, column 1"):
        socratic.rat_spn(2, 2, depth=1).log_likelihood([[0.0, 1e300]])


def test_lists_keep_their_digits(circuit: socratic.Circuit) -> None:
    row = [[0.1] * 7]
    assert torch.equal(circuit.log_likelihood(row), circuit.log_likelihood(torch.tensor(row, dtype=torch.float64)))


def test_values_far_outside_stay_ordered_and_finite() -> None:
    circuit = socratic.rat_spn(20, 2, depth=2)
    x = torch.zeros(4, 20)
    x[1], x[2], x[3] = 1e3, 1e10, 1e30
    found = circuit.log_likelihood(x)
    assert not found.isnan().any()
    assert (found[:-1] > found[1:]).all()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 6), r"x must have the shape \(rows, 7\), one column for each feature; got \(2, 6\)"),
        (torch.zeros(7), r"got \(7,\)"),
        (torch.tensor([[0.0] * 6 + [torch.inf]]), "x must be finite .*; got inf in row 0, column 6"),
        (None, "x must be an array or tensor of numbers; got NoneType"),
        ([["a"] * 7], "x must be an array or tensor of numbers; got list"),
        (torch.tensor([[0.0] * 6 + [-torch.inf]]), "got -inf in row 0, column 6"),
        (torch.zeros(2, 7, dtype=torch.complex64), "x must hold real numbers; got torch.complex64"),
    ],
)
def test_bad_rows_are_named(circuit: socratic.Circuit, x: torch.Tensor, message: str) -> None:
    for query in (
        circuit.log_likelihood,
        lambda x: socratic.tdi(circuit, x, dropout=0.1),
        lambda x: socratic.monte_carlo_dropout(circuit, x, dropout=0.1),
    ):
        with pytest.raises(ValueError, match=message):
            query(x)


@pytest.mark.parametrize(
    ("leaf", "value", "message"),
    [
        ("bernoulli", 0.5, "x must hold 0 or 1 .* in column 1, whose leaves are bernoulli; got 0.5 in row 0"),
        (Categorical(3), 3.0, "whole numbers from 0 to 2 .* in column 1, whose leaves are categorical; got 3 in row 0"),
        (Categorical(3), -1.0, "got -1 in row 0"),
        (Binomial(4), 5.0, "whole numbers from 0 to 4 .* whose leaves are binomial; got 5"),
    ],
)
def test_values_outside_the_domain_are_named(leaf: str | Family, value: float, message: str) -> None:
    circuit = socratic.rat_spn(2, 2, depth=1, leaf=["gaussian", leaf])
    with pytest.raises(ValueError, match=message):
        circuit.log_likelihood(torch.tensor([[0.0, value]]))
    assert torch.isfinite(circuit.log_likelihood(torch.tensor([[0.0, torch.nan]]))).all()


def test_chunk_size_is_checked(circuit: socratic.Circuit) -> None:
    with pytest.raises(ValueError, match="chunk_size must be a whole number of at least 1; got 0"):
        circuit.log_likelihood(torch.zeros(2, 7), chunk_size=0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_training_without_dropout_is_the_plain_likelihood(circuit: socratic.Circuit) -> None:
    x = torch.randn(6, 7)
    found = socratic.training_log_likelihood(circuit, x, generator=generator())
    torch.testing.assert_close(found, circuit.log_likelihood(x))


@pytest.mark.parametrize("leaf_dropout", [0.0, 0.3])
def test_training_draws_masks_per_row_and_from_the_generator(circuit: socratic.Circuit, leaf_dropout: float) -> None:
    x = torch.zeros(50, 7)
    settings = {"dropout": 0.3, "leaf_dropout": leaf_dropout}
    first = socratic.training_log_likelihood(circuit, x, **settings, generator=generator(1))
    again = socratic.training_log_likelihood(circuit, x, **settings, generator=generator(1))
    assert torch.equal(first, again)
    assert first[:, 0].unique().numel() > 40


def test_the_mean_of_training_masks_is_the_mean_of_unit_masks(circuit: socratic.Circuit) -> None:
    x = torch.zeros(1, 7, dtype=torch.float64)
    moments = socratic.tdi(circuit, x, dropout=0.2, masks="unit", root_dropout=True)
    n = 40_000
    values = socratic.training_log_likelihood(
        circuit, x.expand(n, 7), dropout=0.2, root_dropout=True, generator=generator(2)
    )
    relative = (values - moments.log_mean).exp()
    deviation = torch.sqrt(moments.relative_variance[0] / n)
    assert ((relative.mean(0) - 1).abs() < 4 * deviation).all()


def test_leaf_dropout_marginalises() -> None:
    """A leaf region of one variable: with probability p its density is 1, otherwise the leaf's."""
    circuit = socratic.rat_spn(1, 1, n_leaves=1, depth=0, n_repetitions=1).double()
    x = torch.full((20_000, 1), 0.7, dtype=torch.float64)
    values = socratic.training_log_likelihood(circuit, x, leaf_dropout=0.25, generator=generator()).exp()
    share = (values == 1.0).double().mean()
    assert abs(float(share) - 0.25) < 4 * (0.25 * 0.75 / 20_000) ** 0.5
    torch.testing.assert_close(values.max(0).values + values.min(0).values, 1 + circuit.log_likelihood(x[:1]).exp()[0])


def test_gradients_are_finite_when_everything_is_dropped() -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=1, n_leaves=1, depth=2, n_repetitions=1)
    values = socratic.training_log_likelihood(circuit, torch.zeros(20, 4), dropout=0.9, generator=generator())
    assert torch.isfinite(values).all()
    values.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in circuit.parameters() if parameter.grad is not None)


def test_a_dead_repetition_does_not_outvote_a_distant_live_one() -> None:
    """Repetition A fits the row, B lies 450 nats below: where A lost everything and B did not, B's value is left."""
    circuit = socratic.rat_spn(4, 1, n_sums=1, n_leaves=1, depth=2, n_repetitions=2)
    with torch.no_grad():
        (group,) = circuit.leaves.leaf_groups()
        means = torch.tensor([0.0, 15.0])[socratic_repetition_of_slot(circuit)]
        group.values["mean"].copy_(means.unsqueeze(1))
    x = torch.zeros(4000, 4)
    values = socratic.training_log_likelihood(circuit, x, dropout=0.5, generator=generator())
    sampled = torch.cat(list(socratic.sample_log_likelihoods(circuit, x[:1], dropout=0.5, n_passes=1000)))
    live = sampled[torch.isfinite(sampled)]
    assert float(live.min()) < -400
    share = float((values < -400).float().mean())
    assert abs(share - float((sampled[torch.isfinite(sampled)] < -400).float().sum()) / 1000) < 0.05


def socratic_repetition_of_slot(circuit: socratic.Circuit) -> torch.Tensor:
    """The repetition (0 or 1) of each leaf slot of a circuit with two."""
    graph = circuit.region_graph
    first = {graph.partitions[0].children[0], graph.partitions[0].children[1]}
    children = {partition.parent: partition.children for partition in graph.partitions[1:] if partition.parent}
    inside = {child for region in first for child in children.get(region, (region,))}
    order = plan_layout(graph).leaf_regions
    return torch.tensor([0 if region in inside else 1 for region in order for _ in graph.regions[region].scope])


def test_what_is_not_a_number_stays_so(circuit: socratic.Circuit) -> None:
    with torch.no_grad():
        circuit.inner_layers()[0].logits[0, 0, 0] = torch.nan
    x = torch.zeros(1, 7, dtype=torch.float64)
    assert circuit.log_likelihood(x).isnan().any()
    with torch.no_grad():
        assert circuit.log_likelihood(x).isnan().any()
    assert socratic.monte_carlo_dropout(circuit, x, n_passes=2).mean.isnan().any()
    assert socratic.tdi(circuit, x).posterior().std.isnan().any()


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((3, 7))[::-1],
        np.zeros((3, 7), dtype=">f8"),
        np.zeros((3, 7), dtype=np.longdouble),
        np.broadcast_to(np.zeros(7), (3, 7)),
    ],
    ids=["backwards", "big-endian", "long", "read-only"],
)
def test_any_numpy_array_will_do(circuit: socratic.Circuit, x: np.ndarray) -> None:
    assert circuit.log_likelihood(x).shape == (3, 3)


@pytest.mark.parametrize("x", [[[0.0] * 7, [0.0]], np.ma.masked_array(np.zeros((1, 7)), mask=True)])
def test_ragged_and_masked_rows_are_refused(circuit: socratic.Circuit, x: object) -> None:
    with pytest.raises(ValueError, match="x must be an array or tensor of numbers"):
        circuit.log_likelihood(x)


def test_chunks_count_the_statistics_of_categories() -> None:
    few = socratic.rat_spn(8, 2, depth=2, n_sums=2, n_leaves=2, leaf=Categorical(2))
    many = socratic.rat_spn(8, 2, depth=2, n_sums=2, n_leaves=2, leaf=Categorical(200))
    assert engine_of(many).entries_per_row > 10 * engine_of(few).entries_per_row


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edges_of_weight_zero_leave_what_is_far_below_the_best(dtype: torch.dtype) -> None:
    """The only product a root keeps is thousands of nats below the best of its region, which has the weight 0."""
    circuit = socratic.rat_spn(2, 1, n_sums=2, n_leaves=2, depth=1, n_repetitions=1).to(dtype)
    with torch.no_grad():
        group = circuit.leaves.leaf_groups()[0]
        group.values["mean"].copy_(torch.tensor([[0.0, 20.0], [0.0, 20.0]]))
        group.values["raw_variance"].fill_(-20.0)
        circuit.root_branches()[0].logits.copy_(torch.tensor([-torch.inf, -torch.inf, -torch.inf, 0.0]))
    row = [[0.0, 0.0]]
    expected = circuit.to_graph().log_likelihood(row).item()
    assert expected < -3000
    assert circuit.log_likelihood(row).item() == pytest.approx(expected, rel=1e-6)
