"""Scores of unusualness by name: those that a classifier's uncertainty has, see :meth:`Uncertainty.scores`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

Scores = Mapping[str, np.ndarray]
"""Scores (N,) of rows by name, higher is more unusual."""

SCORES = ("log_likelihood", "typicality", "entropy", "mutual_information", "log_std", "profile", "class_profile")
"""The scores of a classifier, in nats, so that they have a common scale."""

LIKELIHOODS = ("log_likelihood", "typicality")
"""Those that are log-densities."""

TWO_SIDED = ("typicality",)
"""Scores of which low values are as unusual as high ones: a blank image is likelier than any image of something."""
