"""Tables for training: features, classes and weights from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from socratic.cli.console import waiting, watched
from socratic.cli.failures import UserError, no_such_column
from socratic.tables.batches import Kind, import_pyarrow, numbers, texts, weights
from socratic.tables.cells import BOOLEANS
from socratic.tables.labels import label_values
from socratic.tables.raw import Coded
from socratic.tables.reading import TableSource, open_source


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """What to train on.

    Attributes
    ----------
    features : pyarrow.Table (N, V)
    labels : ndarray (N,)
        Whole numbers if all of them are, otherwise text.
    weight : ndarray (N,) or None
    n_dropped : int
        Rows left out because they have no class.
    """

    features: Any
    labels: np.ndarray
    weight: np.ndarray | None
    n_dropped: int


def read_training(
    path: Path,
    target: str,
    *,
    leaf: Mapping[str, str],
    uncertain: Sequence[str] = (),
    drop: Sequence[str] = (),
    weight: str | None = None,
    drop_missing_target: bool = False,
    quiet: bool = False,
) -> TrainingTable:
    """Read a table to train on, with the kind of each column decided by all of its rows."""
    pa = import_pyarrow()
    source = open_source(path)
    features = _features(source, target, {"leaf": list(leaf), "leaf-variance": uncertain}, drop, weight)
    with waiting("looking at the columns", quiet):
        from socratic.families import FAMILIES  # takes a while: after what can be wrong with the file

        asked: dict[str, Kind] = {
            name: "text" if FAMILIES[family].unordered else "number" for name, family in leaf.items()
        }
        kinds = {**source.kinds([name for name in features if name not in asked]), **asked}
    parts: dict[str, list[Any]] = {name: [] for name in features}
    labels: list[Coded] = []
    weight_parts: list[np.ndarray] = []
    for chunk in watched(source, "reading", quiet):
        for name in features:
            array = chunk.batch.column(name)
            parts[name].append(numbers(array, name, chunk.start) if kinds[name] == "number" else texts(array))
        labels.append(texts(chunk.batch.column(target)))
        if weight is not None:
            weight_parts.append(weights(chunk.batch.column(weight), weight, chunk.start))
    classes, kept = class_texts(Coded.joined(labels), path, target, drop_missing_target)
    columns = {name: _joined(parts.pop(name), kinds[name], kept) for name in features}
    return TrainingTable(
        pa.table(columns),
        class_labels(classes, f"{path}: the target {target!r}"),
        np.concatenate(weight_parts)[kept] if weight_parts else None,
        int((~kept).sum()),
    )


def class_texts(labels: Coded, path: Path, target: str, drop_missing: bool) -> tuple[Coded, np.ndarray]:
    """The classes of the rows that have one, and which rows these are; raises if some have none."""
    kept = labels.codes >= 0
    n_missing = int((~kept).sum())
    if n_missing == len(kept):
        raise UserError(f"{path}: the target {target!r} is missing in every row")
    if n_missing and not drop_missing:
        raise UserError(
            f"{path}: the target {target!r} is missing in {n_missing} row{'s' if n_missing > 1 else ''}, first in row "
            f"{int(kept.argmin()) + 1}; fill them in, or leave them out with --drop-missing-target"
        )
    return labels.take(kept), kept


def _features(
    source: TableSource, target: str, asked: Mapping[str, Sequence[str]], drop: Sequence[str], weight: str | None
) -> list[str]:
    """The columns to learn from; those ``asked`` for by an option must be among them."""
    of_options = [(option, name) for option, names in asked.items() for name in names]
    named = [target, *([weight] if weight is not None else []), *(name for _, name in of_options), *drop]
    missing = [name for name in dict.fromkeys(named) if name not in source.names]
    if missing:
        raise no_such_column(source.path, missing, source.names)
    apart = {target, weight, *drop}
    for option, name in of_options:
        if name in apart:
            raise UserError(
                f"--{option} {name}: the column is not a feature (it is the target, the weight, or dropped)"
            )
    if target in drop or target == weight:
        raise UserError(f"the target {target!r} cannot be dropped or be the weight as well")
    # Parquet files of pandas keep its row index as a column.
    features = [name for name in source.names if name not in apart and not re.fullmatch(r"__index_level_\d+__", name)]
    if not features:
        raise UserError(f"{source.path} has no column left to learn from; it needs one besides the target")
    if "" in features:
        place = source.names.index("") + 1
        raise UserError(f"{source.path}: column {place} has no name; name it, or leave it out with --drop ''")
    return features


def _joined(parts: Sequence[Any], kind: Kind, kept: np.ndarray) -> Any:
    """A column of all chunks as an Arrow array of its type."""
    pa = import_pyarrow()
    if kind == "number":
        return pa.array(np.concatenate(parts)[kept], from_pandas=True)
    coded = Coded.joined(parts).take(kept)
    codes = pa.array(coded.codes, mask=coded.codes < 0)
    if kind == "boolean":
        return pa.array([BOOLEANS[text.lower()] for text in coded.values], pa.bool_()).take(codes)
    return pa.DictionaryArray.from_arrays(codes, pa.array(coded.values, pa.string()))


def class_labels(classes: Coded, source: str) -> np.ndarray:
    """Labels as whole numbers if all of them are, otherwise as text, after checks that they are classes.

    ``source`` says where they are from, for messages.
    """
    return label_values(classes.values, len(classes), source)[classes.codes]
