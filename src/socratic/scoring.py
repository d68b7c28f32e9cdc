"""From a batch of rows to answers: the one way that the commands take, and whatever else applies a model to rows."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic.errors import DataFileError
from socratic.estimators import Answer, CircuitClassifier, CircuitImageClassifier
from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.tabular import TableEstimator
from socratic.images.folders import read_images
from socratic.loading import load
from socratic.tables.batches import import_pyarrow, raw_batch
from socratic.tables.columns import Unknown
from socratic.uncertainty.ambiguity import AMBIGUOUS, UNFAMILIAR
from socratic.uncertainty.reasons import Reasons

ANSWER_COLUMNS = ("label", "probability", "entropy", "std", "p_value", "risk", "verdict")
"""What a scorer says of each row: the most probable class, its probability, the entropy of the prediction, the standard
deviation of the probability over what is in doubt, the p-value, the smallest risk at which the row is answered, and
whether it is familiar, unfamiliar or ambiguous."""
REASONS_COLUMN = "reasons"
N_REASONS = 3
"""Parts of a row that it names, at most."""
MOST_CLASSES = 20
"""Of more classes the probabilities are written only if asked for."""


@dataclass(frozen=True)
class Columns:
    """Which columns rows are given, beside those of every answer.

    Attributes
    ----------
    prefix : str
        Put before the names of all of them.
    probabilities : bool, optional
        Whether there is one with the probability of each class; by default of up to 20 classes.
    explain : bool, optional
        Whether there is one with the reasons why rows are not answered; by default if the model knows.
    """

    prefix: str = ""
    probabilities: bool | None = None
    explain: bool | None = None

    @property
    def verdict(self) -> str:
        """The name of the column with the verdicts."""
        return f"{self.prefix}verdict"


ANSWERS_ALONE = Columns(probabilities=False, explain=False)


class Scorer(ABC):
    """Applies a classifier to batches of rows.

    A scorer can be pickled: it then carries the content of a model file, nothing of which is ever executed.

    Attributes
    ----------
    model : CircuitClassifier or CircuitImageClassifier
        A fitted one.
    names : list of str
        The columns that rows must have, in any order and among others.
    numeric : frozenset of str
        Those that hold numbers.
    unknown : dict of str to Unknown
        Values not seen in training, by column, in all the rows scored so far.
    """

    names: list[str]
    numeric: frozenset[str] = frozenset()

    def __init__(self, model: CircuitClassifierBase) -> None:
        self.model = model
        self.unknown: dict[str, Unknown] = {}

    @abstractmethod
    def answer(self, batch: Any, start: int = 0) -> Answer:
        """What the model says of each row.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        start : int
            Rows before these, for messages.
        """

    @abstractmethod
    def explain(self, batch: Any, start: int = 0) -> Reasons:
        """Why each row is unusual, or is not; arguments as for :meth:`answer`."""

    def reasons(self, batch: Any, answer: Answer, start: int = 0) -> Any:
        """Why rows are not answered: a ``pyarrow.Array`` of text, empty for rows that are.

        The parts that speak most against an unfamiliar row, most first; the two most probable classes of an ambiguous
        one.
        """
        verdict = self.model.verdicts(answer)
        texts = np.full(len(verdict), "", dtype=object)
        unfamiliar, ambiguous = (np.flatnonzero(verdict == each) for each in (UNFAMILIAR, AMBIGUOUS))
        if len(unfamiliar):
            against = self.explain(batch.take(unfamiliar), start).top(N_REASONS)
            texts[unfamiliar] = ["; ".join(reason.name for reason in row) for row in against]
        closest = np.argsort(-answer.probabilities[ambiguous], axis=1, kind="stable")[:, :2]
        texts[ambiguous] = [f"{first} or {second}" for first, second in self.model.classes_[closest]]
        return import_pyarrow().array(texts, "string")

    def __call__(self, batch: Any, start: int = 0, columns: Columns = ANSWERS_ALONE) -> Any:
        """What is written of each row: a ``pyarrow.RecordBatch`` with the columns :meth:`added`.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        start : int
            Rows before these, for messages.
        columns : Columns
        """
        columns = self.chosen(columns)
        answer = self.answer(batch, start)
        said = self.answers(answer, probabilities=bool(columns.probabilities))
        if columns.explain:
            said = said.append_column(REASONS_COLUMN, self.reasons(batch, answer, start))
        return said.rename_columns(self.added(columns))

    def chosen(self, columns: Columns) -> Columns:
        """The same columns, with what is left to the model decided."""
        if columns.probabilities is None:
            columns = replace(columns, probabilities=len(self.class_columns) <= MOST_CLASSES)
        if columns.explain is None:  # models from older files have nothing to compare with
            columns = replace(columns, explain=hasattr(self.model, "familiar_"))
        return columns

    def added(self, columns: Columns = ANSWERS_ALONE) -> list[str]:
        """The names of the columns that rows are given."""
        columns = self.chosen(columns)
        names = [*ANSWER_COLUMNS, *(self.class_columns if columns.probabilities else [])]
        return [columns.prefix + name for name in [*names, *([REASONS_COLUMN] if columns.explain else [])]]

    def check_names(self, columns: Columns, names: Sequence[str], where: object) -> None:
        """Raise unless rows have the columns that the model needs, and none of those that they would be given.

        Parameters
        ----------
        columns : Columns
        names : sequence of str
            The columns of the rows.
        where : object
            What holds the rows, for the message.
        """
        present = set(names)
        missing = [name for name in self.names if name not in present]
        if missing:
            raise DataFileError(f"{where} has no column {missing[0]!r}; the model was trained on it")
        taken = [name for name in self.added(columns) if name in present]
        if taken:
            raise DataFileError(
                f"{where} has a column {taken[0]!r} already; give the new columns other names, such as with the prefix "
                "my_ (--prefix my_)"
            )

    def answers(self, answer: Answer, probabilities: bool = False) -> Any:
        """An answer as a batch with the columns :data:`ANSWER_COLUMNS` and, if asked for, :attr:`class_columns`."""
        pa = import_pyarrow()
        best = answer.probabilities.argmax(1)
        each = np.arange(len(best))
        doubt = answer.uncertainty
        columns = [
            pa.array(self.model.classes_.tolist()).take(pa.array(best)),
            answer.probabilities[each, best],
            doubt.entropy,
            doubt.std[each, best],
            doubt.p_value,
            self.model.risks(answer),
            self.model.verdicts(answer).tolist(),
        ]
        names = list(ANSWER_COLUMNS)
        if probabilities:
            columns += list(answer.probabilities.T)
            names += self.class_columns
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=names)

    @property
    def class_columns(self) -> list[str]:
        """Names of columns with the probability of each class: ``p(yes)`` for the class yes."""
        return [f"p({label})" for label in self.model.classes_.tolist()]

    def _settings(self) -> dict[str, Any]:
        """What a copy is made with, beside the model."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.model.save(path)
            return _restored, (type(self), path.read_bytes(), str(self.model.circuit_.device), self._settings())


