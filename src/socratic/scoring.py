"""From a batch of rows to answers: the one way that the commands take, and whatever else applies a model to tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from socratic.estimators import Answer, CircuitClassifier
from socratic.loading import load
from socratic.tables.batches import import_pyarrow, raw_batch
from socratic.tables.columns import Unknown

ANSWER_COLUMNS = ("label", "probability", "entropy", "std", "p_value", "verdict")
"""What a scorer says of each row: the most probable class, its probability, the entropy of the prediction, the standard
deviation of the probability under dropout, the p-value, and whether the row is familiar."""


class Scorer:
    """Applies a classifier to batches of rows, whatever the order of their columns.

    A scorer can be pickled. It then carries the content of a model file, which nothing in is ever executed of.

    Parameters
    ----------
    model : CircuitClassifier
        A fitted one.

    Attributes
    ----------
    unknown : dict of str to Unknown
        Values not seen in training, by column, in all the rows scored so far.
    """

    def __init__(self, model: CircuitClassifier) -> None:
        self.model = model
        self.unknown: dict[str, Unknown] = {}

    @property
    def names(self) -> list[str]:
        """The columns that the model was trained on."""
        return [column.name for column in self.model.table_.columns]

    @property
    def numeric(self) -> frozenset[str]:
        """Those that it takes as numbers."""
        return frozenset(column.name for column in self.model.table_.columns if column.categories is None)

    def answer(self, batch: Any, start: int = 0) -> Answer:
        """What the model says of each row.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            With the columns of the model among its own.
        start : int
            Rows of the table before these, for messages.
        """
        model = self.model
        encoded = model.table_.encode(raw_batch(batch, model.table_, start))
        for name, found in encoded.unknown.items():
            before = self.unknown.get(name, Unknown(0, found.example))
            self.unknown[name] = before._replace(n_rows=before.n_rows + found.n_rows)
        return model.answer_rows(
            torch.as_tensor(encoded.codes, dtype=model.circuit_.dtype, device=model.circuit_.device)
        )

    def refused(self, answer: Answer) -> np.ndarray:
        """Which rows are unfamiliar: (N,) booleans."""
        return answer.uncertainty.p_value <= self.model.rejection_rate

    def __call__(self, batch: Any, start: int = 0) -> Any:
        """The same as a batch with the columns :data:`ANSWER_COLUMNS`."""
        return self.to_batch(self.answer(batch, start))

    def to_batch(self, answer: Answer) -> Any:
        """An answer as a ``pyarrow.RecordBatch`` with the columns :data:`ANSWER_COLUMNS`."""
        pa = import_pyarrow()
        best = answer.probabilities.argmax(1)
        each = np.arange(len(best))
        doubt = answer.uncertainty
        columns = (
            pa.array(self.model.classes_.tolist()).take(pa.array(best)),
            answer.probabilities[each, best],
            doubt.entropy,
            doubt.std[each, best],
            doubt.p_value,
            pa.array(["familiar", "unfamiliar"]).take(pa.array(self.refused(answer).astype(np.int64))),
        )
        return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=list(ANSWER_COLUMNS))

    def __getstate__(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            self.model.save(path)
            return {"model": path.read_bytes(), "device": str(self.model.circuit_.device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(state["model"])
            self.__init__(load(path, device=state["device"]))  # type: ignore[misc]
