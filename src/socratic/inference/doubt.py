"""What is uncertain about a circuit: the one argument that moments, posteriors and passes are asked with."""

from __future__ import annotations

from typing import Any

from socratic.inference.dropout import Dropout
from socratic.inference.weight_posterior import WeightPosterior

Doubt = Dropout | WeightPosterior
"""Dropout masks on the children of sums, or weights of which only a distribution is known. Of weights that are only
known to lie in a set (:class:`~socratic.WeightIntervals`) there are bounds, no moments."""


def check_doubt(doubt: Any) -> Doubt:
    """Return ``doubt``, or raise a ValueError that says what was found instead."""
    if not isinstance(doubt, Doubt):
        raise ValueError(
            "doubt must be Dropout(rate, ...) or a WeightPosterior, as weight_posterior(circuit, x, y) counts it; "
            f"got a {type(doubt).__name__}"
        )
    return doubt
