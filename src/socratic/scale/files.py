"""Scoring one table of a dataset: what every engine runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from socratic.errors import DataFileError, printable
from socratic.files import NO_ROOM
from socratic.scale.manifest import UNJUDGED, InputFile, Manifest, Record
from socratic.scale.places import Place
from socratic.scale.scorer import ModelScorer
from socratic.scoring import Scorer
from socratic.tables.batches import import_pyarrow
from socratic.tables.reading import NoRowsError, open_source
from socratic.tables.writing import open_sink


@dataclass(frozen=True)
class Outcome:
    """What became of a file: a record, or the reason why it cannot be scored."""

    input: InputFile
    record: Record | None
    problem: str = ""


@dataclass(frozen=True)
class FileScorer:
    """Scores files of a dataset; it can be pickled, and is what every engine runs.

    Attributes
    ----------
    scorer : ModelScorer
    dataset, output : Place
        The folders that files are read from and written to.
    """

    scorer: ModelScorer
    dataset: Place
    output: Place

    def __call__(self, file: InputFile) -> Outcome:
        """Score one file: the answered file appears, then its record. What is wrong with this file is returned."""
        scorer, place = self.scorer.load(), self.dataset / file.name
        shown, path = printable(str(place)), None
        try:
            with place.for_reading() as path:
                return Outcome(file, self._score(scorer, file, place, path))
        except (ValueError, OSError, import_pyarrow().ArrowException) as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise  # no other file fares better
            message = printable(str(error)).replace(printable(str(path)), shown)
        return Outcome(file, None, message if shown in message else f"{shown}: {message}")

    def _score(self, scorer: Scorer, file: InputFile, place: Place, path: Path) -> Record:
        target = self.output / file.name
        try:
            with target.for_writing() as written:
                verdicts = self._answer(scorer, path, written)
            n_bytes = target.facts().size
        except NoRowsError:
            verdicts, n_bytes = Counter(), 0
            if target.facts().is_file:
                target.remove()
        if InputFile.of(file.name, place.facts()) != file:
            raise DataFileError(f"{place} changed while it was scored; start again when nobody writes to it")
        record = Record(file, self.scorer.checksum, n_bytes, dict(verdicts), scorer.unknown)
        self._manifest.add(record)
        return record

    def _answer(self, scorer: Scorer, path: Path, written: Path) -> Counter[str]:
        """Write the answered table, and count the verdicts."""
        columns, verdicts = self.scorer.columns, Counter[str]()
        source = open_source(path)
        scorer.check_names(columns, source.names, path)
        sink = open_sink(written, scorer.numeric, harmless=self.scorer.harmless)
        with sink as table, self.scorer.computing():
            for chunk in source.chunks():
                added = scorer(chunk.batch, chunk.start, columns)
                table.write(chunk.batch, added)
                verdicts.update(verdict or UNJUDGED for verdict in columns.verdicts(added))
            self._manifest.check()
        return verdicts

    @property
    def _manifest(self) -> Manifest:
        return Manifest(self.output, self.scorer)
