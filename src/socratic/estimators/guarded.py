"""A model that one already has: how it is asked, and whether it answers with probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.special import entr

from socratic.estimators.given_rows import n_rows, take, without_cells

_BATCH = 1000
"""Rows that a callable is asked for at a time."""
_ROUNDING = 0.01
"""By how much probabilities may miss a sum of 1: those of networks in half precision do."""


def check_model(name: str, model: Any) -> None:
    """Raise unless a model can be asked for probabilities."""
    if not (hasattr(model, "predict_proba") or callable(model)) or isinstance(model, type):
        raise ValueError(
            f"{name} must be a fitted classifier with predict_proba, or a callable from a batch of rows to "
            f"probabilities (N, C); got {model!r}"
        )


def ask(model: Any, rows: Any) -> np.ndarray:
    """Class probabilities (N, C) of rows, by a model's ``predict_proba`` or by itself if it is a callable.

    A callable gets the rows as they are, a thousand at a time; a torch network gets tensors of its type, on its device.
    A row may come back as NaN: then the model does not know.
    """
    if hasattr(model, "predict_proba"):
        return _checked(model.predict_proba(rows), n_rows(rows))
    answers = [_checked(_call(model, batch), n_rows(batch)) for batch in _batches(rows)]
    widths = sorted({answer.shape[1] for answer in answers})
    if len(widths) > 1:
        raise ValueError(f"model must give each batch as many classes; got {widths[0]} and {widths[-1]}")
    return np.concatenate(answers)


def takes_missing(model: Any, rows: Any) -> bool:
    """Whether a model answers rows of a table with missing cells: with any one of them, asked of a few of the rows."""
    n_cells = rows.shape[1]
    holes = without_cells(take(rows, np.arange(n_cells) % n_rows(rows)), np.eye(n_cells, dtype=bool))
    try:
        return not np.isnan(ask(model, holes)).any()
    except Exception:  # whatever a model has to say of rows that it does not take
        return False


def classes_of(model: Any, probabilities: np.ndarray) -> np.ndarray:
    """The classes (C,) of a model that answered with probabilities (N, C); numbers from 0 if it does not name them."""
    n_classes = probabilities.shape[1]
    classes = np.asarray(getattr(model, "classes_", np.arange(n_classes)))
    if classes.shape != (n_classes,):
        raise ValueError(f"model must give a probability for each of its {len(classes)} classes; got {n_classes}")
    return classes


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Entropy (N,) of class probabilities (N, C), in nats; NaN where one of them is."""
    return entr(np.maximum(probabilities, 0.0)).sum(1)


def _batches(rows: Any) -> Iterator[Any]:
    for start in range(0, max(1, n_rows(rows)), _BATCH):  # of no rows, one empty batch
        yield take(rows, np.arange(start, min(start + _BATCH, n_rows(rows))))


def _call(model: Any, batch: Any) -> Any:
    if not isinstance(model, torch.nn.Module):
        return model(batch)
    if model.training:
        raise ValueError("model is a network in training mode, in which its answers may be random: call model.eval()")
    like = next(model.parameters(), torch.empty(0))
    with torch.no_grad():
        return model(torch.as_tensor(np.asarray(batch)).to(like.device, like.dtype))


def _checked(answer: Any, expected: int) -> np.ndarray:
    """The answer to ``expected`` rows as probabilities (N, C), or a ``ValueError`` that says why it is none."""
    array = answer.detach().cpu().double().numpy() if isinstance(answer, torch.Tensor) else np.asarray(answer)
    if array.ndim != 2 or len(array) != expected:
        hint = ": for two classes return both, np.column_stack([1 - p, p])" if array.shape == (expected,) else ""
        raise ValueError(f"model must give probabilities of the shape ({expected}, C); got {array.shape}{hint}")
    probabilities = array.astype(np.float64)
    wrong = (probabilities < -_ROUNDING).any(1) | (np.abs(probabilities.sum(1) - 1.0) > _ROUNDING)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"model must give probabilities that sum to 1; those of row {row} are {probabilities[row][:5].round(3)}, "
            f"with a sum of {probabilities[row].sum():.3g}: scores of a network become probabilities by softmax"
        )
    return probabilities
