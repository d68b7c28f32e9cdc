"""What is random about a circuit: dropout masks on the children of its sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from socratic.errors import check_choice, check_rate

MaskKind = Literal["edge", "unit"]
MASK_KINDS: tuple[MaskKind, ...] = ("edge", "unit")


@dataclass(frozen=True)
class Dropout:
    """Masks that drop children from sums, independently of each other. Engines take them as one argument.

    Attributes
    ----------
    rate : float
        Probability p of dropping a child, in [0, 1).
    masks : {"edge", "unit"}
        One mask for each edge of each sum, or one for each child, shared by all sums of its region (in a graph, by all
        sums over the same children).
    root : bool
        Whether the class roots drop children too.
    """

    remedy: ClassVar[str] = "a smaller dropout"
    """What makes variances smaller."""

    rate: float
    masks: MaskKind = "edge"
    root: bool = False

    @classmethod
    def check(cls, dropout: Any, masks: Any, root_dropout: bool) -> Dropout:
        """The masks that a query was asked for by these arguments; a ValueError names the one that is wrong."""
        check_choice("masks", masks, MASK_KINDS)
        return cls(check_rate("dropout", dropout), masks, bool(root_dropout))

    def check_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Masks fit every circuit."""

    @property
    def shared(self) -> bool:
        """Whether sums of a region share their masks."""
        return self.masks == "unit"

    @property
    def odds(self) -> float:
        """p / q: the relative variance that a mask gives to its child's share."""
        return self.rate / (1.0 - self.rate)

    @property
    def log_kept(self) -> float:
        """log q: by how much a mask lowers the logarithm of its child's mean."""
        return math.log1p(-self.rate)

    def of_sums(self, *, root: bool) -> Dropout | None:
        """The masks of inner sums, or of the class roots; None where nothing is dropped."""
        return self if self.rate > 0.0 and (self.root or not root) else None
