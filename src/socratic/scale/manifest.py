"""What is done and what is left: one small file for each input, so that any number of processes can share a folder.

An answered file lies in the output folder under the name of its input. When it is there, and only then, its record
appears as ``_manifest/RUN/NAME.json``, where RUN stands for the model and the columns: answers of another model are
thus seen by listing the folder. No record holds a time or a machine: whoever scores the same files, however often
interrupted, leaves the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from socratic.errors import DataFileError
from socratic.scale.locks import Lock
from socratic.scale.places import Facts, Place
from socratic.scale.scorer import ModelScorer
from socratic.tables.columns import Unknown
from socratic.tables.reading import SUFFIXES

MANIFEST = "_manifest"
UNJUDGED = "unjudged"
"""What rows are counted as that a density answered: it has no verdicts."""


@dataclass(frozen=True)
class InputFile:
    """A file of the dataset, as it was when it was listed."""

    name: str
    """Its path from the folder of the dataset."""
    size: int
    """In bytes."""
    modified: int
    """When it was last changed, in nanoseconds."""

    @classmethod
    def of(cls, name: str, facts: Facts) -> InputFile:
        """The file of this name, from what is known of it."""
        return cls(name, facts.size, facts.modified)


@dataclass(frozen=True)
class Record:
    """What is known of a file that was scored."""

    input: InputFile
    model: str
    """The checksum of the model file."""
    n_bytes: int
    """Of the answered file; 0 if the input holds no rows, for which nothing is written."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """Rows by verdict."""
    unknown: dict[str, Unknown] = field(default_factory=dict)
    """Values not seen in training, by column."""

    def to_json(self) -> bytes:
        """The record as it stands in its file."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True, default=str) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Record:
        """The record in the content of a file."""
        found = json.loads(content)
        found["input"] = InputFile(**found["input"])
        found["unknown"] = {name: Unknown(*values) for name, values in found["unknown"].items()}
        return cls(**found)


@dataclass(frozen=True)
class Plan:
    """What one run has to do."""

    left: list[InputFile]
    """Files to score."""
    done: list[Record]
    """Files that are scored already."""
    stale: list[Place]
    """Records that are true no longer, to be removed before anything is scored."""
    gone: list[str]
    """Files that were scored and are not in the dataset any more."""


