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
from socratic.cli.tabular import Chunk, Source, open_source
from socratic.cli.values import Kind, as_booleans, first_missing
from socratic.errors import import_extra

_TEXT_FAMILIES = ("bernoulli", "categorical")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """What to train on.

    Attributes
    ----------
    features : DataFrame (N, V)
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
    leaves: Mapping[str, str],
    drop: Sequence[str] = (),
    weight: str | None = None,
    drop_missing_target: bool = False,
    quiet: bool = False,
) -> TrainingTable:
    """Read a table to train on, with the kind of each column decided by all of its rows."""
    source = open_source(path)
    features = _features(source, target, leaves, drop, weight)
    with waiting("looking at the columns", quiet):
        asked: dict[str, Kind] = {
            name: "text" if family in _TEXT_FAMILIES else "number" for name, family in leaves.items()
        }
        kinds = {**source.kinds([name for name in features if name not in asked]), **asked}
    parts: dict[str, list[np.ndarray]] = {name: [] for name in features}
    labels: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    known: dict[str, str] = {}
    for chunk in watched(source, "reading", quiet):
        for name in features:
            parts[name].append(_values(chunk, name, kinds[name], known))
        labels.append(chunk.texts(target))
        if weight is not None:
            weights.append(_checked_weights(chunk, weight))
    return _assemble(parts, labels, weights, path, target, drop_missing_target)


def text_labels(labels: np.ndarray, path: Path, target: str) -> np.ndarray:
    """Labels (N,) as text, raising if one is missing."""
    n_missing, place = first_missing(labels)
    if n_missing:
        raise UserError(
            f"{path}: the target {target!r} is missing in {n_missing} row{'s' if n_missing > 1 else ''}, first in row "
            f"{place + 1}; fill them in, or leave them out with --drop-missing-target"
        )
    return labels


def _features(
    source: Source, target: str, leaves: Mapping[str, str], drop: Sequence[str], weight: str | None
) -> list[str]:
    named = [target, *([weight] if weight is not None else []), *leaves, *drop]
    missing = [name for name in dict.fromkeys(named) if name not in source.names]
    if missing:
        raise no_such_column(source.path, missing, source.names)
    apart = {target, weight, *drop}
    for name in leaves:
        if name in apart:
            raise UserError(f"--leaf {name}: the column is not a feature (it is the target, the weight, or dropped)")
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


def _values(chunk: Chunk, name: str, kind: Kind, known: dict[str, str]) -> np.ndarray:
    if kind == "number":
        return chunk.numbers(name)
    texts = chunk.texts(name)
    if kind == "boolean":
        return as_booleans(texts)
    texts[:] = [None if text is None else known.setdefault(text, text) for text in texts.tolist()]
    return texts


def _checked_weights(chunk: Chunk, name: str) -> np.ndarray:
    weights = chunk.numbers(name)
    wrong = ~(weights >= 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        found = "nothing" if np.isnan(weights[row]) else f"{weights[row]:g}"
        raise UserError(
            f"row {chunk.start + row + 1}, column {name!r}: a weight must be a number of at least 0; got {found}"
        )
    return weights


def _assemble(
    parts: dict[str, list[np.ndarray]],
    labels: list[np.ndarray],
    weights: list[np.ndarray],
    path: Path,
    target: str,
    drop_missing_target: bool,
) -> TrainingTable:
    pd = import_extra("pandas", "tables", "a table")

    texts = np.concatenate(labels)
    kept = np.ones(len(texts), dtype=bool)
    if drop_missing_target:
        kept = np.array([text is not None for text in texts.tolist()])
    if not kept.any():
        raise UserError(f"{path}: the target {target!r} is missing in every row")
    columns = {}
    for name in list(parts):
        values = np.concatenate(parts.pop(name))[kept]
        columns[name] = pd.Series(values, dtype=values.dtype)
    classes = _classes(text_labels(texts[kept], path, target), path, target)
    weight = np.concatenate(weights)[kept] if weights else None
    return TrainingTable(pd.DataFrame(columns), classes, weight, int((~kept).sum()))


def _classes(texts: np.ndarray, path: Path, target: str) -> np.ndarray:
    """Labels as whole numbers if all of them are, otherwise as text, after checks that they are classes."""
    distinct = set(texts.tolist())
    if len(distinct) == 1:
        raise UserError(
            f"{path}: the target {target!r} holds one class only ({next(iter(distinct))!r}); a classifier needs two"
        )
    if len(distinct) == len(texts) and len(texts) > 2:
        raise UserError(
            f"{path}: the target {target!r} has another value in each of its {len(texts)} rows; classes must repeat"
        )
    if all(_WHOLE.fullmatch(text) for text in distinct):
        return texts.astype(np.int64)
    if all(_is_number(text) for text in distinct):
        example = next(text for text in sorted(distinct) if not _WHOLE.fullmatch(text))
        raise UserError(
            f"{path}: the target {target!r} holds numbers such as {example}, which are no classes; "
            "socratic predicts classes, so group them first"
        )
    return texts.astype(str)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
