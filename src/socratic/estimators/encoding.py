"""Rows in and out of estimators: checks of shape and names, and the encoding a fitted table prescribes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import _check_feature_names, _check_n_features, _check_sample_weight
from torch import Tensor

from socratic.estimators.tables import RawTable, raw_table


def check_columns(estimator: Any, x: Any, *, reset: bool) -> RawTable:
    """The columns of ``x``, after scikit-learn's checks of names and number; ``reset`` remembers them."""
    raw = raw_table(x, estimator)
    _check_feature_names(estimator, x, reset=reset)
    _check_n_features(estimator, _Shaped(raw), reset=reset)
    return raw


def check_weights(sample_weight: Any, x: Any) -> np.ndarray:
    """The weight of each row (N,), 1 if none are given."""
    weight: np.ndarray = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (weight < 0).any() or not weight.any():
        raise ValueError("sample_weight must hold numbers of at least 0, and not only 0")
    return weight


def encode_rows(estimator: Any, x: Any) -> Tensor:
    """Encode rows by a fitted estimator's table, in its circuit's type and on its device."""
    raw = check_columns(estimator, x, reset=False)
    circuit = estimator.circuit_
    return torch.as_tensor(estimator.table_.encode(raw), dtype=circuit.dtype, device=circuit.device)


class _Shaped:
    """What scikit-learn counts the features of."""

    def __init__(self, raw: RawTable) -> None:
        self.shape = (raw.n_rows, len(raw.values))
