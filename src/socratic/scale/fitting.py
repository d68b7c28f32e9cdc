"""Training on a folder of Parquet files of any size, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from socratic.errors import DataFileError, printable
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.streaming import fit_to_files
from socratic.estimators.tabular import TableEstimator
from socratic.families import LeafName, as_family
from socratic.scale.manifest import list_dataset
from socratic.scale.places import Place, PlaceLike
from socratic.tables.batches import Kind
from socratic.tables.parquet_files import ParquetFiles, StoredFile
from socratic.tables.training_files import TrainingFiles

Fitted = TypeVar("Fitted", bound=TableEstimator)


def fit_files(
    estimator: Fitted,
    dataset: PlaceLike,
    target: str | None = None,
    *,
    weight: str | None = None,
    drop: Sequence[str] = (),
    drop_missing_target: bool = False,
) -> Fitted:
    """Fit an estimator of tables to a folder of Parquet files, which need not fit in memory.

    The rows are read as they are needed, in every epoch anew. What cannot be learnt batch by batch comes of a sample of
    them: scales, where training starts, when it stops, and what unusual means. Rows that this is measured on are not
    trained on. Categories, class frequencies and the doubt that the data leave come of all rows.

    Parameters
    ----------
    estimator : CircuitClassifier, CircuitDensity or CircuitOutlierDetector
        Of a structure that is trained; with ``structure="auto"`` it is ``"random"``.
    dataset : path, URI or Place
        A folder, whose Parquet files are read at any depth, or one file. All have the same columns.
    target : str, optional
        The column with the classes, for classifiers: whole numbers if all of them are, and text otherwise, so that
        booleans become "False" and "True".
    weight : str, optional
        A column with the weights of rows. Rows of weight 0 are left out.
    drop : sequence of str
        Columns to leave out.
    drop_missing_target : bool
        Whether to leave out rows without a class; they raise otherwise.

    Returns
    -------
    estimator
        The one that was given, fitted.

    Warns
    -----
    CalibrationWarning
        As ``fit`` does.
    """
    if not isinstance(estimator, TableEstimator):
        raise ValueError(f"estimator must be one of tables, such as CircuitClassifier; got {type(estimator).__name__}")
    if isinstance(estimator, CircuitClassifier) != (target is not None):
        wanted = "needs a target, the column with the classes" if target is None else "takes no target"
        raise ValueError(f"{type(estimator).__name__} {wanted}; got target={target!r}")
    columns: dict[str, Any] = {"target": target, "weight": weight, "drop": drop}
    files = open_files(dataset, **columns, drop_missing_target=drop_missing_target, leaf=estimator.leaf)
    fit_to_files(estimator, files)
    return estimator


def open_files(
    dataset: PlaceLike,
    *,
    target: str | None,
    weight: str | None,
    drop: Sequence[str],
    drop_missing_target: bool,
    leaf: Mapping[str, LeafName] | None,
) -> TrainingFiles:
    """The Parquet files of a folder, after checks of their columns; ``leaf`` names the families of some."""
    folder, files = list_dataset(Place.of(dataset))
    stored = []
    for file in files:
        place = folder / file.name
        if not file.name.lower().endswith(".parquet"):
            raise DataFileError(f"{place} is no Parquet file, and training reads no others from a folder; convert it")
        stored.append(StoredFile(printable(str(place)), place.opened, file.size, file.modified))
    asked: dict[str, Kind] = {
        name: "text" if as_family(family, f"leaf[{name!r}]").unordered else "number"
        for name, family in (leaf or {}).items()
    }
    return TrainingFiles.of(
        ParquetFiles(stored),
        str(folder),
        target=target,
        weight=weight,
        drop=drop,
        asked=asked,
        drop_missing_target=drop_missing_target,
    )
