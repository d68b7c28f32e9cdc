"""Leaf families: parametrised exponential families, evaluated for all leaves at once.

Every family writes its log-density as ``sum_k statistic_k(x) * natural_k``. The leaf layer then evaluates
all leaves of all regions as one batched matrix product, whatever the mixture of families, and a missing
value is marginalised by setting its statistics to zero.

A family is plain data (what to store in a model file) and pure functions of parameters; the parameters
themselves live in :class:`socratic.circuit.leaves.LeafLayer`. In the shapes below P counts the *slots* of a
family: one for each variable of each leaf region.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socratic.errors import check_choice
from socratic.families.base import Family, Parameters
from socratic.families.discrete import Bernoulli, Binomial, Categorical
from socratic.families.gaussian import Gaussian

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Family",
    "Gaussian",
    "Parameters",
    "as_family",
    "family_from_dict",
]

FAMILIES: dict[str, type[Family]] = {family.name: family for family in (Gaussian, Bernoulli, Categorical, Binomial)}


def as_family(value: str | Family, argument: str = "leaf") -> Family:
    """A family from its name (with default settings) or from itself; errors name the ``argument``."""
    if isinstance(value, Family):
        return value
    if not isinstance(value, str):
        raise ValueError(
            f"{argument} must be the name of a family or one such as socratic.families.Gaussian(); got {value!r}"
        )
    check_choice(argument, value, FAMILIES)
    return FAMILIES[value]()


def family_from_dict(data: Mapping[str, Any]) -> Family:
    """Rebuild a family from :meth:`Family.to_dict`."""
    settings = dict(data)
    name = settings.pop("family", None)
    check_choice("leaf family", name, FAMILIES)
    return FAMILIES[name](**settings)
