"""What all scorers share: which columns they add to a batch of rows, and how they read one."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic.errors import DataFileError
from socratic.estimators.tabular import TableEstimator
from socratic.images.folders import read_images
from socratic.loading import load_bytes
from socratic.tables.batches import import_pyarrow, raw_batch
from socratic.tables.columns import Unknown
from socratic.uncertainty.reasons import Reasons

VERDICT_COLUMN, REASONS_COLUMN = "verdict", "reasons"
N_REASONS = 3
"""Parts of a row that it names, at most."""


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
        return f"{self.prefix}{VERDICT_COLUMN}"

    def verdicts(self, said: Any) -> list[str | None]:
        """The verdict on each row of a ``pyarrow.RecordBatch`` of answers; None of models that give none."""
        if self.verdict not in said.schema.names:
            return [None] * said.num_rows
        verdicts: list[str | None] = said.column(self.verdict).to_pylist()
        return verdicts


ANSWERS_ALONE = Columns(probabilities=False, explain=False)


class Scorer(ABC):
    """Applies a model to batches of rows.

    A scorer can be pickled: it then carries the content of a model file, nothing of which is ever executed.

    Attributes
    ----------
    model : estimator
        A fitted one.
    names : list of str
        The columns that rows must have, in any order and among others.
    numeric : frozenset of str
        Those that hold numbers.
    unknown : dict of str to Unknown
        Values not seen in training, by column, in all the rows scored so far.
    """

    model: Any
    names: list[str]
    numeric: frozenset[str] = frozenset()

    def __init__(self, model: Any) -> None:
        self.model = model
        self.unknown: dict[str, Unknown] = {}

    @abstractmethod
    def __call__(self, batch: Any, start: int = 0, columns: Columns = ANSWERS_ALONE) -> Any:
        """What is written of each row: a ``pyarrow.RecordBatch`` with the columns :meth:`added`.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        start : int
            Rows before these, for messages.
        columns : Columns
        """

    @abstractmethod
    def chosen(self, columns: Columns) -> Columns:
        """The same columns, with what is left to the model decided; raises ``ValueError`` if it has no such columns."""

    @abstractmethod
    def _said(self, columns: Columns) -> list[str]:
        """The names of columns that were :meth:`chosen`, without the prefix and the reasons."""

    @abstractmethod
    def _read(self, batch: Any, start: int, unknown: dict[str, Unknown]) -> Any:
        """Rows as the model takes them: a tensor (N, V), or images (N, H, W, C).

        Values not seen in training are added to ``unknown``; the other arguments are those of a call.
        """

    @abstractmethod
    def _explain(self, rows: Any) -> Reasons:
        """Why each row is unusual, or is not, of rows as the model takes them."""

    def explain(self, batch: Any, start: int = 0) -> Reasons:
        """Why each row is unusual, or is not; arguments as those of a call."""
        return self._explain(self._read(batch, start, {}))

    def added(self, columns: Columns = ANSWERS_ALONE) -> list[str]:
        """The names of the columns that rows are given."""
        columns = self.chosen(columns)
        return [columns.prefix + name for name in [*self._said(columns), *([REASONS_COLUMN] * bool(columns.explain))]]

    def schema(self, columns: Columns = ANSWERS_ALONE) -> Any:
        """The names and types of the columns that rows are given, a ``pyarrow.Schema``."""
        pa = import_pyarrow()
        types = {columns.prefix + name: kind for name, kind in self._types().items()}
        return pa.schema([(name, types.get(name, pa.float64())) for name in self.added(columns)])

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

    def _explains(self, columns: Columns, refuses: bool = True) -> bool:
        """Whether there are reasons: by default if the model refuses rows, and knows why."""
        knows = hasattr(self.model, "familiar_")  # models from older files have nothing to compare with
        if columns.explain and not refuses:
            raise ValueError(f"explain says why rows are refused; a {type(self.model).__name__} refuses none")
        if columns.explain and not knows:
            raise ValueError("explain needs familiar rows to compare with, and the model has none; fit it again")
        return refuses and knows if columns.explain is None else columns.explain

    def _against(self, rows: Any) -> list[str]:
        """The parts that speak most against each row, most first, in words."""
        return ["; ".join(reason.name for reason in row) for row in self._explain(rows).top(N_REASONS)]

    def _types(self) -> dict[str, Any]:
        """The types of columns that do not hold numbers, by their names without the prefix."""
        return dict.fromkeys((VERDICT_COLUMN, REASONS_COLUMN), import_pyarrow().string())

    def _settings(self) -> dict[str, Any]:
        """What a copy is made with, beside the model."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.model.save(path)
            return _restored, (type(self), path.read_bytes(), str(self.model.circuit_.device), self._settings())


class OfTables(Scorer):
    """A scorer of the rows of tables."""

    def __init__(self, model: TableEstimator) -> None:
        super().__init__(model)
        columns = model.table_.columns
        self.names = [column.name for column in columns]
        self.numeric = frozenset(column.name for column in columns if column.categories is None)

    def _read(self, batch: Any, start: int, unknown: dict[str, Unknown]) -> Tensor:
        return encode_batch(self.model, batch, start, unknown)

    def _explain(self, rows: Any) -> Reasons:
        reasons: Reasons = self.model.explain_rows(rows)
        return reasons


class OfImages(Scorer):
    """A scorer of rows with the column ``path``, the files of images.

    Parameters
    ----------
    model : estimator of images
    resize : bool
        Whether images of another size than those trained on are resized or refused.
    """

    def __init__(self, model: Any, resize: bool = False) -> None:
        super().__init__(model)
        self.names = ["path"]
        self.resize = resize

    def _explain(self, rows: Any) -> Reasons:
        reasons: Reasons = self.model.explain(rows)
        return reasons

    def _read(self, batch: Any, start: int, unknown: dict[str, Unknown]) -> np.ndarray:  # noqa: ARG002 - of tables
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


def _restored(kind: type[Scorer], content: bytes, device: str, settings: dict[str, Any]) -> Scorer:
    """A scorer of the model in the content of a model file."""
    return kind(load_bytes(content, "a model that was sent", device=device), **settings)
