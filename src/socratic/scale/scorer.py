"""A model that travels as the name of its file: loaded once in each process that applies it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from socratic.errors import ModelFileError
from socratic.estimators.building import choose_device, threads
from socratic.loading import load_bytes
from socratic.scale.places import Place, PlaceLike
from socratic.scoring import Columns, Scorer, scorer_of
from socratic.tables import reading
from socratic.tables.batches import import_pyarrow

_loaded: dict[tuple[str, str], Any] = {}
"""The model that was applied last, by its checksum and device."""
_loading, _computing = Lock(), Lock()


@dataclass(frozen=True)
class ModelScorer:
    """Gives rows the columns of answers; it can be pickled, and holds no more than the place of the model file.

    Calling it with a ``pyarrow.Table`` gives the same rows with these columns added, as ``socratic predict`` does.
    Results depend on the pieces in which rows come in the last bits alone.

    Attributes
    ----------
    model : Place
        A file written by ``socratic fit`` or an estimator's ``save``, which every process that scores can read.
    checksum : str
        SHA-256 of that file: no process scores with another one of the same name.
    columns : Columns
        Which columns are added.
    device : str
        Where to compute: ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    n_threads : int
        Threads that torch computes with in each process.
    harmless : bool
        Whether an apostrophe is put before cells of CSV files that a spreadsheet would run.
    """

    model: Place
    checksum: str
    columns: Columns
    device: str = "auto"
    n_threads: int = 1
    harmless: bool = False

    @classmethod
    def of(cls, model: PlaceLike, columns: Columns | None = None, **settings: Any) -> ModelScorer:
        """The scorer of a model file as it is now; what ``columns`` leaves to the model is decided."""
        place = Place.of(model)
        if not place.facts().is_file:
            raise ModelFileError(f"there is no model file {place}; check the name, or write one with socratic fit")
        checksum = hashlib.sha256(place.read()).hexdigest()
        scorer = cls(place, checksum, columns or Columns(), **settings)
        return replace(scorer, columns=scorer.load().chosen(scorer.columns))

    def load(self) -> Scorer:
        """A scorer of the model, which this process reads once."""
        key = (self.checksum, self.device)
        with _loading:
            if key not in _loaded:
                _loaded.clear()
                _loaded[key] = self._read()
            return scorer_of(_loaded[key])

    def __call__(self, rows: Any) -> Any:
        """The rows of a ``pyarrow.Table`` with the columns of answers added, as a table."""
        pa = import_pyarrow()
        scorer = self.load()
        scorer.check_names(self.columns, rows.schema.names, "the table")
        batches = rows.combine_chunks().to_batches(reading.CHUNK_ROWS)
        with self.computing():
            added = [scorer(batch, columns=self.columns) for batch in batches]
        for name, column in zip(scorer.added(self.columns), pa.Table.from_batches(added).columns, strict=True):
            rows = rows.append_column(name, column)
        return rows

    def schema(self) -> Any:
        """The names and types of the columns that are added, a ``pyarrow.Schema``."""
        return self.load().schema(self.columns)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """While rows are scored: alone in this process, whose number of threads is one for all."""
        with _computing, threads(self.n_threads):
            yield

    def _read(self) -> Any:
        content = self.model.read()
        if hashlib.sha256(content).hexdigest() != self.checksum:
            raise ModelFileError(f"{self.model} has changed since the scoring began; start it again")
        # What was checked is what is loaded, whoever replaces the file meanwhile.
        model = load_bytes(content, str(self.model), device=choose_device(self.device))
        try:
            scorer_of(model)
        except ValueError as error:
            raise ModelFileError(f"{self.model} cannot score: {error}") from None
        return model
