"""Fitting to rows that stay in files: a sample of them says how to encode, start and calibrate, all are trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from socratic.errors import DataFileError
from socratic.estimators.choosing import choose_structure
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.crossing import COSTLY_BELOW
from socratic.estimators.learned import LEARNED
from socratic.estimators.preparation import MIN_HELD_OUT, Parts, held_out_of
from socratic.estimators.rejection import RejectingEstimator
from socratic.estimators.streamed_rows import StreamedRows, class_numbers_of
from socratic.estimators.tabular import TableEstimator
from socratic.learning.settings import Rows
from socratic.tables.census import Census
from socratic.tables.columns import Table, fit_table
from socratic.tables.inputs import known
from socratic.tables.labels import label_values
from socratic.tables.raw import RawTable
from socratic.tables.training_files import TrainingFiles

TRAIN, VALIDATION, REFERENCE, CALIBRATION = range(4)
"""The parts of a sample: rows that are trained on as well, and those that are held out."""
_MOST_TRAIN, _MOST_VALIDATION, _MOST_CALIBRATION = 50_000, 10_000, 15_000
"""Rows of each part, at most; the last with the reference rows."""
_SAMPLE_CELLS = 2**24
"""Cells of all parts, at most."""


class Plan(NamedTuple):
    """Which rows are sampled: of all that count, the first class's first, and then the second's."""

    places: np.ndarray
    """(S,), in ascending order."""
    parts: np.ndarray
    """(S,): the part that each is for."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What one look at all rows gives.

    Attributes
    ----------
    sample : RawTable (S, V)
    labels, weight, part, number : ndarray (S,)
        The class number, weight and part of each sampled row, and its number among all rows of the files.
    census : Census
        Of the rows that are trained on.
    class_weight : ndarray (C,)
        What these weigh, class by class.
    """

    sample: RawTable
    labels: np.ndarray
    weight: np.ndarray
    part: np.ndarray
    number: np.ndarray
    census: Census
    class_weight: np.ndarray


def fit_to_files(estimator: TableEstimator, files: TrainingFiles) -> None:
    """Fit an estimator of tables to the rows of files, in bounded memory.

    Parameters
    ----------
    estimator : TableEstimator
    files : TrainingFiles
        With a target if the estimator is a classifier, and only then.
    """
    estimator._check_parameters()
    choice = choose_structure(estimator, "random", "rows that are read from files are trained on")
    if choice.structure in LEARNED:
        raise ValueError(
            f"structure={choice.structure!r} needs all rows in memory, and those of {files.source} are read as they "
            "are needed; use structure='random', or fit as many of the rows as one table as fit in memory"
        )
    estimator._settle(choice, files.features, np.ones(1))
    estimator.n_features_in_ = len(files.features)
    estimator.feature_names_in_ = np.array(files.features, dtype=object)
    counted = files.count()
    n_rows = sum(counted.by_text.values())
    if n_rows < COSTLY_BELOW:
        raise DataFileError(
            f"{files.source} holds {n_rows} rows to learn from, and training from files takes at least {COSTLY_BELOW}; "
            "read them as one table, and fit that"
        )
    texts = sorted(counted.by_text)
    class_numbers = {"": 0}
    if isinstance(estimator, CircuitClassifier):
        values = label_values(texts, n_rows, f"{files.source}: the target {files.target!r}")
        numbers = estimator._encode_classes(values, np.ones(len(values)))
        class_numbers = dict(zip(texts, numbers.tolist(), strict=True))
    counts = np.zeros(len(class_numbers), dtype=np.int64)
    for text, count in counted.by_text.items():
        counts[class_numbers[text]] = count
    rng = estimator._generator()
    survey = take_survey(files, class_numbers, counts, _plan(estimator, counts, rng))
    estimator.table_, parts = _divide(survey, files, class_numbers, counts, estimator.leaf)
    estimator._fit_parts(parts, rng)
    if isinstance(estimator, RejectingEstimator):
        estimator._warn_unless_kept()


def _plan(estimator: Any, counts: np.ndarray, rng: np.random.Generator) -> Plan:
    """Which rows are sampled for an estimator, given how many of each class (C,) there are."""
    n_rows = int(counts.sum())
    shares = estimator._validation(n_rows), float(getattr(estimator, "calibration_fraction", 0.0))
    room = min(1.0, _SAMPLE_CELLS / estimator.n_features_in_ / (_MOST_TRAIN + _MOST_VALIDATION + _MOST_CALIBRATION))
    most = _MOST_VALIDATION, _MOST_CALIBRATION
    sizes = [min(round(share * n_rows), round(room * limit)) for share, limit in zip(shares, most, strict=True)]
    n_train = round(room * _MOST_TRAIN)
    return plan_sample(counts, sizes, n_train, rng, reference=estimator._REFERENCE)


def plan_sample(
    counts: np.ndarray, sizes: list[int], n_train: int, rng: np.random.Generator, *, reference: float
) -> Plan:
    """Draw rows at random: those to hold out class by class, as :func:`~preparation.split_rows` does.

    Parameters
    ----------
    counts : ndarray (C,)
        How many rows of each class there are.
    sizes : list of int
        How many to stop on, and to calibrate on; parts that are too small to be worth it stay empty.
    n_train : int
        How many to hold in memory of those that are trained on, at most.
    reference : float
        Share of those to calibrate on that what is not trained is chosen by.
    """
    n_rows = int(counts.sum())
    sizes = [size if size >= MIN_HELD_OUT else 0 for size in sizes]
    chosen: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for first, n_members in zip(np.cumsum(counts) - counts, counts.tolist(), strict=True):
        held = held_out_of(n_members, n_rows, sizes, rng) if any(sizes) else [0, 0]
        members = first + rng.choice(n_members, sum(held), replace=False)
        for part, places in zip(chosen, np.split(members, held[:1]), strict=True):
            part.append(places)
    validation, calibration = map(np.concatenate, chosen)
    calibration = rng.permutation(calibration)
    n_reference = int(reference * len(calibration))
    held_out = np.concatenate([validation, calibration])
    drawn = rng.choice(n_rows, min(n_rows, n_train + len(held_out)), replace=False)
    train = drawn[~np.isin(drawn, held_out)][:n_train]
    lengths = [len(train), len(validation), n_reference, len(calibration) - n_reference]
    places, parts = np.concatenate([train, held_out]), np.repeat(np.arange(4), lengths)
    order = np.argsort(places)
    return Plan(places[order], parts[order])


def take_survey(files: TrainingFiles, class_numbers: Mapping[str, int], counts: np.ndarray, plan: Plan) -> Survey:
    """Read all rows once: keep the sampled ones, and what the training rows hold."""
    census, class_weight = Census(len(files.features)), np.zeros(len(counts))
    first = np.cumsum(counts) - counts
    kept: list[tuple[RawTable, np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    for used in files.read():
        labels = class_numbers_of(used, class_numbers)
        places = first[labels] + _ranks(labels)
        first += np.bincount(labels, minlength=len(first))
        nearest = np.searchsorted(plan.places, places).clip(max=len(plan.places) - 1)
        part = np.where(plan.places[nearest] == places, plan.parts[nearest], -1)
        raw = files.raw(used)
        trained, sampled = np.flatnonzero(part <= TRAIN), np.flatnonzero(part >= TRAIN)
        census.add(raw.take(trained), used.weight[trained])
        class_weight += np.bincount(labels[trained], used.weight[trained], minlength=len(counts))
        kept.append((raw.take(sampled), labels[sampled], used.weight[sampled], part[sampled], used.numbers[sampled]))
    tables, *others = zip(*kept, strict=True)
    labels, weight, part, number = map(np.concatenate, others)
    return Survey(RawTable.joined(tables), labels, weight, part, number, census, class_weight)


def _divide(
    survey: Survey, files: TrainingFiles, class_numbers: Mapping[str, int], counts: np.ndarray, leaf: Any
) -> tuple[Table, Parts]:
    """The table, scaled by rows that are trained on, and the parts of the sample in its scale."""
    witnesses = survey.census.witnesses(survey.sample)
    every = RawTable.joined([survey.sample, witnesses])
    columns = fit_table(every, np.ones(every.n_rows, dtype=bool), leaf)
    codes = columns.read(every).codes
    weight = np.concatenate([survey.weight, np.full(witnesses.n_rows, survey.weight.mean())])
    scaling = np.concatenate([survey.part == TRAIN, np.ones(witnesses.n_rows, dtype=bool)])
    table = survey.census.applied(columns.standardised(codes[scaling], weight[scaling]))

    def rows(part: int) -> Rows:
        places = np.flatnonzero(survey.part == part)
        return Rows(
            torch.as_tensor(table.scale(codes[places]), dtype=torch.float32),
            torch.as_tensor(survey.labels[places]),
            torch.as_tensor(survey.weight[places], dtype=torch.float32),
        )

    held_out = np.sort(survey.number[survey.part != TRAIN])
    n_rows = int(counts.sum()) - len(held_out)
    stream = StreamedRows(files, table, class_numbers, held_out, survey.class_weight, n_rows, torch.device("cpu"))
    validation = rows(VALIDATION)
    stopping = Rows(known(validation.x), validation.y, validation.weight) if len(validation) else None
    return table, Parts(rows(TRAIN), stopping, rows(REFERENCE), rows(CALIBRATION), stream=stream)


def _ranks(labels: np.ndarray) -> np.ndarray:
    """How many rows of the same class come before each row: (n,)."""
    order = np.argsort(labels, kind="stable")
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
    return ranks
