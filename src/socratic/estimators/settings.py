"""What the constructor arguments of estimators may hold: one check for each name, whichever estimator takes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from socratic.errors import check_choice, check_count, check_rate
from socratic.estimators.building import STRUCTURES, check_image_shape, choose_device
from socratic.estimators.posterior import POSTERIORS
from socratic.inference.dropout import MASK_KINDS
from socratic.uncertainty.detector import DETECTORS

OPTIMISERS = ("em", "adam")

Check = Callable[[str, Any], Any]
"""Takes a name and a value, and raises a ``ValueError`` that names both."""


def check_settings(estimator: Any) -> None:
    """Raise unless an estimator can be fitted with the arguments it was made with."""
    for name, value in estimator.get_params(deep=False).items():
        CHECKS[name](name, value)


def _choice(*allowed: str) -> Check:
    return lambda name, value: check_choice(name, value, allowed)


def _or_auto(check: Check) -> Check:
    def either(name: str, value: Any) -> None:
        if isinstance(value, str):
            check_choice(name, value, ("auto",))
        else:
            check(name, value)

    return either


def _or_none(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _depth(name: str, value: Any) -> None:
    check_count(name, value, minimum=0)


def _share(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be a number between 0 and 1; got {value!r}")


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number; got {value!r}")


def _leaf(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must map names of columns to families, such as {{'age': 'binomial'}}; got {value!r}")


def _prior(name: str, value: Any) -> None:
    if isinstance(value, str):
        check_choice(name, value, ("uniform",))
        return
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be 'uniform', None or a probability for each class; got {value!r}") from None


def _path(name: str, value: Any) -> None:
    if not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be the path of a file, or None; got {value!r}")


def _switch(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_ | Integral):
        raise ValueError(f"{name} must be True or False; got {value!r}")


def _jobs(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value == 0:
        raise ValueError(f"{name} must be None, a number of threads, or -1 for all cores; got {value!r}")


def _random(name: str, value: Any) -> None:
    try:
        check_random_state(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be None, a whole number from 0 to 2**32 - 1 or a RandomState; got {value!r}"
        ) from None


CHECKS: dict[str, Check] = {
    "structure": _choice(*STRUCTURES),
    "image_shape": _or_none(check_image_shape),
    "n_sums": _or_auto(check_count),
    "depth": _or_auto(_depth),
    "n_repetitions": _or_auto(check_count),
    "leaf": _or_none(_leaf),
    "optimiser": _choice(*OPTIMISERS),
    "cross_entropy_weight": _share,
    "n_epochs": _or_auto(check_count),
    "batch_size": _or_auto(check_count),
    "learning_rate": _positive,
    "training_dropout": check_rate,
    "leaf_dropout": check_rate,
    "early_stopping": _or_none(check_count),
    "validation_fraction": _or_auto(check_rate),
    "calibration_fraction": check_rate,
    "dropout": _or_auto(check_rate),
    "masks": _choice(*MASK_KINDS),
    "posterior": _choice(*POSTERIORS),
    "class_prior": _or_none(_prior),
    "detector": _choice(*DETECTORS),
    "rejection_rate": check_rate,
    "rejected_label": lambda *_: None,  # whatever the caller calls a refused row
    "checkpoint": _or_none(_path),
    "verbose": _switch,
    "n_jobs": _or_none(_jobs),
    "random_state": _random,
    "device": lambda _, value: choose_device(value),
}
