"""Sum-product layers: the products of two child regions, and sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from socratic.circuit.layout import Span
from socratic.kernels.weights import softmax, takes_softmax

ProductKind = Literal["all-pairs", "element-wise"]
PRODUCT_KINDS: tuple[ProductKind, ...] = ("all-pairs", "element-wise")


class SumProductLayer(nn.Module):
    """F regions of one shape: wiring to the children, and the unnormalised log-weights of the sums.

    The layer evaluates nothing: queries read :attr:`left`, :attr:`right`, :attr:`all_pairs` and the
    circuit's normalised weights.

    Parameters
    ----------
    left, right : Span
        Where the children are; ``right=None`` for regions with a single child.
    widths : tuple of int
        Nodes in a left and in a right child region (A and B).
    n_sums : int
        Sums per region (S).
    product : {"all-pairs", "element-wise"}
        Whether every left node meets every right node, or only the one of the same index.
    """

    def __init__(
        self, left: Span, right: Span | None, widths: tuple[int, int | None], n_sums: int, product: ProductKind
    ) -> None:
        super().__init__()
        self.left, self.right = left, right
        self.widths = widths
        self.n_nodes = n_sums
        self.all_pairs = right is not None and product == "all-pairs"
        n_left, n_right = widths
        if n_right is not None and not self.all_pairs and n_left != n_right:
            raise ValueError(
                f"product='element-wise' needs children with equally many nodes; got {n_left} and {n_right} "
                "(set n_leaves equal to n_sums)"
            )
        self.n_children = n_left * n_right if self.all_pairs and n_right is not None else n_left
        self.logits = nn.Parameter(torch.empty(len(left), n_sums, self.n_children))

    @property
    def n_folds(self) -> int:
        """Number of regions."""
        return len(self.left)

    def extra_repr(self) -> str:
        """What ``print`` shows of the layer."""
        kind = "all-pairs" if self.all_pairs else "element-wise"
        return f"folds={self.n_folds}, sums={self.n_nodes}, children={self.n_children}, product={kind!r}"


class Normalised(NamedTuple):
    """Weights whose sum is 1, and the smallest one of each sum."""

    weights: Tensor  # (..., K)
    smallest: Tensor  # (...)


def normalise(logits: Tensor, dtype: torch.dtype | None = None) -> Normalised:
    """Weights of sums, all positive, from logits (..., K): those of an inner layer are (F, S, K)."""
    if dtype in {None, logits.dtype} and takes_softmax(logits):
        return Normalised(*softmax(logits))
    weights = torch.softmax(logits, dim=-1, dtype=dtype)
    return Normalised(weights, weights.detach().amin(-1))


def normalise_jointly(branches: list[SumProductLayer], dtype: torch.dtype | None = None) -> tuple[list[Tensor], Tensor]:
    """Weights (F, C, K) of the root's branches: a class root's add up to 1 over all of them. The smallest of each."""
    logits = [layer.logits for layer in branches]
    weights, smallest = normalise(join_branches(logits), dtype)
    return split_branches(weights, logits), smallest


def join_branches(values: Sequence[Tensor]) -> Tensor:
    """Values (F, C, K) of the edges of the root's branches, those of each class root in one row: (C, edges)."""
    return torch.cat([part.transpose(0, 1).flatten(1) for part in values], dim=1)


def split_branches(values: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Undo :func:`join_branches` for branches shaped ``like`` these."""
    parts = values.split([len(part) * part.shape[2] for part in like], dim=1)
    return [
        part.unflatten(1, (len(shape), shape.shape[2])).transpose(0, 1).contiguous()
        for part, shape in zip(parts, like, strict=True)
    ]