class TableScorer(Scorer):
    """Applies a classifier of tables."""

    model: CircuitClassifier

    def __init__(self, model: CircuitClassifier) -> None:
        super().__init__(model)
        columns = model.table_.columns
        self.names = [column.name for column in columns]
        self.numeric = frozenset(column.name for column in columns if column.categories is None)

    def answer(self, batch: Any, start: int = 0) -> Answer:
        """What the model says of each row."""
        return self.model.answer_rows(encode_batch(self.model, batch, start, self.unknown))

    def explain(self, batch: Any, start: int = 0) -> Reasons:
        """Why each row is unusual, or is not."""
        return self.model.explain_rows(encode_batch(self.model, batch, start, {}))


class ImageScorer(Scorer):
    """Applies a classifier of images to rows with the column ``path``, the files of images.

    Parameters
    ----------
    model : CircuitImageClassifier
    resize : bool
        Whether images of another size than those trained on are resized or refused.
    """

    model: CircuitImageClassifier

    def __init__(self, model: CircuitImageClassifier, resize: bool = False) -> None:
        super().__init__(model)
        self.names = ["path"]
        self.resize = resize

    def answer(self, batch: Any, start: int = 0) -> Answer:  # noqa: ARG002 - files are named by their paths
        """What the model says of each image."""
        return self.model.answer(self._images(batch))

    def explain(self, batch: Any, start: int = 0) -> Reasons:  # noqa: ARG002 - likewise
        """Why each image is unusual, or is not."""
        return self.model.explain(self._images(batch))

    def _images(self, batch: Any) -> np.ndarray:
        height, width, n_channels = self.model.image_shape_
        return read_images(
            [Path(path) for path in batch.column("path").to_pylist()],
            (height, width),
            resize=self.resize,
            n_channels=n_channels,
            remedy="the model was trained on that size; have the others resized (--resize)",
        )

    def _settings(self) -> dict[str, Any]:
        return {"resize": self.resize}


def encode_batch(model: TableEstimator, batch: Any, start: int, unknown: dict[str, Unknown]) -> Tensor:
    """Rows (N, V) of tables, as the circuit of a model reads them.

    Parameters
    ----------
    model : TableEstimator
        A fitted one.
    batch : pyarrow.RecordBatch
    start : int
        Rows before these, for messages.
    unknown : dict of str to Unknown
        Values not seen in training, by column, to which those of these rows are added.
    """
    encoded = model.table_.encode(raw_batch(batch, model.table_, start))
    for name, found in encoded.unknown.items():
        before = unknown.get(name, Unknown(0, found.example))
        unknown[name] = before._replace(n_rows=before.n_rows + found.n_rows)
    return torch.as_tensor(encoded.codes, dtype=model.circuit_.dtype, device=model.circuit_.device)


def scorer_of(model: CircuitClassifierBase) -> Scorer:
    """The scorer of a fitted classifier."""
    if isinstance(model, CircuitImageClassifier):
        return ImageScorer(model)
    if isinstance(model, CircuitClassifier):
        return TableScorer(model)
    raise ValueError(f"model must be a classifier of tables or images; got {type(model).__name__}")


def _restored(kind: type[Scorer], content: bytes, device: str, settings: dict[str, Any]) -> Scorer:
    """A scorer of the model in the content of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        return kind(load(path, device=device), **settings)
