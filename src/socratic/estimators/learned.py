"""Circuits whose structure is learned from a table, one part for each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from socratic.circuit.graph import Graph
from socratic.circuit.nodes import Node
from socratic.estimators.preparation import MOST_COPIES
from socratic.learning.settings import Rows
from socratic.learning.structure import chow_liu_tree, learn_class_spns
from socratic.tables.columns import Table

Learner = Callable[[np.ndarray, np.ndarray, Table, int], Sequence[Node]]
"""From rows (N, V), their classes (N,), the table they come from and a seed to one root for each class."""

_SHOWN_COLUMNS = 5


def learn_graph(structure: str, table: Table, train: Rows, seed: int) -> Graph:
    """Learn a circuit with a root for each class from rows of weight 1, in float64."""
    x, y = train.x.double().numpy(), train.y.numpy()  # whole-number weights have become rows
    return Graph(LEARNERS[structure](x, y, table, seed), len(table.columns), dtype=torch.float64)


def _learnspn(x: np.ndarray, y: np.ndarray, table: Table, seed: int) -> Sequence[Node]:
    return learn_class_spns(x, y, table.families, seed=seed)


def _chow_liu(x: np.ndarray, y: np.ndarray, table: Table, _seed: int) -> Sequence[Node]:
    _check_discrete(table)
    return [chow_liu_tree(x[y == label], table.families) for label in range(int(y.max()) + 1)]


LEARNERS: Mapping[str, Learner] = {"learnspn": _learnspn, "chow-liu": _chow_liu}
LEARNED = tuple(LEARNERS)
"""Structures that come with their parameters: nothing is left to train."""
SEEDLESS = ("chow-liu",)
"""Those of them in which nothing is random."""


def check_whole_weights(structure: str, weight: np.ndarray) -> None:
    """Raise unless all weights (N,) are whole numbers: structures are learned from rows, some of them repeated."""
    wrong = weight != np.round(weight)
    if wrong.any():
        raise ValueError(
            f"structure={structure!r} takes whole numbers as sample_weight: a row of weight 2 counts as two rows; got "
            f"{weight[wrong][0]:g} (round the weights, or use structure='random')"
        )
    if weight.sum() > max(len(weight), MOST_COPIES):
        raise ValueError(
            f"structure={structure!r} repeats rows by their sample_weight, up to {MOST_COPIES:,} rows; got "
            f"{weight.sum():,.0f} (divide the weights, or use structure='random')"
        )


def _check_discrete(table: Table) -> None:
    wrong = [f"{column.name!r} ({column.kind})" for column in table.columns if not column.family.unordered]
    if wrong:
        more = f" and {len(wrong) - _SHOWN_COLUMNS} more" if len(wrong) > _SHOWN_COLUMNS else ""
        raise ValueError(
            f"structure='chow-liu' takes bernoulli and categorical columns; got {', '.join(wrong[:_SHOWN_COLUMNS])}"
            f"{more}: name discrete numbers by leaf={{column: 'categorical'}}, cut others into bins (scikit-learn's "
            "KBinsDiscretizer), or use structure='learnspn'"
        )
