"""Log-moment propagation: the class posterior over dropout masks from the moments of log-likelihoods."""

from socratic.inference.layered.log_moments.plan import LayeredLogMoments

__all__ = ["LayeredLogMoments"]
