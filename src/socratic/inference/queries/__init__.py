"""Classic queries: conditional probabilities, expectations, samples and most probable rows, given evidence."""

from socratic.inference.queries.conditional import conditional_log_likelihood, marginal_log_likelihood
from socratic.inference.queries.expectation import Expectation, expectation
from socratic.inference.queries.mpe import Explanation, mpe
from socratic.inference.queries.sampling import Samples, conditional_sample, sample

__all__ = [
    "Expectation",
    "Explanation",
    "Samples",
    "conditional_log_likelihood",
    "conditional_sample",
    "expectation",
    "marginal_log_likelihood",
    "mpe",
    "sample",
]
