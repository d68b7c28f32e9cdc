"""Blocks: what circuits of other libraries are read as.

A block is a vector of nodes with one scope, such as the sums of a region. Reading a library means naming its
blocks; what becomes of them (a layered circuit, a graph of nodes) does not depend on where they come from.
Blocks compare by identity: a block used twice is shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from torch import Tensor

from socratic.families import Binomial, Categorical, Family, Gaussian


@dataclass(frozen=True, eq=False)
class Leaves:
    """Univariate leaves of one variable: parameters of ``family``, each (I,) or (I, ...)."""

    variable: int
    family: Family
    parameters: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        detached = {name: value.detach() for name, value in self.parameters.items()}
        object.__setattr__(self, "parameters", self.family.finite(detached))

    @property
    def width(self) -> int:
        """Number of nodes."""
        return len(next(iter(self.parameters.values())))

    @property
    def scope(self) -> frozenset[int]:
        """The variables."""
        return frozenset([self.variable])


@dataclass(frozen=True, eq=False)
class Products:
    """Products of the nodes of ``children``: of all combinations, the last child's varying fastest, or by index.

    By index, a child of a single node belongs to every product.
    """

    children: tuple[Block, ...]
    all_pairs: bool

    @property
    def width(self) -> int:
        """Number of nodes."""
        widths = [child.width for child in self.children]
        return prod(widths) if self.all_pairs else max(widths)

    @cached_property
    def scope(self) -> frozenset[int]:
        """The variables."""
        return frozenset().union(*(child.scope for child in self.children))


@dataclass(frozen=True, eq=False)
class Sums:
    """Mixtures of the nodes of ``child`` with these log-weights (S, K); minus infinity is no edge."""

    child: Block
    log_weights: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "log_weights", self.log_weights.detach())

    @property
    def width(self) -> int:
        """Number of nodes."""
        return len(self.log_weights)

    @property
    def scope(self) -> frozenset[int]:
        """The variables."""
        return self.child.scope


@dataclass(frozen=True, eq=False)
class Joined:
    """The nodes of several blocks of one scope, one after the other."""

    children: tuple[Block, ...]

    @property
    def width(self) -> int:
        """Number of nodes."""
        return sum(child.width for child in self.children)

    @property
    def scope(self) -> frozenset[int]:
        """The variables."""
        return self.children[0].scope


Block = Leaves | Products | Sums | Joined


def parameter_of(block: Block) -> Tensor:
    """A parameter of the block or of one below it: all have one type and one device."""
    while not isinstance(block, Leaves):
        if isinstance(block, Sums):
            return block.log_weights
        block = block.children[0]
    return next(iter(block.parameters.values()))


def joined(blocks: list[Block]) -> Block:
    """One block from several."""
    return blocks[0] if len(blocks) == 1 else Joined(tuple(blocks))


def product(blocks: list[Block], *, all_pairs: bool = False) -> Block:
    """The product of blocks; a single one is its own product."""
    return blocks[0] if len(blocks) == 1 else Products(tuple(blocks), all_pairs)


def gaussian_leaves(variable: int, mean: Tensor, log_deviation: Tensor) -> Leaves:
    """Gaussian leaves from means and log standard deviations (I,)."""
    family = Gaussian(min_variance=0.0, max_variance=None)
    return Leaves(variable, family, {"mean": mean, "raw_variance": 2 * log_deviation})


def categorical_leaves(variable: int, log_probabilities: Tensor) -> Leaves:
    """Categorical leaves from log-probabilities (I, categories)."""
    return Leaves(variable, Categorical(log_probabilities.shape[-1]), {"logits": log_probabilities})


def binomial_leaves(variable: int, n_trials: int, logit: Tensor) -> Leaves:
    """Binomial leaves from log-odds (I,)."""
    return Leaves(variable, Binomial(n_trials), {"logit": logit})
