"""Constructor arguments that no estimator can be fitted with are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitOutlierDetector
from socratic.estimators.parameters import PARAMETERS

ESTIMATORS = [CircuitClassifier, CircuitDensity, CircuitOutlierDetector]
ODD: list[Any] = ["nonsense", None, [], ["a"], -1, float("nan"), 1e400, {}, True, object()]
FINE: dict[str, list[Any]] = {
    "structure_options": [None, {}],
    "image_shape": [None],
    "leaf": [None, {}],
    "leaf_variance": [{}],
    "early_stopping": [None],
    "class_prior": [None],
    "risk": [None],
    "risk_confidence": [None],
    "calibrate_by_class": [True, -1],
    "rejected_label": ODD,
    "checkpoint": [None, "nonsense"],
    "verbose": [True, -1],
    "n_jobs": [None, -1],
    "random_state": [None, True],
}
"""What each parameter may hold of the above; the others may hold none of it."""
X, Y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 2


def is_fine(name: str, value: Any) -> bool:
    return any(value is fine or (type(value) is type(fine) and value == fine) for fine in FINE.get(name, []))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:12])
def test_bad_arguments_are_named(estimator: type, value: Any) -> None:
    for name in estimator().get_params():
        if is_fine(name, value):
            continue
        # A prior or a mapping of columns is compared with the data once it is one.
        with pytest.raises(ValueError, match=rf"^(the height in )?{name}\b.*got|^structure='spatial'"):
            estimator(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_has_its_check(estimator: type) -> None:
    assert estimator().get_params().keys() <= PARAMETERS.keys()


def test_priors_must_be_numbers() -> None:
    with pytest.raises(ValueError, match=r"class_prior must be 'uniform', None or a probability for each class; got"):
        CircuitClassifier(class_prior=np.array(["a", "b"])).fit(X, Y)
    with pytest.raises(ValueError, match=r"class_prior must hold 2 probabilities that sum to 1"):
        CircuitClassifier(class_prior=[np.nan, 1.0]).fit(X, Y)
