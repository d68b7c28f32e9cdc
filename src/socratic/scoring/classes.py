"""What classifiers say of rows and of images."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from socratic.estimators import Answer, CircuitClassifier, CircuitImageClassifier
from socratic.estimators.classification import CircuitClassifierBase
from socratic.scoring.base import (
    ANSWERS_ALONE,
    REASONS_COLUMN,
    VERDICT_COLUMN,
    Columns,
    OfImages,
    OfTables,
    Scorer,
)
from socratic.tables.batches import import_pyarrow
from socratic.uncertainty.ambiguity import AMBIGUOUS, UNFAMILIAR

ANSWER_COLUMNS = ("label", "probability", "entropy", "std", "p_value", "risk", VERDICT_COLUMN)
"""What is said of each row: the most probable class, its probability, the entropy of the prediction, the standard
deviation of the probability over what is in doubt, the p-value, the smallest risk at which the row is answered, and
whether it is familiar, unfamiliar or ambiguous."""
MOST_CLASSES = 20
"""Of more classes the probabilities are written only if asked for."""


class ClassScorer(Scorer):
    """Applies a classifier."""

    model: CircuitClassifierBase

    @abstractmethod
    def _answer(self, rows: Any) -> Answer:
        """What the model says of rows as it takes them."""

    def answer(self, batch: Any, start: int = 0) -> Answer:
        """What the model says of each row.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        start : int
            Rows before these, for messages.
        """
        return self._answer(self._read(batch, start, self.unknown))

    def _reasons(self, rows: Any, answer: Answer) -> Any:
        """Why rows are not answered, as the model takes them: a ``pyarrow.Array`` of text, empty for rows that are.

        The parts that speak most against an unfamiliar row, most first; the two most probable classes of an ambiguous
        one.
        """
        verdict = self.model.verdicts(answer)
        texts = np.full(len(verdict), "", dtype=object)
        unfamiliar, ambiguous = (np.flatnonzero(verdict == each) for each in (UNFAMILIAR, AMBIGUOUS))
        if len(unfamiliar):
            texts[unfamiliar] = self._against(rows[unfamiliar])
        closest = np.argsort(-answer.probabilities[ambiguous], axis=1, kind="stable")[:, :2]
        texts[ambiguous] = [f"{first} or {second}" for first, second in self.model.classes_[closest]]
        return import_pyarrow().array(texts, "string")

    def __call__(self, batch: Any, start: int = 0, columns: Columns = ANSWERS_ALONE) -> Any:
        """What is written of each row."""
        columns = self.chosen(columns)
        rows = self._read(batch, start, self.unknown)
        answer = self._answer(rows)
        said = answers_of(self.model, answer)
        if columns.probabilities:
            for name, share in zip(self.class_columns, answer.probabilities.T, strict=True):
                said = said.append_column(name, import_pyarrow().array(share))
        if columns.explain:
            said = said.append_column(REASONS_COLUMN, self._reasons(rows, answer))
        return said.rename_columns(self.added(columns))

    def chosen(self, columns: Columns) -> Columns:
        """The same columns, with what is left to the model decided."""
        if columns.probabilities is None:
            columns = replace(columns, probabilities=len(self.class_columns) <= MOST_CLASSES)
        return replace(columns, explain=self._explains(columns))

    @property
    def class_columns(self) -> list[str]:
        """Names of columns with the probability of each class: ``p(yes)`` for the class yes."""
        return [f"p({label})" for label in self.model.classes_.tolist()]

    def _said(self, columns: Columns) -> list[str]:
        return [*ANSWER_COLUMNS, *(self.class_columns if columns.probabilities else [])]

    def _types(self) -> dict[str, Any]:
        return {**super()._types(), "label": import_pyarrow().array(self.model.classes_.tolist()).type}


class TableScorer(OfTables, ClassScorer):
    """Applies a classifier of tables."""

    model: CircuitClassifier

    def _answer(self, rows: Any) -> Answer:
        return self.model.answer_rows(rows)


class ImageScorer(OfImages, ClassScorer):
    """Applies a classifier of images to rows with the column ``path``, the files of images."""

    model: CircuitImageClassifier

    def _answer(self, rows: Any) -> Answer:
        return self.model.answer(rows)


def answers_of(model: CircuitClassifierBase, answer: Answer) -> Any:
    """The answer of a classifier as a ``pyarrow.RecordBatch`` with the columns :data:`ANSWER_COLUMNS`."""
    pa = import_pyarrow()
    best = answer.probabilities.argmax(1)
    each = np.arange(len(best))
    doubt = answer.uncertainty
    columns = [
        pa.array(model.classes_.tolist()).take(pa.array(best)),
        answer.probabilities[each, best],
        doubt.entropy,
        doubt.std[each, best],
        doubt.p_value,
        model.risks(answer),
        model.verdicts(answer).tolist(),
    ]
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=list(ANSWER_COLUMNS))
