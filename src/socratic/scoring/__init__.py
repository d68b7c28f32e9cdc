"""From a batch of rows to answers: the one way that the commands take, and whatever else applies a model to rows."""

from __future__ import annotations

from typing import Any

from socratic.estimators import CircuitClassifier, CircuitImageClassifier, CircuitImageDensity
from socratic.estimators.density import DensityBase
from socratic.scoring.base import N_REASONS, Columns, OfImages, Scorer, encode_batch
from socratic.scoring.classes import ANSWER_COLUMNS, ClassScorer, ImageScorer, TableScorer, answers_of
from socratic.scoring.likelihoods import (
    ImageLikelihoodScorer,
    LikelihoodScorer,
    TableLikelihoodScorer,
    judge_density,
    likelihoods_of,
)

__all__ = [
    "ANSWER_COLUMNS",
    "N_REASONS",
    "ClassScorer",
    "Columns",
    "ImageLikelihoodScorer",
    "ImageScorer",
    "LikelihoodScorer",
    "OfImages",
    "Scorer",
    "TableLikelihoodScorer",
    "TableScorer",
    "answers_of",
    "encode_batch",
    "judge_density",
    "likelihoods_of",
    "scorer_of",
]

_KINDS: dict[type, type[Scorer]] = {
    CircuitImageClassifier: ImageScorer,
    CircuitClassifier: TableScorer,
    CircuitImageDensity: ImageLikelihoodScorer,
    DensityBase: TableLikelihoodScorer,
}


def scorer_of(model: Any) -> Scorer:
    """The scorer of a fitted estimator."""
    for kind, scorer in _KINDS.items():
        if isinstance(model, kind):
            return scorer(model)
    raise ValueError(
        f"model must be a classifier, an outlier detector or a density of tables or images; got {type(model).__name__}"
    )
