"""Log-moment propagation: the class posterior over dropout masks from the moments of log-likelihoods."""

from socratic.inference.log_moments.algebra import LogMomentAlgebra, LogMoments
from socratic.inference.log_moments.query import LogMomentPosterior, log_moment_posterior
from socratic.inference.log_moments.root import root_quadrature

__all__ = ["LogMomentAlgebra", "LogMomentPosterior", "LogMoments", "log_moment_posterior", "root_quadrature"]
