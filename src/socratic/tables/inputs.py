"""Rows in and out of estimators: checks of shape and names, and the encoding a fitted table prescribes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data
from torch import Tensor

from socratic.tables.cells import shorten
from socratic.tables.columns import Unknown
from socratic.tables.raw import RawTable, arrow_table, is_missing, raw_table

_NOTHING = 2.0**-100
"""Rows of less weight than this share of the largest have none."""


def check_columns(estimator: Any, x: Any, *, reset: bool) -> RawTable:
    """The columns of ``x``, after scikit-learn's checks of names and number; ``reset`` remembers them."""
    table = arrow_table(x)
    x = x if table is None else table
    raw = raw_table(x, estimator)
    if not hasattr(x, "columns"):  # scikit-learn wants to count the columns itself; names there are none
        x = np.broadcast_to(0.0, (raw.n_rows, len(raw.values)))
    try:
        validate_data(estimator, x, reset=reset, skip_check_array=True)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return raw


def check_labels(y: Any) -> np.ndarray:
    """Class labels (N,), one for each row."""
    labels = np.asarray(column_or_1d(y, warn=True))
    missing = np.ma.getmaskarray(y).reshape(-1) if isinstance(y, np.ma.MaskedArray) else np.zeros(len(labels), bool)
    if labels.dtype.kind in "fO":
        missing = missing | np.array([is_missing(label) for label in labels.tolist()], dtype=bool)
    if missing.any():
        raise ValueError(
            f"y must hold a label for each row; {missing.sum()} of {len(labels)} are missing, the first in row "
            f"{int(missing.argmax())}: leave these rows out"
        )
    if labels.dtype.kind in "fO":
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        if "str" in kinds and len(kinds) > 1:
            raise ValueError(f"y must hold labels of one kind; it holds {' and '.join(kinds)}")
    check_classification_targets(labels)
    return labels


def check_weights(sample_weight: Any, x: Any) -> np.ndarray:
    """The weight of each row (N,), 1 if none are given."""
    n_rows = x.shape[0] if hasattr(x, "shape") else len(np.asarray(x))
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, np.ma.MaskedArray) and np.ma.is_masked(sample_weight):
        masked = np.ma.getmaskarray(sample_weight)
        raise ValueError(
            f"sample_weight must hold a number for each row; {masked.sum()} are masked, the first in row "
            f"{int(masked.argmax())}: leave these rows out, or give them the weight 0"
        )
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold a number for each row; got {sample_weight!r}") from None
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight must hold a number for each of {n_rows} rows; got the shape {weight.shape}")
    if not weight.any():
        raise ValueError("Sample weights must contain at least one non-zero number: sample_weight holds 0 throughout")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must hold numbers of at least 0, and not only 0")
    largest = weight.max()
    if not _NOTHING < largest < 1.0 / _NOTHING:
        # Ratios alone count. In units of a power of 2, which changes no digit, sums and products stay finite.
        weight = np.ldexp(weight, -np.frexp(largest)[1])
    return np.where(weight < _NOTHING * weight.max(), 0.0, weight)


def encode_rows(estimator: Any, x: Any) -> Tensor:
    """Encode rows by a fitted estimator's table, in its circuit's type and on its device."""
    return known(encode_cells(estimator, x))


def encode_cells(estimator: Any, x: Any) -> Tensor:
    """The same, but infinite, and not missing, where training rows do not hold a value: see :func:`known`."""
    encoded = estimator.table_.encode(check_columns(estimator, x, reset=False))
    if encoded.unknown:
        warnings.warn(describe_unknown(encoded.unknown), stacklevel=2)
    circuit = estimator.circuit_
    return torch.as_tensor(encoded.codes, dtype=circuit.dtype, device=circuit.device)


def known(x: Tensor) -> Tensor:
    """What a circuit reads of encoded rows: values that training rows do not hold are missing."""
    return torch.where(x.isinf(), torch.nan, x)


def describe_unknown(unknown: Mapping[str, Unknown]) -> str:
    """What to say of values that were not seen in training."""
    name, (_, example) = next(iter(unknown.items()))
    count = sum(found.n_rows for found in unknown.values())
    return (
        f"values not seen in training count against their rows: {count} in {len(unknown)} column(s), "
        f"such as {shorten(example)} in {name!r}"
    )
