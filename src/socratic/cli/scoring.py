"""A model applied to a table, chunk by chunk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from socratic.cli.failures import UserError, complain, library_errors, no_such_column
from socratic.cli.tabular import Chunk, Source
from socratic.cli.values import Categories, shorten
from socratic.errors import import_extra

if TYPE_CHECKING:
    from socratic.estimators import CircuitClassifier


@dataclass(frozen=True, eq=False)
class Scored:
    """What a model says of some rows.

    Attributes
    ----------
    probabilities : ndarray (N, C)
    label : ndarray (N,)
        The most probable class.
    probability, spread : ndarray (N,)
        Its probability, and the standard deviation of that over dropout masks.
    entropy, log_likelihood, p_value : ndarray (N,)
    rejected : ndarray (N,) of bool
    """

    probabilities: np.ndarray
    label: np.ndarray
    probability: np.ndarray
    spread: np.ndarray
    entropy: np.ndarray
    log_likelihood: np.ndarray
    p_value: np.ndarray
    rejected: np.ndarray


def load_model(path: Path, device: str = "auto", jobs: int | None = None) -> CircuitClassifier:
    """Read a model file."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a model file written by socratic fit")
    if not path.exists():
        raise UserError(f"there is no model file {path}; check the name, or write one with socratic fit")
    from socratic.errors import ModelFileError
    from socratic.estimators import load_classifier
    from socratic.estimators.building import choose_device

    check_device(device)
    if jobs is not None:
        import torch

        torch.set_num_threads(jobs)
    try:
        return load_classifier(path, device=str(choose_device(device)))
    except ModelFileError as error:
        raise UserError(f"{error}; a model file is what socratic fit writes") from error


def check_device(device: str) -> None:
    """Raise unless torch can compute on the device."""
    from socratic.estimators.building import choose_device

    try:
        choose_device(device)
    except ValueError:
        raise UserError(f"--device {device} is not available here; use auto or cpu") from None


class Scorer:
    """Applies a model to the chunks of tables, whatever the order of their columns.

    Parameters
    ----------
    model : CircuitClassifier
    """

    def __init__(self, model: CircuitClassifier) -> None:
        self.model = model
        self._categories = {
            column.name: Categories(column.categories)
            for column in model.table_.columns
            if column.categories is not None
        }
        self._unknown: Counter[str] = Counter()
        self._example: tuple[str, str] | None = None

    @property
    def numeric(self) -> frozenset[str]:
        """The columns that the model takes as numbers."""
        return frozenset(column.name for column in self.model.table_.columns if column.categories is None)

    def check_columns(self, source: Source) -> None:
        """Raise unless the table has every column the model was trained on."""
        present = set(source.names)
        missing = [column.name for column in self.model.table_.columns if column.name not in present]
        if missing:
            expected = {column.name for column in self.model.table_.columns}
            others = [name for name in source.names if name not in expected]
            raise no_such_column(source.path, missing, others or source.names)

    def score(self, chunk: Chunk) -> Scored:
        """What the model says of these rows."""
        with library_errors():
            rows = self._frame(chunk)
            shares = self.model.predict_proba(rows)
            doubt = self.model.uncertainty(rows)
        best = shares.argmax(1)
        each = np.arange(len(best))
        return Scored(
            shares,
            self.model.classes_[best],
            shares[each, best],
            doubt.std[each, best],
            doubt.entropy,
            doubt.log_likelihood,
            doubt.p_value,
            doubt.p_value <= self.model.rejection_rate,
        )

    def warn_of_unknown(self) -> None:
        """Say, once, how many values were not seen in training."""
        if self._example is None:
            return
        name, text = self._example
        complain(
            f"warning: values not seen in training are taken as missing: {sum(self._unknown.values())} in "
            f"{len(self._unknown)} column(s), such as {shorten(text)} in {name!r}"
        )

    def _frame(self, chunk: Chunk) -> Any:
        pd = import_extra("pandas", "tables", "a table")

        columns: dict[str, np.ndarray] = {}
        for column in self.model.table_.columns:
            name = column.name
            if column.categories is None:
                columns[name] = chunk.numbers(name)
                continue
            columns[name], unknown = self._categories[name].match(chunk.texts(name))
            if unknown:
                self._unknown[name] += len(unknown)
                self._example = self._example or (name, unknown[0])
        frame = pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})
        # A model fitted to an array knows its columns by number alone.
        return frame if hasattr(self.model, "feature_names_in_") else frame.to_numpy(dtype=np.float64)
