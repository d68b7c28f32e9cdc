"""The rows of every table: ways to ask one trained model how sure it is, all on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic import Posterior, monte_carlo_dropout
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.networks import NetworkModel

Model = CircuitModel | NetworkModel


class Answer(NamedTuple):
    """What a method says of rows.

    A method that only tells how unusual a row is has neither probabilities nor entropy nor deviation.
    """

    score: np.ndarray  # (N,), how unusual; higher is more unusual
    probabilities: np.ndarray | None  # (N, C), the mean posterior
    entropy: np.ndarray | None  # (N,), of the mean posterior, in nats
    std: np.ndarray | None  # (N,), standard deviation of the probability of the predicted class

    @classmethod
    def of(cls, posterior: Posterior) -> Answer:
        """The answer of a posterior, whose score is its entropy."""
        std = posterior.std.gather(1, posterior.mean.argmax(1, keepdim=True)).squeeze(1)
        doubt = _numpy(posterior.entropy)
        return cls(doubt, _numpy(posterior.mean), doubt, _numpy(std))


Method = Callable[[Tensor], Answer]


def methods_for(model: Model, n_passes: int) -> dict[str, Method]:
    """The methods that a model can be asked by, from rows (N, V) to an answer, by name."""
    if isinstance(model, CircuitModel):
        return _circuit_methods(model, n_passes)
    return _network_methods(model, n_passes)


def _circuit_methods(model: CircuitModel, n_passes: int) -> dict[str, Method]:
    def moments(rows: Tensor, masks: str, covariance: str) -> Answer:
        return Answer.of(model.tdi(rows, masks=masks, covariance=covariance))

    def monte_carlo(rows: Tensor) -> Answer:
        prior = torch.exp(model.log_prior)
        return Answer.of(
            monte_carlo_dropout(
                model.circuit, rows, dropout=model.dropout, masks="unit", n_passes=n_passes, class_prior=prior
            )
        )

    def density(rows: Tensor) -> Answer:
        return Answer(_numpy(-torch.logsumexp(model.log_joint(rows), 1)), None, None, None)

    def combined(rows: Tensor) -> Answer:
        return Answer(model.detector.score(model.scores(rows)), None, None, None)

    return {
        "circuit alone": lambda rows: Answer.of(plain_posterior(model.log_joint(rows))),
        "TDI independent (as published)": partial(moments, masks="edge", covariance="independent"),
        "TDI exact, edge masks": partial(moments, masks="edge", covariance="exact"),
        "TDI exact, unit masks": partial(moments, masks="unit", covariance="exact"),
        "log moments, unit masks": lambda rows: Answer.of(model.dropout_posterior(rows, masks="unit")),
        f"Monte Carlo dropout, {n_passes} passes": monte_carlo,
        "log-likelihood": density,
        "combined detector": combined,
    }


def _network_methods(model: NetworkModel, n_passes: int) -> dict[str, Method]:
    if len(model.members) > 1:
        return {f"ensemble of {len(model.members)}": lambda rows: Answer.of(model.posterior(rows))}
    return {
        "network alone": lambda rows: Answer.of(model.posterior(rows)),
        f"Monte Carlo dropout, {n_passes} passes": lambda rows: Answer.of(model.posterior(rows, n_passes)),
    }


def plain_posterior(log_joint: Tensor) -> Posterior:
    """The posterior of a circuit without dropout, from log p(x, class) (N, C): certain of itself."""
    mean = torch.softmax(log_joint, 1)
    doubt = torch.special.entr(mean).sum(1)
    return Posterior(mean, torch.zeros_like(mean), doubt, torch.zeros_like(doubt), None, "plain")


def _numpy(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
