"""Layers taken in blocks of folds and rows, for states that hold small matrices for each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from socratic.memory import blocks

State = TypeVar("State", bound=NamedTuple)
"""Tensors with folds and rows as their first two axes, or None. The first, ``log_mean``, is (F, N, S)."""


COPIES = 12
"""Matrices of each row that PyTorch's own steps hold for a layer."""


def by_blocks(
    block: Callable[[Tensor, State, State | None, slice], State],
    weights: Tensor,
    left: State,
    right: State | None,
    copies: int = COPIES,
) -> State:
    """Join ``block(weights, left, right, folds)`` over some folds and rows at a time, so that intermediates stay small.

    Parameters
    ----------
    block : callable
        Gives the state of the sums of some folds, from their weights and children; ``folds`` says which they are.
    weights : (F, S, K)
    left, right : State
        Of the children of all folds.
    copies : int
        Matrices (S, A) that ``block`` holds for each row.
    """
    n_folds, n_rows, width = left[0].shape
    widest = width if right is None else max(width, right[0].shape[-1])
    numbers = copies * weights.shape[1] * widest + 2 * weights.shape[2]
    joined: list[State] = []
    for folds, rows in blocks(n_folds, n_rows, numbers * weights.element_size(), weights.device):
        parts = [
            block(weights[folds], cut(left, folds, r), None if right is None else cut(right, folds, r), folds)
            for r in rows
        ]
        joined.append(concatenate(parts, dim=1))
    return concatenate(joined, dim=0)


def cut(state: State, folds: slice, rows: slice | Tensor) -> State:
    """The state of some folds and rows, which may be given by their numbers."""
    parts: dict[str, Any] = {
        name: None if part is None else part[folds, rows] for name, part in state._asdict().items()
    }
    return state._replace(**parts)


def concatenate(states: list[State], dim: int) -> State:
    """Join states along their folds or their rows."""
    if len(states) == 1:
        return states[0]
    joined: dict[str, Any] = {
        name: None if part is None else torch.cat([getattr(state, name) for state in states], dim)
        for name, part in states[0]._asdict().items()
    }
    return states[0]._replace(**joined)
