"""Scoring a folder of tables: file by file, each exactly once, from where the last run stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from socratic.errors import DataFileError, check_choice, check_count
from socratic.notebook import table_of_facts
from socratic.scale.engines import ENGINES
from socratic.scale.files import FileScorer, Outcome
from socratic.scale.manifest import InputFile, Manifest, Record, list_dataset
from socratic.scale.places import Place, PlaceLike
from socratic.scale.processes import run_processes
from socratic.scale.scorer import ModelScorer
from socratic.tables.columns import Unknown


@dataclass(frozen=True)
class Summary:
    """What was scored, by this run and those before it."""

    records: list[Record]
    """One for each file of the shard that is done."""
    n_before: int
    """How many of them were done before."""
    problems: list[str]
    """Why files cannot be scored, one text each."""
    failed: list[str]
    """The names of these files."""
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

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "files": f"{len(self.records):,}, {self.n_before:,} of them before",
            "rows": f"{self.verdicts.total():,}",
            **{verdict: f"{count:,}" for verdict, count in sorted(self.verdicts.items())},
            "unseen values in": ", ".join(self.unknown) or None,
            "not scored": "; ".join(self.problems) or None,
            "gone": ", ".join(self.gone) or None,
        }
        return table_of_facts(facts, "Files that were scored, and their rows by verdict.")


Watch = Callable[[Sequence[InputFile], Iterator[Outcome]], Iterator[Outcome]]
"""Sees the files that are left, and every outcome on its way."""


def score_files(
    model: PlaceLike | ModelScorer,
    dataset: PlaceLike,
    output: PlaceLike,
    *,
    shard: tuple[int, int] = (1, 1),
    rescore: bool = False,
    engine: str = "local",
    n_jobs: int = 1,
    watch: Watch | None = None,
) -> Summary:
    """Score the tables of a folder; what was done before is not done again.

    Every table gives one of the same name and format in the output folder, with the columns of answers added. It
    appears when it is complete. A record for each table says that it is done: whatever stops a run, the next one goes
    on, and ends with the same bytes.

    Parameters
    ----------
    model : path, URI, Place or ModelScorer
        A file written by ``socratic fit`` or an estimator's ``save``; as a scorer, also which columns are added, and
        where to compute.
    dataset, output : path, URI or Place
        Folders (or one table) to read, and a folder to write to; of URIs, those of pyarrow's file systems.
    shard : pair of int
        Which part of the files to score, counted from 1, and into how many parts they are divided. All parts may be
        scored at once, into the same folder; a part is the same wherever the same files are listed.
    rescore : bool
        Whether to replace answers whose input has changed since, or that another model or other columns gave; they
        raise otherwise.
    engine : str
        What shares out the files: ``"local"`` is this process; ``"dask"``, ``"ray"`` and ``"spark"`` are the clusters
        that they are connected to, or new ones on this machine.
    n_jobs : int
        Files that are scored at a time, each by a process of this machine, with ``engine="local"``. These processes
        share the memory of the libraries and the model where they can.
    watch : callable, optional
        Called with the files that are left and an iterator of outcomes, which it has to pass on.

    Returns
    -------
    Summary
        With the problems of tables that cannot be scored; the others are all the same.

    Raises
    ------
    DataFileError
        Among others if another model, or one with other columns, is scoring to ``output`` at the same time.
    """
    check_choice("engine", engine, ENGINES)
    if check_count("n_jobs", n_jobs) > 1 and engine != "local":
        raise ValueError(f"n_jobs must be 1 with engine={engine!r}, whose cluster has workers of its own; got {n_jobs}")
    given, target = Place.of(dataset), Place.of(output)
    source, files = list_dataset(given)
    within = (source.holds(target), target.holds(source))
    # Of a single table nothing else in its folder is read: its answers may be anywhere but in its place.
    if any(within) if source is given else all(within):
        raise DataFileError(f"{target} and {source} lie within each other; write to a folder apart from the dataset")
    scorer = model if isinstance(model, ModelScorer) else ModelScorer.of(model)
    manifest = Manifest(target, scorer)
    with manifest.planned(files, shard, rescore=rescore) as plan:
        # Without anything to do no cluster is started.
        run = ENGINES[engine if plan.left else "local"]
        if min(n_jobs, len(plan.left)) > 1:
            run = partial(run_processes, n_jobs=n_jobs)
        outcomes = run(FileScorer(scorer, source, target), plan.left)
        records, failed = list(plan.done), []
        for outcome in outcomes if watch is None else watch(plan.left, outcomes):
            if outcome.record is None:
                manifest.check()
                failed.append(outcome)
            else:
                records.append(outcome.record)
    problems, names = [outcome.problem for outcome in failed], [outcome.input.name for outcome in failed]
    return Summary(records, len(plan.done), problems, names, plan.gone)
