"""Classic queries: conditional probabilities, surprises, expectations, samples and most probable rows."""

from socratic.inference.queries.conditional import conditional_log_likelihood, marginal_log_likelihood
from socratic.inference.queries.expectation import Expectation, expectation
from socratic.inference.queries.mpe import Explanation, mpe
from socratic.inference.queries.sampling import Samples, conditional_sample, sample
from socratic.inference.queries.surprise import RegionValues, column_surprise, region_log_likelihood, region_surprise

__all__ = [
    "Expectation",
    "Explanation",
    "RegionValues",
    "Samples",
    "column_surprise",
    "conditional_log_likelihood",
    "conditional_sample",
    "expectation",
    "marginal_log_likelihood",
    "mpe",
    "region_log_likelihood",
    "region_surprise",
    "sample",
]
