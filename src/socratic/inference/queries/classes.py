"""Which class a query is about: a given one, or all of them, weighted by how probable they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.posterior import log_class_prior
from socratic.numerics import scale_dtype

ClassIndex = int | Sequence[int] | Tensor | None
ClassPrior = Sequence[float] | Tensor | None


def log_class_weights(
    circuit: Circuit | Graph, n_rows: int, class_index: ClassIndex, class_prior: ClassPrior
) -> Tensor:
    """Log-weight of each class in each row: (N, C), the class prior, or 0 and minus infinity for a given class.

    With it every query is about a mixture of classes: ``logsumexp_c(weight_c + log p(x | c))``.
    """
    like = torch.empty(0, device=circuit.device)
    like = like.to(scale_dtype(like))
    if class_index is None:
        return log_class_prior(class_prior, circuit.n_classes, like).expand(n_rows, -1)
    if class_prior is not None:
        raise ValueError("class_prior mixes classes and class_index names one: give one of them, not both")
    classes = torch.as_tensor(class_index, device=circuit.device)
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise ValueError(f"class_index must hold whole numbers; got {class_index!r}")
    if classes.ndim > 1 or (classes.ndim == 1 and len(classes) not in (1, n_rows)):
        raise ValueError(
            f"class_index must be one number, or one for each of {n_rows} rows; got the shape {tuple(classes.shape)}"
        )
    classes = classes.expand(n_rows)
    wrong = (classes < 0) | (classes >= circuit.n_classes)
    if wrong.any():
        raise ValueError(f"class_index must be between 0 and {circuit.n_classes - 1}; got {int(classes[wrong][0])}")
    weights = like.new_full((n_rows, circuit.n_classes), -torch.inf)
    return weights.scatter_(1, classes.long().unsqueeze(1), 0.0)
