from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

import socratic
from socratic.families import Binomial, Categorical, Gaussian
from socratic.learning import Epoch, Rows, fit_em, initialise_leaves


def rows_of(x: torch.Tensor) -> Rows:
    return Rows(x, torch.zeros(len(x), dtype=torch.long), torch.ones(len(x)))


def mixed(n: int = 300, seed: int = 0) -> torch.Tensor:
    """Two clusters of rows with a number, a flag, a category and a count; some values missing."""
    generator = torch.Generator().manual_seed(seed)
    cluster = torch.rand(n, generator=generator) < 0.4

    def pick(high: float, low: float) -> torch.Tensor:
        return torch.rand(n, generator=generator) < torch.where(cluster, high, low)

    x = torch.stack(
        [
            torch.where(cluster, 1.5, -1.0) + 0.5 * torch.randn(n, generator=generator),
            pick(0.9, 0.2).float(),
            pick(0.8, 0.3).float() + pick(0.7, 0.1).float(),
            torch.stack([pick(0.7, 0.2) for _ in range(3)]).sum(0).float(),
        ],
        dim=1,
    )
    x[torch.rand(x.shape, generator=generator) < 0.1] = torch.nan
    return x


def density(seed: int = 0) -> socratic.Circuit:
    leaf = [Gaussian(0.05, 2.0), "bernoulli", Categorical(3), Binomial(3)]
    return socratic.rat_spn(4, 1, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, leaf=leaf, seed=seed)


def test_every_step_raises_the_likelihood() -> None:
    x = mixed()
    circuit = density()
    initialise_leaves(circuit, x)
    before = float(circuit.log_likelihood(x).detach().mean())
    history = fit_em(circuit, rows_of(x), n_epochs=25, smoothing=1e-3)
    losses = [epoch.loss for epoch in history.epochs]
    assert all(later <= earlier + 1e-4 for earlier, later in itertools.pairwise(losses))
    assert float(circuit.log_likelihood(x).detach().mean()) > before + 0.1


def test_a_single_leaf_gets_the_maximum_likelihood() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 1.0], [1.0, 0.0], [1.0, torch.nan]])
    circuit = socratic.rat_spn(
        2, 1, n_sums=1, n_leaves=1, depth=0, n_repetitions=1, leaf=[Gaussian(0.01, 5.0), "bernoulli"]
    )
    fit_em(circuit, rows_of(x), n_epochs=3, smoothing=1e-3)
    (leaves,) = circuit.leaves.distributions()
    (normal,), (flag,) = leaves[0], leaves[1]
    assert normal.parameters == {"mean": pytest.approx(1.0, abs=1e-2), "variance": pytest.approx(0.5, abs=1e-2)}
    assert flag.parameters == {"probability": pytest.approx(2 / 3, abs=1e-2)}


@pytest.mark.parametrize("batch_size", [None, 10])
def test_the_best_epoch_is_kept(batch_size: int | None) -> None:
    """Few rows are soon learned by heart: the validation rows become less likely, and training stops after the best."""
    x, validation = mixed(30), rows_of(mixed(200, seed=1))
    circuit, losses = density(), []

    def loss(_: Epoch | None = None) -> float:
        return -float(circuit.log_likelihood(validation.x).detach().mean()) / circuit.n_features

    initialise_leaves(circuit, x)
    history = fit_em(
        circuit,
        rows_of(x),
        n_epochs=40,
        batch_size=batch_size,
        patience=4,
        validation=validation,
        progress=lambda epoch: losses.append(loss(epoch)),
    )
    assert loss() == pytest.approx(min(losses), abs=1e-6)
    assert history.best == int(torch.tensor(losses).argmin())
    assert [epoch.validation_loss for epoch in history.epochs] == pytest.approx(losses)
    assert history.best < len(losses) - 1 < 39


def test_without_validation_rows_the_last_epoch_is_kept() -> None:
    x = mixed(60)
    circuit, states = density(), []
    history = fit_em(
        circuit,
        rows_of(x),
        n_epochs=5,
        batch_size=20,
        progress=lambda _: states.append(circuit.log_likelihood(x).detach().clone()),
    )
    assert history.best == 4
    torch.testing.assert_close(circuit.log_likelihood(x), states[-1])


def test_weights_count_as_copies() -> None:
    x = mixed(40)
    once, twice = density(), density()
    fit_em(once, replace(rows_of(x), weight=torch.full((40,), 2.0)), n_epochs=2)
    fit_em(twice, rows_of(torch.cat([x, x])), n_epochs=2)
    torch.testing.assert_close(once.log_likelihood(x), twice.log_likelihood(x), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["circuit", "graph"])
def test_batches_reach_what_full_steps_reach_in_fewer_passes(kind: str) -> None:
    x = mixed(2000)

    def trained(batch_size: int | None) -> float:
        circuit = density()
        initialise_leaves(circuit, x)
        model = circuit if kind == "circuit" else circuit.to_graph()
        fit_em(model, rows_of(x), n_epochs=4, batch_size=batch_size)
        return float(model.log_likelihood(x).detach().mean())

    assert trained(100) > trained(None) + 0.01


def test_a_batch_of_all_rows_with_a_step_of_1_is_a_full_step() -> None:
    x = mixed(50)
    full, batch = density(), density()
    fit_em(full, rows_of(x), n_epochs=3)
    fit_em(batch, rows_of(x), n_epochs=3, batch_size=50, step=1.0)
    torch.testing.assert_close(full.log_likelihood(x), batch.log_likelihood(x), atol=1e-4, rtol=1e-4)


def test_epochs_without_a_gain_end_the_training() -> None:
    x = torch.tensor([[0.0], [1.0], [1.0]])
    circuit = socratic.rat_spn(1, 1, n_sums=1, n_leaves=1, depth=0, n_repetitions=1, leaf="bernoulli")
    history = fit_em(circuit, rows_of(x), n_epochs=50, patience=2)
    assert len(history.epochs) == 4  # the first two still gain: their losses are of the parameters before


def test_what_cannot_be_trained_is_named() -> None:
    rows = rows_of(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="circuits of one class; got 2"):
        fit_em(socratic.rat_spn(4, 2, depth=1), rows, n_epochs=1)
    with pytest.raises(ValueError, match="step must be a number above 0 and at most 1; got 0"):
        fit_em(density(), rows, n_epochs=1, step=0)
    with pytest.raises(ValueError, match="n_epochs must be a whole number of at least 1; got 0"):
        fit_em(density(), rows, n_epochs=0)
