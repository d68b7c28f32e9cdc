"""Circuits that are learned from a table as a whole, structure and parameters, one part for each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from socratic.circuit.circuit import Circuit
from socratic.circuit.forest import Forest
from socratic.circuit.graph import Graph
from socratic.circuit.nodes import Node
from socratic.errors import check_count
from socratic.estimators.preparation import MOST_COPIES, Parts
from socratic.families import Gaussian
from socratic.learning.settings import Rows
from socratic.learning.structure import chow_liu_tree, grow_forest, kernel_circuit, learn_class_spns
from socratic.tables.columns import Table

Learner = Callable[[Rows, Table, int, int, Mapping[str, Any]], Circuit | Graph]
"""From rows, the table they come from, the number of classes, a seed and options to a circuit in float64."""

THRESHOLDS = (0.2, 0.1, 0.05)
"""What LearnSPN's threshold is chosen from, on held-out rows; the first without any."""

EPOCHS = "n_epochs"
"""The option that says for how many epochs a learned circuit is trained further."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "learnspn": (
        "min_rows",
        "threshold",
        "significance",
        "independence",
        "n_clusters",
        "min_variance",
        "smoothing",
        EPOCHS,
    ),
    "chow-liu": ("smoothing",),
}
"""What ``structure_options`` may say of each learned structure."""

_SHOWN_COLUMNS = 5


def learn_circuit(settings: Any, table: Table, parts: Parts, n_classes: int, seed: int) -> Circuit | Graph:
    """Learn a circuit with a root for each class, in float64, as ``settings``, an estimator, say.

    If they leave the threshold of LearnSPN open, it is the one of :data:`THRESHOLDS` under which the validation rows
    are the most likely.
    """
    options = {name: value for name, value in options_of(settings).items() if name != EPOCHS}

    def learn(**more: Any) -> Circuit | Graph:
        return LEARNERS[settings._structure()](parts.train, table, n_classes, seed, options | more)

    validation = parts.validation
    if not chooses_threshold(settings) or validation is None:
        return learn()
    found = [learn(threshold=value) for value in THRESHOLDS]
    return max(found, key=lambda circuit: _mean_log_likelihood(circuit, validation))


@torch.no_grad()
def _mean_log_likelihood(circuit: Circuit | Graph, rows: Rows) -> float:
    """Mean log-likelihood of rows under their own classes."""
    values = circuit.log_likelihood(rows.x.double()).gather(1, rows.y.unsqueeze(1)).squeeze(1)
    return float((values * rows.weight).sum() / rows.weight.sum())


def _graph(roots: Sequence[Node], table: Table) -> Graph:
    return Graph(roots, len(table.columns), dtype=torch.float64)


def _learnspn(train: Rows, table: Table, _n_classes: int, seed: int, options: Mapping[str, Any]) -> Graph:
    x, y = train.x.double().numpy(), train.y.numpy()  # whole-number weights have become rows
    return _graph(learn_class_spns(x, y, table.families, seed=seed, **options), table)


def _chow_liu(train: Rows, table: Table, n_classes: int, _seed: int, options: Mapping[str, Any]) -> Graph:
    _check_families("chow-liu", table, [column.family.unordered for column in table.columns])
    x, y = train.x.double().numpy(), train.y.numpy()
    return _graph([chow_liu_tree(x[y == label], table.families, **options) for label in range(n_classes)], table)


def _kernels(
    structure: str, train: Rows, table: Table, n_classes: int, seed: int, _options: Mapping[str, Any]
) -> Circuit:
    _check_cells(structure, table)
    x, y, weight = (part.double().numpy() for part in (train.x, train.y, train.weight))
    return kernel_circuit(x, y.astype(np.int64), table.families, n_classes, weight, seed=seed)


def fit_forest(table: Table, train: Rows, n_classes: int, seed: int, n_jobs: int | None) -> Forest:
    """The trees that answer for the classes with ``structure="forest"``; the circuit beside them is of kernels."""
    x, y, weight = train.x.double().numpy(), train.y.numpy(), train.weight.double().numpy()
    return grow_forest(x, y, table.families, n_classes, weight, seed=seed, n_jobs=n_jobs or 1)


KERNELS, FOREST = "kernels", "forest"
LEARNERS: Mapping[str, Learner] = {
    "learnspn": _learnspn,
    "chow-liu": _chow_liu,
    KERNELS: partial(_kernels, KERNELS),
    FOREST: partial(_kernels, FOREST),
}
LEARNED = tuple(LEARNERS)
"""Structures that come with their parameters: nothing is left to train, unless :data:`EPOCHS` are asked for."""
QUICK = ("chow-liu", KERNELS, FOREST)
"""Those of them that take no longer than reading the rows a few times."""
ONE_ONLY = ("chow-liu", KERNELS, FOREST)
"""Those of them of which several are no better than one: another seed gives the same, or nearly."""
WHOLE_WEIGHTS = ("learnspn", "chow-liu")
"""Those of them that take weights as numbers of rows."""


def options_of(settings: Any) -> Mapping[str, Any]:
    """The ``structure_options`` of an estimator, say; raises unless its structure has them."""
    options: Mapping[str, Any] = settings.structure_options or {}
    known = OPTIONS.get(settings._structure(), ())
    for name in options:
        if name not in known:
            expected = f"its options are {', '.join(known)}" if known else "which has none"
            raise ValueError(
                f"structure_options[{name!r}] is no option of structure={settings._structure()!r}: {expected}"
            )
    return options


def further_epochs(settings: Any) -> int:
    """For how many epochs a learned circuit is to be trained further."""
    return check_count(f"structure_options[{EPOCHS!r}]", options_of(settings).get(EPOCHS, 0), minimum=0)


def chooses_threshold(settings: Any) -> bool:
    """Whether LearnSPN's threshold is to be chosen on held-out rows."""
    return settings._structure() == "learnspn" and "threshold" not in options_of(settings)


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


def _check_cells(structure: str, table: Table) -> None:
    """Raise unless all columns are gaussian or categories, of which cells and kernels are made."""
    known = [column.family.unordered or isinstance(column.family, Gaussian) for column in table.columns]
    _check_families(structure, table, known)


def _check_families(structure: str, table: Table, known: Sequence[bool]) -> None:
    wrong = [
        f"{column.name!r} ({column.kind})" for column, right in zip(table.columns, known, strict=True) if not right
    ]
    if wrong:
        more = f" and {len(wrong) - _SHOWN_COLUMNS} more" if len(wrong) > _SHOWN_COLUMNS else ""
        taken, remedy = _TAKEN[structure]
        raise ValueError(
            f"structure={structure!r} takes {taken} columns; got {', '.join(wrong[:_SHOWN_COLUMNS])}{more}: {remedy}"
        )


_CELLS = ("gaussian, bernoulli and categorical", "name no other family for them, or use structure='random'")
_TAKEN = {
    "chow-liu": (
        "bernoulli and categorical",
        "name discrete numbers by leaf={column: 'categorical'}, cut others into bins (scikit-learn's "
        "KBinsDiscretizer), or use structure='learnspn'",
    ),
    "kernels": _CELLS,
    "forest": _CELLS,
}
"""The columns that a structure takes, and what to do about others."""
