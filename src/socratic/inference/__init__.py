"""Inference: likelihoods, moments over dropout masks, Monte Carlo dropout, class posteriors."""

from socratic.inference.likelihood import log_likelihood, training_log_likelihood
from socratic.inference.moments import tdi
from socratic.inference.monte_carlo import monte_carlo_dropout, sample_log_likelihoods
from socratic.inference.posterior import Posterior
from socratic.inference.posterior_methods import dropout_posterior
from socratic.inference.results import Moments

__all__ = [
    "Moments",
    "Posterior",
    "dropout_posterior",
    "log_likelihood",
    "monte_carlo_dropout",
    "sample_log_likelihoods",
    "tdi",
    "training_log_likelihood",
]
