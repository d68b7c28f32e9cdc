"""Scores of unusualness by name. A score is added here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from socratic.uncertainty.answers import Uncertainty

Scores = Mapping[str, np.ndarray]
"""Scores (N,) of rows by name, higher is more unusual."""

SCORES: dict[str, Callable[[Uncertainty], np.ndarray]] = {
    "log_likelihood": lambda doubt: -doubt.log_likelihood,
    "typicality": lambda doubt: -doubt.log_likelihood,
    "entropy": lambda doubt: doubt.entropy,
    "mutual_information": lambda doubt: doubt.mutual_information,
    "log_std": lambda doubt: doubt.log_std,
    "profile": lambda doubt: doubt.profile,
    "class_profile": lambda doubt: doubt.class_profile,
}
"""How each score is read off what a classifier says of rows; in nats, so that they have a common scale."""


TWO_SIDED = ("typicality",)
"""Scores of which low values are as unusual as high ones: a blank image is likelier than any image of something."""


def score_rows(doubt: Uncertainty) -> Scores:
    """Every score of the rows (N,)."""
    return {name: score(doubt) for name, score in SCORES.items()}
