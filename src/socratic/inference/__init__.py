"""Inference: likelihoods, moments over dropout masks, Monte Carlo dropout, class posteriors, queries given evidence."""

from socratic.inference.dropout import Dropout
from socratic.inference.likelihood import log_likelihood, training_log_likelihood
from socratic.inference.moments import moments, node_moments, tdi
from socratic.inference.monte_carlo import monte_carlo_dropout, passes, sample_log_likelihoods
from socratic.inference.posterior import Posterior
from socratic.inference.posterior_bounds import PosteriorBounds
from socratic.inference.posterior_methods import class_posterior, dropout_posterior
from socratic.inference.queries import (
    Expectation,
    Explanation,
    RegionValues,
    Samples,
    column_surprise,
    conditional_log_likelihood,
    conditional_sample,
    expectation,
    marginal_log_likelihood,
    mpe,
    region_log_likelihood,
    region_surprise,
    sample,
)
from socratic.inference.results import Moments, NodeMoments
from socratic.inference.tempering import temper
from socratic.inference.visits import weight_posterior
from socratic.inference.weight_intervals import LikelihoodBounds, WeightIntervals, likelihood_bounds, robustness
from socratic.inference.weight_posterior import WeightPosterior

__all__ = [
    "Dropout",
    "Expectation",
    "Explanation",
    "LikelihoodBounds",
    "Moments",
    "NodeMoments",
    "Posterior",
    "PosteriorBounds",
    "RegionValues",
    "Samples",
    "WeightIntervals",
    "WeightPosterior",
    "class_posterior",
    "column_surprise",
    "conditional_log_likelihood",
    "conditional_sample",
    "dropout_posterior",
    "expectation",
    "likelihood_bounds",
    "log_likelihood",
    "marginal_log_likelihood",
    "moments",
    "monte_carlo_dropout",
    "mpe",
    "node_moments",
    "passes",
    "region_log_likelihood",
    "region_surprise",
    "robustness",
    "sample",
    "sample_log_likelihoods",
    "tdi",
    "temper",
    "training_log_likelihood",
    "weight_posterior",
]
