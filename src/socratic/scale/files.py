"""Scoring a folder of tables: file by file, each exactly once, from where the last run stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from socratic.errors import DataFileError
from socratic.estimators.building import threads
from socratic.scale.manifest import InputFile, Manifest, Record, list_dataset
from socratic.scale.places import Place, PlaceLike
from socratic.scale.scorer import ModelScorer
from socratic.scoring import Scorer
from socratic.tables.columns import Unknown
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
        """Score one file: the answered file appears, then its record. What is wrong with its content is returned."""
        place = self.dataset / file.name
        with place.for_reading() as path:
            try:
                return Outcome(file, self._score(file, place, path))
            except DataFileError as error:
                message = str(error).replace(str(path), str(place))
                return Outcome(file, None, message if str(place) in message else f"{place}: {message}")

    def _score(self, file: InputFile, place: Place, path: Path) -> Record:
        scorer, target = self.scorer.load(), self.output / file.name
        try:
            with target.for_writing() as written:
                verdicts = self._answer(scorer, path, written)
            n_bytes = target.info().size
        except NoRowsError:
            verdicts, n_bytes = Counter(), 0
            if target.info().is_file:
                target.remove()
        if InputFile.of(file.name, place.info()) != file:
            raise DataFileError(f"{place} changed while it was scored; start again when nobody writes to it")
        record = Record(file, self.scorer.checksum, n_bytes, dict(verdicts), scorer.unknown)
        Manifest(self.output, self.scorer).add(record)
        return record

    def _answer(self, scorer: Scorer, path: Path, written: Path) -> Counter[str]:
        """Write the answered table, and count the verdicts."""
        columns, verdicts = self.scorer.columns, Counter[str]()
        source = open_source(path)
        scorer.check_names(columns, source.names, path)
        with open_sink(written, scorer.numeric) as sink, threads(self.scorer.n_threads):
            for chunk in source.chunks():
                added = scorer(chunk.batch, chunk.start, columns)
                sink.write(chunk.batch, added)
                verdicts.update(added.column(columns.verdict).to_pylist())
        return verdicts


@dataclass(frozen=True)
class Summary:
    """What was scored, by this run and those before it."""

    records: list[Record]
    """One for each file of the shard that is done."""
    n_before: int
    """How many of them were done before."""
    problems: list[str]
    """Why files cannot be scored, one text each."""
    gone: list[str]
    """Files in the output whose input is not in the dataset any more."""

    @property
    def verdicts(self) -> Counter[str]:
        """Rows by verdict."""
        return sum((Counter(record.verdicts) for record in self.records), Counter[str]())

    @property
    def unknown(self) -> dict[str, Unknown]:
        """Values not seen in training, by column."""
        total: dict[str, Unknown] = {}
        for record in self.records:
            for name, found in record.unknown.items():
                before = total.get(name, Unknown(0, found.example))
                total[name] = before._replace(n_rows=before.n_rows + found.n_rows)
        return total


Watch = Callable[[Sequence[InputFile], Iterator[Outcome]], Iterator[Outcome]]
"""Sees the files that are left, and every outcome on its way."""


def score_files(
    model: PlaceLike | ModelScorer,
    dataset: PlaceLike,
    output: PlaceLike,
    *,
    shard: tuple[int, int] = (1, 1),
    rescore: bool = False,
    watch: Watch | None = None,
) -> Summary:
    """Score the tables of a folder; what was done before is not done again.

    Every table gives one of the same name and format in the output folder, with the columns of answers added. It
    appears when it is complete. A record for each table says that it is done: whatever stops a run, the next one goes
    on, and ends with the same bytes.

    Parameters
    ----------
    model : path, URI, Place or ModelScorer
        A file written by ``socratic fit`` or a classifier's ``save``; as a scorer, also which columns are added, and
        where to compute.
    dataset, output : path, URI or Place
        Folders (or one table) to read, and a folder to write to; of URIs, those of pyarrow's file systems.
    shard : pair of int
        Which part of the files to score, counted from 1, and into how many parts they are divided. All parts may be
        scored at once, into the same folder; a part is the same wherever the same files are listed.
    rescore : bool
        Whether to replace answers whose input has changed since, or that another model or other columns gave; they
        raise otherwise.
    watch : callable, optional
        Called with the files that are left and an iterator of outcomes, which it has to pass on.

    Returns
    -------
    Summary
        With the problems of tables that cannot be scored; the others are all the same.
    """
    source, target = Place.of(dataset), Place.of(output)
    source, files = list_dataset(source)
    if source.holds(target) or target.holds(source):
        raise DataFileError(f"{target} and {source} lie within each other; write to a folder apart from the dataset")
    scorer = model if isinstance(model, ModelScorer) else ModelScorer.of(model)
    plan = Manifest(target, scorer).plan(files, shard, rescore=rescore)
    for place in plan.stale:
        place.remove()
    outcomes = map(FileScorer(scorer, source, target), plan.left)
    records, problems = list(plan.done), []
    for outcome in outcomes if watch is None else watch(plan.left, outcomes):
        if outcome.record is None:
            problems.append(outcome.problem)
        else:
            records.append(outcome.record)
    return Summary(records, len(plan.done), problems, plan.gone)
