"""Which structure an estimator gets that asks for none."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from socratic.families import Gaussian, as_family

AUTO = "auto"
_OF_TRAINED_CIRCUITS = (
    "n_sums",
    "depth",
    "n_repetitions",
    "n_circuits",
    "optimiser",
    "cross_entropy_weight",
    "n_epochs",
    "batch_size",
    "learning_rate",
    "learning_rate_schedule",
    "training_dropout",
    "leaf_dropout",
    "early_stopping",
    "validation_fraction",
    "doubt",
    "dropout",
    "masks",
    "leaf_variance",
    "posterior",
    "checkpoint",
)
"""Arguments that say nothing of a structure that is not trained."""


class Choice(NamedTuple):
    """A structure, and why it is the one."""

    structure: str
    reason: str


def choose_structure(
    settings: Any, otherwise: str, reason: str = "nothing asks for a circuit that is trained"
) -> Choice:
    """The structure that ``settings``, an estimator of tables, asks for.

    With "auto" it is ``otherwise``, for a ``reason``, unless an argument is given that only circuits which are trained
    have.
    """
    if settings.structure != AUTO:
        return Choice(settings.structure, "asked for")
    if settings.image_shape is not None:
        return Choice("spatial", "image_shape is given")
    defaults = inspect.signature(type(settings)).parameters
    for name in _OF_TRAINED_CIRCUITS:
        if name in defaults and getattr(settings, name) != defaults[name].default:
            return Choice("random", f"{name}={getattr(settings, name)!r} is for circuits that are trained")
    for name, leaf in (settings.leaf or {}).items():
        family = as_family(leaf, f"leaf[{name!r}]")
        if not (family.unordered or isinstance(family, Gaussian)):
            return Choice("random", f"leaf={{{name!r}: {family.name!r}}} is for circuits that are trained")
    return Choice(otherwise, reason)
