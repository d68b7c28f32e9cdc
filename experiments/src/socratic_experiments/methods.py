"""The rows of every table: ways to ask one trained model how sure it is, all on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import entr
from torch import Tensor

from socratic import Posterior
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.networks import NetworkModel
from socratic_experiments.settings import CircuitRecipe, Recipe

Model = CircuitModel | NetworkModel


class Answer(NamedTuple):
    """What a method says of images.

    A method that only tells how unusual an image is has neither probabilities nor entropy nor deviation.
    """

    score: np.ndarray  # (N,), how unusual; higher is more unusual
    probabilities: np.ndarray | None = None  # (N, C), the mean posterior
    entropy: np.ndarray | None = None  # (N,), of the mean posterior, in nats
    std: np.ndarray | None = None  # (N,), standard deviation of the probability of the predicted class
    rejected: np.ndarray | None = None  # (N,) of bool: what a calibrated model refuses, where it does

    @classmethod
    def of(cls, mean: np.ndarray, std: np.ndarray) -> Answer:
        """The answer of a posterior with this mean and deviation (N, C); its score is the entropy of the mean."""
        doubt = entr(mean).sum(1)
        top = mean.argmax(1)
        return cls(doubt, mean, doubt, std[np.arange(len(std)), top])


Method = Callable[[np.ndarray], Answer]

_WAYS: dict[str, Callable[[CircuitModel, Tensor], Posterior]] = {
    "TDI independent, edge masks": lambda model, rows: model.tdi(rows, masks="edge", covariance="independent"),
    "TDI exact, edge masks": lambda model, rows: model.tdi(rows, masks="edge"),
    "TDI exact, unit masks": lambda model, rows: model.tdi(rows, masks="unit"),
    "log moments (auto), unit masks": lambda model, rows: model.dropout_posterior(rows, masks="unit"),
}
"""Estimates of the posterior under dropout by a circuit, without the number of passes."""


def method_names(recipe: Recipe, n_passes: int) -> list[str]:
    """The names of the methods that a model of a recipe will have."""
    sampled = f"Monte Carlo dropout, {n_passes} passes"
    if isinstance(recipe, CircuitRecipe):
        return ["circuit alone", *_WAYS, sampled, "log-likelihood", "combined detector"]
    return [f"ensemble of {recipe.n_members}"] if recipe.n_members > 1 else ["network alone", sampled]


def methods_for(model: Model, n_passes: int) -> dict[str, Method]:
    """The methods that a model can be asked by, from images (N, H, W, C) to an answer, by name."""
    if isinstance(model, CircuitModel):
        return _circuit_methods(model, n_passes)
    return _network_methods(model, n_passes)


def _circuit_methods(model: CircuitModel, n_passes: int) -> dict[str, Method]:
    classifier = model.classifier

    def asked(images: np.ndarray, query: Callable[[Tensor], Posterior]) -> Answer:
        return _answer(query(model.rows(images)))

    def alone(images: np.ndarray) -> Answer:
        probabilities = classifier.predict_proba(images)
        return Answer.of(probabilities, np.zeros_like(probabilities))

    def combined(images: np.ndarray) -> Answer:
        told = classifier.answer(images)
        score = classifier.detector_.score(told.uncertainty.scores())
        return Answer(score, rejected=classifier.is_rejected(told))

    ways: dict[str, Callable[[Tensor], Posterior]] = {
        **{name: partial(way, model) for name, way in _WAYS.items()},
        f"Monte Carlo dropout, {n_passes} passes": partial(model.monte_carlo, masks="unit", n_passes=n_passes),
    }
    return {
        "circuit alone": alone,
        **{name: partial(asked, query=query) for name, query in ways.items()},
        "log-likelihood": lambda images: Answer(-classifier.score_samples(images)),
        "combined detector": combined,
    }


def _network_methods(model: NetworkModel, n_passes: int) -> dict[str, Method]:
    if len(model.members) > 1:
        return {f"ensemble of {len(model.members)}": lambda images: _answer(model.posterior(images))}
    return {
        "network alone": lambda images: _answer(model.posterior(images)),
        f"Monte Carlo dropout, {n_passes} passes": lambda images: _answer(model.posterior(images, n_passes)),
    }


def plain_posterior(log_joint: Tensor) -> Posterior:
    """The posterior of a circuit without dropout, from log p(x, class) (N, C): certain of itself."""
    mean = torch.softmax(log_joint, 1)
    doubt = torch.special.entr(mean).sum(1)
    return Posterior(mean, torch.zeros_like(mean), doubt, torch.zeros_like(doubt), None, "plain")


def _answer(posterior: Posterior) -> Answer:
    return Answer.of(*(values.detach().double().cpu().numpy() for values in (posterior.mean, posterior.std)))
