"""The structure that answers best for held-out rows, of those that there is time to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import numpy as np

from socratic.estimators.choosing import Choice
from socratic.estimators.crossing import assign_folds, copy_for_part, split_fold
from socratic.estimators.learned import FOREST, WHOLE_WEIGHTS, check_whole_weights
from socratic.estimators.preparation import MIN_HELD_OUT, Parts, Prepared, split_rows
from socratic.inference.tempering import log_losses
from socratic.workers import Workers

CANDIDATES = (FOREST, "learnspn", "random")
"""What is chosen from: first what takes the least time."""
FEWEST_ROWS, MOST_ROWS = 40, 4000
"""Fewer rows than the first are not compared on, and never more than the second."""
_HELD_OUT = 0.25
"""Share of the rows that candidates are judged by, where there are enough to hold some out for good."""


def compare_structures(
    estimator: Any, prepared: Prepared, rng: np.random.Generator, fit: Callable[[Any, Parts], None]
) -> Choice:
    """The structure whose class probabilities have the least log-loss on held-out rows.

    Candidates are begun while ``time_budget`` lasts, and finished. The first is always tried, and is also the choice if
    there are too few rows to tell. The same rows judge all of them.

    Parameters
    ----------
    estimator : CircuitClassifier
        With the classes of the rows.
    prepared : Prepared
    rng : Generator
    fit : callable
        Fits a copy of the estimator, with a table and a structure, to rows.
    """
    began = monotonic()
    rows = prepared.take(_sample(prepared.labels, rng))
    folds = _folds(rows, rng)
    n_judged = int((folds >= 0).sum())
    if len(folds) < FEWEST_ROWS or n_judged < MIN_HELD_OUT:
        few = f"{len(folds)} rows of {len(estimator.classes_)} classes are too few to compare structures on"
        return Choice(CANDIDATES[0], few)
    barred = [structure for structure in CANDIDATES if not _takes_weights(structure, prepared.weight)]
    losses: dict[str, float] = {}
    late = []
    for structure in CANDIDATES:
        if structure in barred:
            continue
        # The clocks of processes that train together differ, and they must all try the same.
        if losses and Workers.present().of_first(monotonic() - began >= estimator.time_budget):
            late.append(structure)
            continue
        with _spinner(estimator.verbose, f"trying structure={structure!r} ..."):
            losses[structure] = _held_out_loss(estimator, structure, rows, folds, rng, fit)
    return Choice(min(losses, key=losses.__getitem__), _reason(losses, n_judged, late, barred))


def _reason(losses: Mapping[str, float], n_judged: int, late: Sequence[str], barred: Sequence[str]) -> str:
    """What was found, and which structures were not tried."""
    ranked = sorted(losses, key=losses.__getitem__)
    reason = [f"held-out log-loss {losses[ranked[0]]:.3f} of {n_judged} rows"]
    if len(ranked) > 1:
        others = [f"{losses[structure]:.3f} of {structure}" for structure in ranked[1:]]
        reason.append(f"against {' and '.join(others)}")
    if late:
        reason.append(f"with no time left for {' and '.join(late)}")
    reason += [f"{structure} takes no such weights" for structure in barred]
    return ", ".join(reason)


def _folds(rows: Prepared, rng: np.random.Generator) -> np.ndarray:
    """The fold (N,) that each row is held out in, -1 if it never is: all of few rows once, of many a share at once."""
    labels = rows.labels
    folds = assign_folds(labels, rows.twin, rng, costly=False)
    if folds is not None:
        return folds
    held_out = split_rows(labels, rows.twin, rng, validation=0.0, calibration=_HELD_OUT, reference=0.0).calibration
    return np.where(np.isin(np.arange(len(labels)), held_out), 0, -1)


def _held_out_loss(
    estimator: Any,
    structure: str,
    rows: Prepared,
    folds: np.ndarray,
    rng: np.random.Generator,
    fit: Callable[[Any, Parts], None],
) -> float:
    """Mean log-loss of the rows of each fold, by a copy of an estimator, of a structure, that has not seen them."""
    losses, weights = [], []
    for number in range(int(folds.max()) + 1):
        model = copy_for_part(estimator, rng)
        model.structure_ = structure
        split = split_fold(
            rows.labels, rows.twin, folds, number, rng, validation=model._validation(len(folds)), reference=0.0
        )
        model.table_, parts = rows.divide(split, drawn=model._holds_out_rows())
        fit(model, parts)
        judged = parts.calibration
        probabilities = np.concatenate([model._shares(x) for x in model._read_in_batches(judged.x)])
        losses.append(log_losses(probabilities, judged.y.numpy()))
        weights.append(judged.weight.double().numpy())
    return float(np.average(np.concatenate(losses), weights=np.concatenate(weights)))


def _sample(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers of at most ``MOST_ROWS`` rows: of each class its share, and one at least."""
    place = np.empty(len(labels))
    classes = np.unique(labels)
    for label in classes:
        members = rng.permutation(np.flatnonzero(labels == label))
        place[members] = np.arange(len(members)) / len(members)
    return np.sort(np.argsort(place, kind="stable")[: max(MOST_ROWS, len(classes))])


def _takes_weights(structure: str, weight: np.ndarray) -> bool:
    """Whether a structure can be learned from rows of these weights (N,)."""
    try:
        if structure in WHOLE_WEIGHTS:
            check_whole_weights(structure, weight)
    except ValueError:
        return False
    return True


@contextmanager
def _spinner(shown: bool, what: str) -> Iterator[None]:
    """What takes its time, on stderr, if it is to be shown."""
    if not shown or not Workers.present().is_first:
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