class Manifest:
    """The records of an output folder.

    Parameters
    ----------
    output : Place
    scorer : ModelScorer
        Whose answers the records are of.
    """

    def __init__(self, output: Place, scorer: ModelScorer) -> None:
        self.output = output
        # Whether cells are made harmless is added where they are: records of before know nothing of it.
        said = [scorer.checksum, asdict(scorer.columns), *(["harmless"] if scorer.harmless else [])]
        self.run = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        self.model = scorer.checksum

    @contextmanager
    def planned(self, files: Sequence[InputFile], shard: tuple[int, int] = (1, 1), *, rescore: bool) -> Iterator[Plan]:
        """What is left to do (see :meth:`plan`), while the folder is kept for this run and others like it.

        A run of another model or other columns is kept out by a lock, or where files cannot be locked by the mark of
        the run that was the last to begin.
        """
        with Lock((self.output / f"{MANIFEST}/lock").local) as lock:
            if not lock.take():
                lock.share()  # as soon as no other run makes its plan
                if self._marked() != self.run and not lock.take():
                    raise DataFileError(
                        f"{self.output} is being scored by another model or with other columns; wait until that run "
                        "ends, or write to another folder"
                    )
            plan = self.plan(files, shard, rescore=rescore)
            if (plan.left or plan.stale) and self._marked() != self.run:
                self._mark.write(self.run.encode())
            lock.share()
            if plan.left or plan.stale:
                self.check()
            for place in plan.stale:
                place.remove()
            yield plan
            if plan.left and not lock.works:
                self._check_alone({file.name for file in plan.left})

    def check(self) -> None:
        """Raise if a run of another model or other columns has begun since this one."""
        if self._marked() not in ("", self.run):  # there is no mark where files are scored without a plan
            raise DataFileError(
                f"another model, or one with other columns, has begun to score to {self.output} meanwhile; start again "
                "with --rescore when one of them alone writes there"
            )

    def _check_alone(self, names: set[str]) -> None:
        """Raise if another run has scored some of these files meanwhile."""
        self.check()
        for run, scored in _recorded(self.output.files()).items():
            if run != self.run and names & scored:
                raise self._mixed(run, min(names & scored))

    def add(self, record: Record) -> None:
        """Say that a file is done."""
        self.check()
        self._place(self.run, record.input.name).write(record.to_json())

    def plan(self, files: Sequence[InputFile], shard: tuple[int, int] = (1, 1), *, rescore: bool = False) -> Plan:
        """Compare the dataset with what was done before.

        Parameters
        ----------
        files : sequence of InputFile
            All files of the dataset.
        shard : pair of int
            Which part of them to take, counted from 1, and into how many they are divided.
        rescore : bool
            Whether to score files again that have changed, or were scored by another model or with other columns;
            otherwise they raise.
        """
        present = self.output.files()
        recorded = _recorded(present)
        own = recorded.pop(self.run, set())
        known = {file.name for file in files}
        gone = sorted({name for names in (own, *recorded.values()) for name in names} - known)
        mine = sorted(files, key=lambda file: file.name)[shard[0] - 1 :: shard[1]]
        plan = Plan([], [], [], gone)
        for run, names in recorded.items():
            if not rescore:
                raise self._mixed(run, min(names))
            plan.stale.extend(self._place(run, file.name) for file in mine if file.name in names)
        for file in mine:
            record = Record.from_json(self._place(self.run, file.name).read()) if file.name in own else None
            if record is not None and record.input != file:
                if not rescore:
                    raise self._changed(record.input, file)
                plan.stale.append(self._place(self.run, file.name))
                record = None
            written = present[file.name].size if file.name in present else 0
            if record is not None and record.n_bytes == written:
                plan.done.append(record)
            else:
                plan.left.append(file)
        return plan

    @property
    def _mark(self) -> Place:
        """A file that names the run that was the last to begin."""
        return self.output / f"{MANIFEST}/run"

    def _marked(self) -> str:
        return self._mark.read().decode(errors="replace") if self._mark.facts().is_file else ""

    def _place(self, run: str, name: str) -> Place:
        return self.output / f"{MANIFEST}/{run}/{name}.json"

    def _mixed(self, run: str, name: str) -> DataFileError:
        before = Record.from_json(self._place(run, name).read())
        what = "with other columns or cells"
        if before.model != self.model:
            what = f"by another model (checksum {before.model[:12]}, now {self.model[:12]})"
        return DataFileError(
            f"{name} in {self.output} was scored {what}; write to another folder, or replace what is there (--rescore)"
        )

    def _changed(self, before: InputFile, now: InputFile) -> DataFileError:
        how = f"{before.size:,} bytes then, {now.size:,} now" if before.size != now.size else "it was written again"
        return DataFileError(
            f"{now.name} has changed since it was scored ({how}); write to another folder, or replace what is in "
            f"{self.output} (--rescore)"
        )


def _recorded(present: Iterable[str]) -> dict[str, set[str]]:
    """The names of the inputs that have a record, by run, from all files of an output folder."""
    names: dict[str, set[str]] = {}
    for path in present:
        top, _, rest = path.partition("/")
        run, _, record = rest.partition("/")
        if top == MANIFEST and record.endswith(".json"):
            names.setdefault(run, set()).add(record.removesuffix(".json"))
    return names


def list_dataset(dataset: Place) -> tuple[Place, list[InputFile]]:
    """The folder of a dataset and the tables in it, at any depth; of a single file, its folder and the file.

    Files of other kinds, and those whose path has a part that starts with ``_`` or ``.``, are no part of it.
    """
    facts = dataset.facts()
    if facts.is_file:
        if not dataset.name.lower().endswith(SUFFIXES):
            raise DataFileError(f"{dataset}: the name must end in one of {', '.join(SUFFIXES)}")
        return dataset.parent, [InputFile.of(dataset.name, facts)]
    files = [InputFile.of(name, facts) for name, facts in dataset.files().items() if _is_table(name)]
    if not files:
        raise DataFileError(f"there are no tables ({', '.join(SUFFIXES)}) in {dataset}; check the name of the folder")
    return dataset, files


def _is_table(name: str) -> bool:
    hidden = any(part.startswith(("_", ".")) for part in name.split("/"))
    return not hidden and name.lower().endswith(SUFFIXES)
