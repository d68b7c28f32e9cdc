"""Models for other runtimes: programs of ``torch.export``, ONNX files, and the encoding of rows as plain data."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socratic.export.encoding import encoding_of
from socratic.export.models import exported
from socratic.export.outputs import MEANINGS
from socratic.export.programs import check_suffix, record, write_onnx
from socratic.files import replacing
from socratic.inference.doubt import Doubt

__all__ = ["MEANINGS", "encoding_of", "export_onnx", "export_program"]


def export_program(
    model: Any,
    outputs: Sequence[str] | None = None,
    *,
    class_prior: Sequence[float] | Tensor | None = None,
    doubt: Doubt | None = None,
) -> torch.export.ExportedProgram:
    """A program of ``torch.export`` that computes what a model says of encoded rows, for any number of rows.

    Parameters
    ----------
    model : Circuit, Graph, or a fitted classifier, density or outlier detector
    outputs : sequence of str, optional
        Names from :data:`MEANINGS`, in the order that results are to have; by default all that the model has.
    class_prior : (C,), optional
        Of a circuit or graph: the class probabilities, uniform by default.
    doubt : Dropout or WeightPosterior, optional
        Of a circuit or graph: what moments are over; without, there are none.

    Returns
    -------
    torch.export.ExportedProgram
        ``program.module()(x)`` gives a tuple, one tensor for each output.

    Raises
    ------
    ValueError
        If the model does not have one of the outputs, or it cannot be exported; the message says why, and what can.
    """
    return record(exported(model, class_prior, doubt).choose(outputs))


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    outputs: Sequence[str] | None = None,
    *,
    class_prior: Sequence[float] | Tensor | None = None,
    doubt: Doubt | None = None,
) -> Path:
    """Write the same as an ONNX file, and how rows are encoded as JSON beside it.

    Parameters
    ----------
    path : path
        A name that ends in ``.onnx``; the encoding is written to the same name with ``.json``.
    model, outputs, class_prior, doubt
        As for :func:`export_program`.

    Returns
    -------
    Path
        Of the encoding.
    """
    target = check_suffix(path)
    chosen = exported(model, class_prior, doubt).choose(outputs)
    encoding = encoding_of(model, chosen.names)
    write_onnx(chosen, target)
    beside = target.with_suffix(".json")
    with replacing(beside) as draft:
        draft.write_text(json.dumps(encoding, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return beside
