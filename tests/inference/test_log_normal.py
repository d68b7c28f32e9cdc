"""The posterior of log-normal likelihoods against sampling."""

from __future__ import annotations

import pytest
import torch

from socratic.inference.log_normal import log_covariance, log_normal_posterior
from socratic.inference.posterior import entropy
from socratic.inference.saturation import saturation

PRIOR = torch.log(torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64))


def gaussians(spread: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-means (N, C) and covariances (N, C, C) of the logarithms, with much in common between classes."""
    generator = torch.Generator().manual_seed(seed)
    log_mean = 3.0 * torch.randn(6, 3, generator=generator, dtype=torch.float64) - 1000.0
    root = spread * torch.randn(6, 3, 3, generator=generator, dtype=torch.float64)
    return log_mean, root @ root.mT + 4.0 * spread


@pytest.mark.parametrize("spread", [0.05, 0.3, 1.0, 3.0])
def test_quadrature_agrees_with_sampling(spread: float) -> None:
    log_mean, covariance = gaussians(spread)
    generator = torch.Generator().manual_seed(1)
    normal = torch.randn(50_000, 6, 3, 1, generator=generator, dtype=torch.float64)
    root = torch.linalg.cholesky(covariance)
    centre = log_mean - 0.5 * covariance.diagonal(dim1=-2, dim2=-1)
    drawn = (root @ normal).squeeze(-1) + centre + PRIOR
    share = torch.softmax(drawn, dim=-1)  # (50,000, N, C)
    mean = share.mean(0)
    information = entropy(mean) - entropy(share).mean(0)
    log_density = torch.logsumexp(drawn, dim=-1)
    found = log_normal_posterior(log_mean, covariance, PRIOR, "test")
    torch.testing.assert_close(found.mean, mean, rtol=0.0, atol=0.025)
    torch.testing.assert_close(found.std, share.std(0), rtol=0.1, atol=0.02)
    torch.testing.assert_close(found.mutual_information, information, rtol=0.15, atol=0.004)
    torch.testing.assert_close(found.log_density_std, log_density.std(0), rtol=0.08, atol=0.0)


def test_an_unlikely_class_that_varies_much_is_not_missed() -> None:
    """Its information is in few draws: points that are moved there find it where as many plain ones do not."""
    log_mean = torch.tensor([[0.0, -7.0]], dtype=torch.float64)
    covariance = torch.diag_embed(torch.tensor([[0.01, 6.0]], dtype=torch.float64))
    log_prior = torch.log(torch.full((2,), 0.5, dtype=torch.float64))
    normal = torch.special.ndtri((torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000)
    odds = torch.exp(-7.0 - 3.0 + 6.0**0.5 * normal)
    share = odds / (1.0 + odds)
    truth = float(binary_entropy(share.mean()) - binary_entropy(share).mean())
    found = float(log_normal_posterior(log_mean, covariance, log_prior, "test").mutual_information)
    assert found == pytest.approx(truth, rel=0.2)


def binary_entropy(share: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(share) + torch.special.entr(1.0 - share)


def test_without_variance_the_posterior_is_the_plain_one() -> None:
    log_mean, covariance = gaussians(1.0)
    found = log_normal_posterior(log_mean, torch.zeros_like(covariance), PRIOR, "test")
    torch.testing.assert_close(found.mean, torch.softmax(log_mean + PRIOR, dim=-1), rtol=1e-4, atol=1e-6)
    assert (found.std < 1e-5).all()
    assert (found.mutual_information < 1e-8).all()
    assert found.dead is not None
    assert not found.dead.any()


def test_dead_classes_and_rows() -> None:
    log_mean, covariance = gaussians(0.5)
    log_mean[0, 1] = -torch.inf
    log_mean[1] = -torch.inf
    found = log_normal_posterior(log_mean, covariance, PRIOR, "test")
    assert found.mean[0, 1] == 0.0
    torch.testing.assert_close(found.mean[1], PRIOR.exp())
    assert found.dead is not None
    assert found.log_density_std is not None
    assert found.dead.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert found.mutual_information[1] == 0.0
    assert found.log_density_std[1] == 0.0
    assert all(torch.isfinite(part).all() for part in (found.mean, found.std, found.entropy, found.log_density_std))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_covariances_that_were_cut_off_still_give_a_posterior(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** (12.0 * torch.rand(300, 3, 1, generator=generator, dtype=torch.float64))
    root = scale * torch.randn(300, 3, 3, generator=generator, dtype=torch.float64)
    relative = (root @ root.mT).clamp(-1.0, saturation(dtype)).to(dtype)
    covariance = log_covariance(relative)
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    most = torch.sqrt(variance.unsqueeze(-1) * variance.unsqueeze(-2))
    assert (covariance.abs() <= most * (1.0 + 1e-5)).all()
    found = log_normal_posterior(
        torch.randn(300, 3, generator=generator).to(dtype), covariance, PRIOR.to(dtype), "test"
    )
    torch.testing.assert_close(found.mean.sum(-1), torch.ones(300, dtype=dtype))
    for values in (found.std, found.entropy, found.mutual_information, found.log_density_std):
        assert values is not None
        assert values.isfinite().all()
