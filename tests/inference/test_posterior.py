from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import socratic
from socratic.inference.posterior import Posterior, expand_posterior
from tests.inference.test_moments import build
from tests.oracles import enumerate_masks

LOG_MEAN = torch.tensor([[-3.0, -3.5, -5.0]], dtype=torch.float64)
FACTOR = torch.tensor([[[0.05, 0.0], [0.02, 0.04], [0.0, 0.06]]], dtype=torch.float64)
COVARIANCE = FACTOR @ FACTOR.mT
PRIOR = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def test_the_expansion_is_the_second_order_taylor_series() -> None:
    """Against automatic differentiation of the posterior in the relative deviations of the likelihoods."""

    def posterior(relative: Tensor) -> Tensor:
        joint = PRIOR * LOG_MEAN[0].exp() * (1.0 + relative)
        return joint / joint.sum()

    at = torch.zeros(3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(posterior, at)
    hessian = torch.stack([torch.autograd.functional.hessian(lambda z, k=k: posterior(z)[k], at) for k in range(3)])
    found = expand_posterior(LOG_MEAN, COVARIANCE, PRIOR.log())
    mean = posterior(at) + 0.5 * (hessian * COVARIANCE[0]).sum((-2, -1))
    variance = (jacobian @ COVARIANCE[0] @ jacobian.T).diagonal()
    torch.testing.assert_close(found.mean[0], mean)
    torch.testing.assert_close(found.std[0], variance.sqrt())


def test_small_deviations_give_the_true_moments_and_information() -> None:
    """Against sampling Gaussian likelihoods with these moments."""
    rng = np.random.default_rng(0)
    relative = 1.0 + rng.normal(size=(400_000, 2)) @ FACTOR[0].numpy().T
    joint = relative * np.exp(LOG_MEAN[0].numpy()) * PRIOR.numpy()
    share = joint / joint.sum(1, keepdims=True)
    mean = share.mean(0)
    information = -(mean * np.log(mean)).sum() + (share * np.log(share)).sum(1).mean()
    found = expand_posterior(LOG_MEAN, COVARIANCE, PRIOR.log())
    np.testing.assert_allclose(found.mean[0], mean, atol=1e-4)
    np.testing.assert_allclose(found.std[0], share.std(0), rtol=0.02)
    assert float(found.mutual_information[0]) == pytest.approx(information, rel=0.05)
    assert float(found.entropy[0]) == pytest.approx(-(mean * np.log(mean)).sum(), abs=1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e9])
def test_large_deviations_stay_probabilities(scale: float) -> None:
    found = expand_posterior(LOG_MEAN, scale * torch.eye(3, dtype=torch.float64).unsqueeze(0), PRIOR.log())
    assert ((found.mean >= 0) & (found.mean <= 1)).all()
    torch.testing.assert_close(found.mean.sum(-1), torch.ones(1, dtype=torch.float64))
    assert (found.std <= torch.sqrt(found.mean * (1 - found.mean)) + 1e-12).all()
    assert 0 <= float(found.mutual_information) <= float(found.entropy) + 1e-12


def test_without_dropout_the_posterior_is_plain() -> None:
    circuit = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2)
    x = torch.randn(4, 6)
    posterior = socratic.tdi(circuit, x, dropout=0.0).posterior()
    torch.testing.assert_close(posterior.mean, torch.softmax(circuit.log_likelihood(x), -1))
    assert not posterior.std.any()
    assert not posterior.mutual_information.any()


def test_the_mean_improves_on_the_plain_posterior_for_small_dropout() -> None:
    """Enumerated: where dropout moves the answer little, the expansion is closer than ignoring dropout."""
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=1).double()
    x = torch.randn(1, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    truth = enumerate_masks(circuit.to_graph(), x[0].tolist(), 0.02, "edge", False)
    mean, _, dead = truth.posterior([0.5, 0.5])
    found = socratic.tdi(circuit, x, dropout=0.02).posterior()
    plain = torch.softmax(circuit.log_likelihood(x), -1)
    assert dead < 1e-4
    assert np.abs(found.mean[0].detach().numpy() - mean).max() < np.abs(plain[0].detach().numpy() - mean).max()


def test_class_priors_shift_the_posterior() -> None:
    circuit = build("balanced")
    x = torch.zeros(1, 4, dtype=torch.float64)
    with torch.no_grad():
        moments = socratic.tdi(circuit, x, dropout=0.2)
    uniform, same = moments.posterior(), moments.posterior([0.5, 0.5])
    torch.testing.assert_close(uniform.mean, same.mean)
    assert float(moments.posterior([0.9, 0.1]).mean[0, 0]) > float(uniform.mean[0, 0])
    assert moments.posterior([1.0, 0.0]).mean.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([], r"one probability for each of 2 classes; got the shape \(0,\)"),
        ([0.2, 0.3, 0.5], r"got the shape \(3,\)"),
        ([0.5, 0.6], r"class_prior must sum to 1 \(divide counts by their total\); got a sum of 1.1"),
        ([1.5, -0.5], r"probabilities of at least 0; got \[1.5, -0.5\]"),
        ([math.nan, 1.0], "probabilities of at least 0"),
    ],
)
def test_bad_priors_are_named(prior: list[float], message: str) -> None:
    circuit = build("two-leaves")
    x = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match=message):
        socratic.tdi(circuit, x, dropout=0.2).posterior(prior)
    with pytest.raises(ValueError, match=message):
        socratic.monte_carlo_dropout(circuit, x, dropout=0.2, class_prior=prior)


