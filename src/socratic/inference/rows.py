"""What every query does with its rows: check them, convert them, and take them in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.memory import even_chunks, rows_at_a_time
from socratic.shortcuts import may_replay
from socratic.tracing import is_recording

Result = TypeVar("Result")


def check_rows(circuit: Circuit | Graph, x: Any) -> Tensor:
    """Return ``x`` as a tensor (N, V) of the circuit's type and device, or raise a ValueError that says why not."""
    given, rows = _convert(circuit, x)
    _check(circuit, given, rows)
    return rows


def ask(circuit: Circuit | Graph, x: Any, query: Callable[[Tensor], Result]) -> Result:
    """The result of a query of checked rows.

    A query that a GPU replays waits for it in the end. To wait for an answer about its rows as well, before it begins,
    takes as long as a query of a few rows: where infinite values do no harm, this is asked afterwards.
    """
    given, rows = _convert(circuit, x)
    if not (may_replay(rows) and circuit.bounds_values):
        _check(circuit, given, rows)
        return query(rows)
    total = _total(rows)
    result = query(rows)
    _check_finite(given, rows, total)
    return result


def _convert(circuit: Circuit | Graph, x: Any) -> tuple[Tensor, Tensor]:
    """``x`` as a tensor as it is, and of the circuit's type and device."""
    given = x if isinstance(x, Tensor) else _as_tensor(x)
    if given.ndim != 2 or given.shape[1] != circuit.n_features:
        raise ValueError(
            f"x must have the shape (rows, {circuit.n_features}), one column for each feature; got {tuple(given.shape)}"
        )
    if given.is_complex():
        raise ValueError(f"x must hold real numbers; got {given.dtype}")
    return given, given.to(device=circuit.device, dtype=circuit.dtype)


def _as_tensor(x: Any) -> Tensor:
    try:
        array = np.asarray(x)  # not torch.as_tensor: it would take lists of floats as float32
    except ValueError as error:
        raise ValueError(f"x must be an array or tensor of numbers, with rows of equal length; {error}") from None
    if array.dtype.kind not in "biufc" or isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"x must be an array or tensor of numbers; got {type(x).__name__} of type {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    # torch shares memory with arrays that are writable, of native byte order and run forwards; others are copied.
    if not array.flags.writeable or not array.dtype.isnative or any(stride < 0 for stride in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    return torch.as_tensor(array)


def _check(circuit: Circuit | Graph, given: Tensor, rows: Tensor) -> None:
    if not is_recording(rows):
        _check_finite(given, rows, _total(rows))
        _check_domains(circuit, rows)


def _total(rows: Tensor) -> Tensor:
    """The sum of all values: where it is finite, so are they."""
    return rows.detach().sum()


def _check_finite(given: Tensor, rows: Tensor, total: Tensor) -> None:
    if not math.isfinite(total.item()) and rows.isinf().any():
        row, column = rows.isinf().nonzero()[0].tolist()
        raise ValueError(
            f"x must be finite in {rows.dtype} (NaN for a missing value); "
            f"got {given[row, column].item()} in row {row}, column {column}"
        )


def _check_domains(circuit: Circuit | Graph, rows: Tensor) -> None:
    for families, columns in circuit.restricted_columns:
        part = rows if len(columns) == circuit.n_features else rows[:, columns]
        # Where leaves of several families meet, a value must make sense to one of them.
        nowhere = torch.stack([family.invalid(part) for family in families]).all(0)
        if nowhere.any():
            row, column = nowhere.nonzero()[0].tolist()
            raise ValueError(
                f"x must hold {' or '.join(family.domain for family in families)} (or NaN) in column "
                f"{columns[column]}, whose leaves are {' or '.join(family.name for family in families)}; "
                f"got {part[row, column].item():g} in row {row}"
            )


def map_chunks(
    query: Callable[[int, int], Result], rows: Tensor, entries_per_row: int, chunk_size: int | None
) -> list[Result]:
    """The results of ``query(start, stop)`` over chunks of rows; one empty chunk if there are no rows."""
    most = rows_at_a_time(rows, entries_per_row, chunk_size)
    return [query(start, stop) for start, stop in even_chunks(len(rows), most, rows.device)]
