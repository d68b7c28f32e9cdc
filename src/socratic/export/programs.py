"""Exported programs: of ``torch.export``, and in ONNX files."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from socratic.errors import import_extra
from socratic.export.outputs import Exported
from socratic.export.translations import translations
from socratic.files import replacing

INPUT = "x"
"""The name of the input of ONNX files."""
_LOUD = ("torch.onnx", "onnx_ir", "onnxscript")


@torch.no_grad()
def record(exported: Exported) -> torch.export.ExportedProgram:
    """The program of ``torch.export`` that computes the chosen outputs, for any number of rows."""
    exported(exported.example)  # what is computed once and kept must be there: a recording keeps nothing
    rows = torch.export.Dim("rows", min=1)
    with _quiet():
        # Not strict: plain Python says what is recorded, such as the blocks of a graph.
        return torch.export.export(exported, (exported.example,), dynamic_shapes=({0: rows},), strict=False)


def write_onnx(exported: Exported, path: str | os.PathLike[str]) -> None:
    """Write the chosen outputs to an ONNX file, which appears whole or not at all."""
    for module in ("onnx", "onnxscript"):
        import_extra(module, "onnx", "writing ONNX files")
    program = record(exported)
    with _quiet():
        model: Any = torch.onnx.export(
            program, dynamo=True, input_names=[INPUT], verbose=False, custom_translation_table=translations()
        )
    _name_outputs(model.model.graph, exported.names)
    with replacing(Path(path)) as draft:
        draft.write_bytes(model.model_proto.SerializeToString())


def _name_outputs(graph: Any, names: Sequence[str]) -> None:
    """Name the outputs of a graph; values inside that are called the same, such as "mean", get another name."""
    for node in graph:
        for value in node.outputs:
            if value.name in names:
                value.name = f"inner_{value.name}"
    for value, name in zip(graph.outputs, names, strict=True):
        value.name = name


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the remarks of the exporter on its own workings."""
    loggers = [logging.getLogger(name) for name in _LOUD]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def check_suffix(path: str | os.PathLike[str], names: Sequence[str] = (".onnx",)) -> Path:
    """The path of a file to write, or a ValueError if its name does not end as it must."""
    found = Path(path)
    if found.suffix not in names:
        raise ValueError(f"path must end in {' or '.join(names)}; got {str(path)!r}")
    return found