def test_bounds_give_no_posterior() -> None:
    moments = socratic.tdi(build("balanced"), torch.zeros(1, 4), dropout=0.2, covariance="upper")
    with pytest.raises(ValueError, match="says nothing of the posterior; compute the moments with covariance='exact'"):
        moments.posterior()


def test_an_impossible_row_gets_the_prior() -> None:
    found = expand_posterior(torch.full((1, 3), -math.inf), torch.zeros(1, 3, 3), PRIOR.float().log())
    torch.testing.assert_close(found.mean[0], PRIOR.float())


@pytest.mark.parametrize(
    ("log_mean", "scale"), [([-10.0, -200.0, -300.0], 0.0), ([-1.0, -1.2, -4.0], 50.0)], ids=["distant", "clipped"]
)
def test_certainty_has_finite_gradients(log_mean: list[float], scale: float) -> None:
    """A share of exactly 0, by distance or by clipping, must not poison the gradients."""
    values = torch.tensor([log_mean], requires_grad=True)
    covariance = (scale * torch.tensor([[[1.0, 0.5, 0.0], [0.5, 2.0, 0.1], [0.0, 0.1, 3.0]]])).requires_grad_()
    found = expand_posterior(values, covariance, PRIOR.float().log())
    assert (found.mean == 0).any()
    (found.entropy + found.mutual_information + found.std.sum()).sum().backward()
    assert values.grad is not None
    assert covariance.grad is not None
    assert torch.isfinite(values.grad).all()
    assert torch.isfinite(covariance.grad).all()


def test_where_all_classes_are_dead_the_prior_remains() -> None:
    """Whatever moments the dead were given."""
    log_mean = torch.tensor([[-torch.inf, -torch.inf], [-1.0, -torch.inf]])
    found = expand_posterior(log_mean, torch.full((2, 2, 2), 0.5), torch.log(torch.tensor([0.3, 0.7])))
    torch.testing.assert_close(found.mean, torch.tensor([[0.3, 0.7], [1.0, 0.0]]))
    assert not found.std.any()
    assert not found.mutual_information.any()


def spread_posterior(shares: np.ndarray) -> socratic.Posterior:
    """The posterior of rows from class probabilities (T, N, C) that are equally likely."""
    mean = shares.mean(0)

    def entropy_of(probabilities: np.ndarray) -> np.ndarray:
        return np.asarray(-(probabilities * np.log(probabilities)).sum(-1))

    total = entropy_of(mean)
    information, nothing = total - entropy_of(shares).mean(0), torch.zeros(len(mean)).double()
    std = torch.as_tensor(shares.std(0))
    known = torch.as_tensor(total), torch.as_tensor(information)
    return socratic.Posterior(torch.as_tensor(mean), std, *known, nothing, "made up", nothing)


def test_the_average_of_circuits_is_that_of_all_they_may_say() -> None:
    """Against the moments over every circuit and everything that is in doubt of it, as one long list."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(4), (3, 5, 7))  # circuits, states of each, rows
    found = Posterior.average([spread_posterior(each) for each in shares], torch.zeros(3, 7).double())
    expected = spread_posterior(shares.reshape(15, 7, 4))
    for name in ("mean", "std", "entropy", "mutual_information", "dead"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


def test_the_density_of_an_average_varies_with_the_circuits_that_have_a_share_in_it() -> None:
    """Against sampling small deviations of log p(x) of each circuit."""
    rng = np.random.default_rng(0)
    stds, log_density = np.array([[0.02, 0.03], [0.05, 0.01]]), np.array([[-3.0, 2.0], [-4.0, -90.0]])
    parts = [replace(spread_posterior(np.full((1, 2, 2), 0.5)), log_density_std=torch.as_tensor(each)) for each in stds]
    found = Posterior.average(parts, torch.as_tensor(log_density)).log_density_std
    assert found is not None
    sampled = log_density + stds * rng.normal(size=(200_000, 2, 2))
    truth = np.logaddexp(sampled[:, 0], sampled[:, 1]).std(0)
    np.testing.assert_allclose(found, truth, rtol=0.02)
    assert float(found[1]) == pytest.approx(0.03)  # the other circuit has no share in this row


def test_one_circuit_is_its_own_average_and_what_is_not_known_of_all_is_not_known() -> None:
    known = spread_posterior(np.full((1, 2, 2), 0.5))
    assert Posterior.average([known], torch.zeros(1, 2)) is known
    partly = replace(known, dead=None, log_density_std=None)
    found = Posterior.average([known, partly], torch.zeros(2, 2).double())
    assert found.dead is None
    assert found.log_density_std is None
    impossible = Posterior.average([known, known], torch.full((2, 2), -torch.inf).double())
    assert bool(torch.isfinite(impossible.mean).all())
