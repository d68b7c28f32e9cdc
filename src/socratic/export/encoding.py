"""How rows are encoded, as plain data that another language can follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.export.outputs import MEANINGS
from socratic.export.programs import INPUT
from socratic.families import Family
from socratic.tables.column import Column
from socratic.tables.scaling import ROUNDED_TO, SAME

FORMAT, VERSION = "socratic.encoding", 1


def encoding_of(model: Any, outputs: Sequence[str] = ()) -> dict[str, Any]:
    """How the rows of a model are encoded, and what its outputs are, as plain data for JSON.

    Parameters
    ----------
    model : Circuit, Graph or a fitted estimator
    outputs : sequence of str
        The outputs of the file that the encoding belongs to.
    """
    circuit = model if isinstance(model, Circuit | Graph) else model.circuit_
    found: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    kind = str(circuit.dtype).removeprefix("torch.")
    found["input"] = {"name": INPUT, "type": kind, "shape": ["rows", circuit.n_features]}
    found["outputs"] = {name: MEANINGS[name] for name in outputs}
    if hasattr(model, "classes_"):
        found["classes"] = np.asarray(model.classes_).tolist()
    if hasattr(model, "rejection_rate"):
        found["rejection_rate"] = float(model.rejection_rate)
    if hasattr(model, "image_shape_"):
        found["input"] = {"name": INPUT, "type": "uint8", "shape": ["rows", *model.image_shape_]}
    elif hasattr(model, "table_"):
        found["rounded_to"], found["same"] = ROUNDED_TO, SAME
        found["columns"] = [_column(column) for column in model.table_.columns]
    return found


def _column(column: Column) -> dict[str, Any]:
    """One column; see docs/export.md for what each entry means."""
    counts = column.counts
    return {
        "name": column.name,
        "family": column.family.name,
        "left_out": column.left_out is not None,
        "categories": None if column.categories is None else list(column.categories),
        "seen": None if counts is None else [count > 0.0 for count in counts],
        "domain": _domain(column.family) if column.categories is None else None,
        "bend": None if column.bend is None else {"middle": column.bend.middle, "width": column.bend.width},
        "mean": column.mean,
        "scale": column.scale,
        "rounding": "relative" if column.family.scaling == "scale" else "absolute",
        "constant": column.constant,
        "unseen": "missing" if column.unseen is None else "infinite",
    }


def _domain(family: Family) -> dict[str, Any]:
    """The numbers that a family has leaves for: bounds that are numbers or null, and whether only whole ones."""
    whole = family.n_values is not None or family.name == "poisson"
    lowest = None if family.real else 0
    highest = None if family.n_values is None else family.n_values - 1
    return {"lowest": lowest, "above_lowest": family.name == "gamma", "highest": highest, "whole": whole}
