"""Operations that torch's own exporter translates to ONNX with a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The translations to use instead, for ``torch.onnx.export``.

    Before it translates, torch makes tensors of the plain numbers of a program. Its own translation takes them through
    float32, which puts log p(x) of a float64 circuit wrong by up to 1e-4.
    """
    from onnxscript import ir
    from onnxscript import opset18 as op

    def number(value: Any, dtype: int = ir.DataType.FLOAT, **_unused: Any) -> Any:
        if isinstance(value, bool | int | float):
            constant: Any = ir.tensor(value, dtype=ir.DataType(dtype))
            return op.Constant(value=constant)
        return op.Cast(value, to=dtype)  # computed by the program, such as the number of rows

    return {torch.ops.aten.scalar_tensor.default: number}
