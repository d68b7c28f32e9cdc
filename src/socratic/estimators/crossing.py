"""Cross-fitting: few rows are calibrated on all of them, each by a model that was trained without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from socratic.estimators.preparation import MIN_HELD_OUT, Parts, Prepared, Split, shuffled_units, split_rows
from socratic.learning.settings import Rows
from socratic.uncertainty.detector import Detector, fit_detector
from socratic.uncertainty.reasons import FamiliarSurprises
from socratic.uncertainty.scores import Scores

CROSS_FITTED_BELOW, COSTLY_BELOW = 500, 200
"""With fewer rows than this, p-values are cross-fitted; with more, some rows are held out for them. The second is for
circuits that take long to fit: five more of them are not worth it where holding rows out will do."""
N_FOLDS = 5
"""Parts that few rows are divided into."""


class Fold(NamedTuple):
    """A fold, and the model that has not seen it."""

    model: Any
    rows: Rows
    """As the model reads them."""
    places: np.ndarray
    """Where they are among all rows."""


def assign_folds(labels: np.ndarray, twins: np.ndarray, rng: np.random.Generator, *, costly: bool) -> np.ndarray | None:
    """The fold (N,) that each row is held out in; None if there are rows enough to hold some out for good.

    Folds hold as many rows of each class, as nearly as possible; rows that may be copies of each other stay together,
    see :func:`~preparation.shuffled_units`. A row that is alone in its class, or has nothing but copies there, is
    trained on in all of them, and has the number -1. None also if that holds for all rows, or if too few of them
    differ, by the numbers ``twins`` (N,) of equal ones. ``costly`` is whether models take long to fit.
    """
    if len(labels) >= (COSTLY_BELOW if costly else CROSS_FITTED_BELOW) or len(np.unique(twins)) < MIN_HELD_OUT:
        return None
    folds = np.full(len(labels), -1)
    n_divided = 0
    for label in np.unique(labels):
        members, units = shuffled_units(np.flatnonzero(labels == label), twins, rng)
        if units[-1] == 0:
            continue
        # Equal rows side by side: of those that repeat often every fold has some, as all models know them.
        _, first, group = np.unique(twins[members], return_index=True, return_inverse=True)
        place = np.lexsort((units, first[group]))
        numbers = np.cumsum(np.diff(units[place], prepend=units[place[0]]) != 0)
        folds[members[place]] = (n_divided + numbers) % N_FOLDS
        n_divided += numbers[-1] + 1
    return folds if n_divided else None


def split_fold(
    labels: np.ndarray,
    twins: np.ndarray,
    folds: np.ndarray,
    fold: int,
    rng: np.random.Generator,
    *,
    validation: float,
    reference: float,
) -> Split:
    """One fold to calibrate on, and the other rows divided: see :func:`split_rows`."""
    others = np.flatnonzero(folds != fold)
    inner = split_rows(labels[others], twins[others], rng, validation=validation, calibration=reference, reference=1.0)
    train, stop, chosen_by = (others[part] for part in (inner.train, inner.validation, inner.reference))
    return Split(train, stop, chosen_by, np.flatnonzero(folds == fold), np.empty(0, dtype=int))


def fit_folds(
    estimator: Any,
    prepared: Prepared,
    folds: np.ndarray,
    rng: np.random.Generator,
    fit: Callable[[Any, Parts], None],
    reference: float,
) -> Iterator[Fold]:
    """Models like an estimator of tables, one for each fold.

    A model reads what the estimator's circuit reads, and standardises it by its own training rows: nothing that it
    knows of the scale of a column comes from the rows it is calibrated on.

    Parameters
    ----------
    estimator : TableEstimator
        With the table that rows are encoded by.
    prepared : Prepared
    folds : ndarray (M,)
        Those of :func:`assign_folds`, of these rows.
    rng : Generator
    fit : callable
        Fits an estimator with a table to rows.
    reference : float
        Share of the rows of other folds that what is not trained is chosen by, if there are enough.
    """
    validation = estimator._validation(len(folds))
    codes = estimator.table_.scale(prepared.codes).astype(np.float32).astype(np.float64)
    # What only validation rows of the estimator hold, it does not know.
    read = replace(prepared, codes=np.where(np.isinf(codes), np.nan, codes))
    for number in range(int(folds.max()) + 1):
        model = copy_for_part(estimator, rng)
        split = split_fold(
            prepared.labels, prepared.twin, folds, number, rng, validation=validation, reference=reference
        )
        model.table_, parts = read.divide(split, drawn=model._holds_out_rows())
        fit(model, parts)
        yield Fold(model, parts.calibration, split.calibration)


def copy_for_part(estimator: Any, rng: np.random.Generator) -> Any:
    """A model like an estimator of tables, to be fitted to a part of its rows: silent, and with a seed of its own."""
    model = clone(estimator).set_params(checkpoint=None, verbose=False, random_state=int(rng.integers(2**31 - 1)))
    model.n_features_in_ = estimator.n_features_in_
    model.structure_, model.structure_reason_ = estimator.structure_, estimator.structure_reason_
    return model


def familiar_surprises(folds: list[Fold]) -> FamiliarSurprises:
    """How surprising the columns of rows are to models that have not seen them, in the units that rows are read in."""
    found = [
        np.concatenate([model._surprise(x) for x in model._read_in_batches(rows.x)]) + model.table_.log_scale
        for model, rows, _ in folds
    ]
    return FamiliarSurprises.fit(np.concatenate(found), Rows.concatenate([fold.rows for fold in folds]).weight.numpy())


def share_detector(kind: str, models: Sequence[Any], scores: Sequence[Scores], weights: np.ndarray) -> Detector:
    """One detector for the models of all folds: the mean of their weights, on the scale of the rows of all of them.

    With a scale of its own, learnt from a fifth of the rows, each model would disagree with the others about what is
    unusual. The mean over models, which new rows are judged by, is then seldom as unusual as the judgement of a single
    one, which calibration rows have, and too few rows would be refused.
    """
    together = {name: np.concatenate([part[name] for part in scores]) for name in scores[0]}
    mean = {name: float(np.mean([model.detector_.weights[name] for model in models])) for name in together}
    detector = replace(fit_detector(kind, together, [], reference_weight=weights), weights=mean)
    for model in models:
        model.detector_ = detector
    return detector
