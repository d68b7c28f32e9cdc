"""Leaf families, one file each: everything that is to know about a kind of leaf.

A new family is one file and its place in :data:`FAMILIES`; see :mod:`socratic.families.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from socratic.errors import check_choice
from socratic.families.base import Distribution, ExponentialFamily, Family, Parameters
from socratic.families.bernoulli import Bernoulli
from socratic.families.binomial import Binomial
from socratic.families.categorical import Categorical
from socratic.families.exponential import Exponential
from socratic.families.gamma import Gamma
from socratic.families.gaussian import Gaussian
from socratic.families.histogram import Histogram
from socratic.families.poisson import Poisson
from socratic.families.student_t import StudentT

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "Family",
    "Gamma",
    "Gaussian",
    "Histogram",
    "LeafName",
    "Parameters",
    "Poisson",
    "StudentT",
    "as_family",
    "family_for",
    "family_from_dict",
]

FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (Gaussian, Bernoulli, Categorical, Binomial, Poisson, Exponential, Gamma, StudentT, Histogram)
}
"""All families by name."""


LeafName = str | Family | Mapping[str, Any]
"""A family by its name, as itself, or as the dictionary that a model file stores."""


def as_family(value: LeafName, argument: str = "leaf") -> Family:
    """A family from its name (with default settings), its dictionary or from itself; errors name the ``argument``."""
    if isinstance(value, Family):
        return value
    if isinstance(value, Mapping):
        return family_from_dict(value)
    if not isinstance(value, str):
        raise ValueError(
            f"{argument} must be the name of a family or one such as socratic.families.Gaussian(); got {value!r}"
        )
    check_choice(argument, value, FAMILIES)
    return FAMILIES[value]()


def family_for(leaf: LeafName, values: np.ndarray) -> Family:
    """The family for a column of these ``values`` (N,), none of them missing: a name leaves its settings to them."""
    return FAMILIES[leaf].for_values(values) if isinstance(leaf, str) else as_family(leaf)


def family_from_dict(data: Mapping[str, Any]) -> Family:
    """Rebuild a family from :meth:`Family.to_dict`."""
    settings = dict(data)
    name = settings.pop("family", None)
    check_choice("leaf family", name, FAMILIES)
    return FAMILIES[name](**settings)
