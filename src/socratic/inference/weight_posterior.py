"""Weights that were learnt from finitely many rows: a Dirichlet distribution for each sum."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.model_files import building, read_tensors, write_tensors

FORMAT = "socratic.weight-posterior"
VERSION = 1

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """Dirichlet distributions of the weights of all sums, independent of each other.

    Their means are the weights of the circuit they are used with. The strength of a sum's distribution, the sum
    ``alpha_0`` of its parameters, is how many rows it is worth: ``prior_strength + worth * visits``. Made by
    :func:`~socratic.weight_posterior`.

    Attributes
    ----------
    visits : tuple of Tensors
        How many training rows used each sum, in float64. Of a circuit one tensor (F, S) for each inner layer, bottom
        up, and one (C,) for the class roots: the root of several repetitions is one sum. Of a graph one (sums,).
    prior_strength : float
        Strength of a sum that no row used, above 0.
    worth : float
        How much a visit adds to the strength, at least 0: below 1 the posterior is wider (tempered).
    """

    remedy: ClassVar[str] = "a larger prior_strength"
    """What makes variances smaller."""

    visits: tuple[Tensor, ...]
    prior_strength: float = 1.0
    worth: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior_strength", check_number("prior_strength", self.prior_strength, minimum=0.0))
        object.__setattr__(self, "worth", check_number("worth", self.worth, minimum=0.0))
        if self.prior_strength == 0.0:
            raise ValueError("prior_strength must be above 0, or a sum that no row used would have no distribution")
        for part in self.visits:
            if not bool(((part >= 0) & torch.isfinite(part)).all()):
                raise ValueError("visits must be finite and at least 0")

    def tempered(self, *, prior_strength: float | None = None, worth: float | None = None) -> WeightPosterior:
        """The same visits with another prior strength, or another worth of a visit."""
        return WeightPosterior(
            self.visits,
            self.prior_strength if prior_strength is None else prior_strength,
            self.worth if worth is None else worth,
        )

    def plus(self, other: WeightPosterior) -> WeightPosterior:
        """With the visits of other rows of the same circuit added."""
        visits = tuple(ours + theirs for ours, theirs in zip(self.visits, other.visits, strict=True))
        return WeightPosterior(visits, self.prior_strength, self.worth)

    def to(self, device: str | torch.device) -> WeightPosterior:
        """On another device."""
        return WeightPosterior(tuple(part.to(device) for part in self.visits), self.prior_strength, self.worth)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to ``path``; :meth:`load` reads it back. The circuit has a file of its own."""
        write_tensors(Path(path), FORMAT, VERSION, *self.parts())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> WeightPosterior:
        """Read what :meth:`save` wrote."""
        tensors, config = read_tensors(Path(path), FORMAT, VERSION)
        with building(path, "a weight posterior"):
            return cls.from_parts(tensors, config).to(device)

    def parts(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain data for a model file."""
        tensors = {f"visits.{number}": part for number, part in enumerate(self.visits)}
        return tensors, {"prior_strength": self.prior_strength, "worth": self.worth}

    @classmethod
    def from_parts(cls, tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> WeightPosterior:
        """Rebuild what :meth:`parts` gave, with all checks."""
        visits = tuple(tensors[f"visits.{number}"] for number in range(len(tensors)))
        return cls(visits, config["prior_strength"], config["worth"])

    def check_shapes(self, shapes: Sequence[Shape]) -> None:
        """Raise unless there is a number of visits for each sum of a circuit with these ``sum_shapes``."""
        found = [tuple(part.shape) for part in self.visits]
        if found != list(shapes):
            raise ValueError(
                f"doubt must be the weight posterior of this circuit, whose sums have the shapes {list(shapes)}; "
                f"got visits of the shapes {found}"
            )

    def strengths(self, like: Tensor) -> list[Tensor]:
        """``alpha_0`` of all sums, shaped like ``visits``, in the type and on the device of ``like``."""
        return [(self.prior_strength + self.worth * part).to(like) for part in self.visits]

    def relative_spreads(self, like: Tensor) -> list[Tensor]:
        """``1 / (alpha_0 + 1)`` of all sums: what the variances of their weights are proportional to."""
        return [1.0 / (strength + 1.0) for strength in self.strengths(like)]
