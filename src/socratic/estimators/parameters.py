"""The constructor arguments of estimators: what each is for, and what it may hold, whichever estimator takes it."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from socratic.errors import check_choice, check_count, check_rate
from socratic.estimators.building import STRUCTURES, check_image_shape, choose_device
from socratic.estimators.posterior import DOUBTS, POSTERIORS
from socratic.inference.dropout import MASK_KINDS
from socratic.learning.settings import SCHEDULES
from socratic.uncertainty.detector import DETECTORS

OPTIMISERS = ("em", "adam")
_WIDTH = 112

Check = Callable[[str, Any], Any]
"""Takes the name and the value of an argument, and raises a ``ValueError`` that names both unless it will do."""


@dataclass(frozen=True)
class Parameter:
    """A constructor argument.

    Attributes
    ----------
    kind : str
        What it may hold, in words.
    text : str
        What it is for.
    check : callable
    """

    kind: str
    text: str
    check: Check


def check_parameters(estimator: Any, parameters: Mapping[str, Parameter]) -> None:
    """Raise unless an estimator can be fitted with the arguments it was made with."""
    for name, value in estimator.get_params(deep=False).items():
        parameters[name].check(name, value)


def described(estimator: type, parameters: Mapping[str, Parameter]) -> str:
    """The docstring of an estimator, with its arguments described where it says ``{parameters}``."""
    names = [name for name in inspect.signature(estimator).parameters if name in parameters]
    section = ["Parameters", "----------"]
    for name in names:
        section.append(f"{name} : {parameters[name].kind}")
        section += textwrap.wrap(parameters[name].text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return inspect.cleandoc(estimator.__doc__ or "").replace("{parameters}", "\n".join(section))


def one_of(*allowed: str) -> Check:
    """One of some names."""
    return lambda name, value: check_choice(name, value, allowed)


def or_auto(check: Check) -> Check:
    """What ``check`` lets pass, or "auto"."""
    return lambda name, value: check_choice(name, value, ("auto",)) if isinstance(value, str) else check(name, value)


def or_none(check: Check) -> Check:
    """What ``check`` lets pass, or None."""
    return lambda name, value: None if value is None else check(name, value)


def whole(minimum: int) -> Check:
    """A whole number."""
    return lambda name, value: check_count(name, value, minimum=minimum)


def check_share(name: str, value: Any) -> None:
    """A number from 0 to 1, both included."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be a number between 0 and 1; got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """A positive number that is finite."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number; got {value!r}")


def check_not_negative(name: str, value: Any) -> None:
    """A number of at least 0 that is finite."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < float("inf"):
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}")


def check_risk(name: str, value: Any) -> None:
    """None, or a number above 0 and below 1."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0):
        raise ValueError(f"{name} must be a number above 0 and below 1, or None; got {value!r}")


def check_switch(name: str, value: Any) -> None:
    """True or False, or a number that stands for it."""
    if not isinstance(value, bool | np.bool_ | Integral):
        raise ValueError(f"{name} must be True or False; got {value!r}")


def _leaf(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must map names of columns to families, such as {{'age': 'binomial'}}; got {value!r}")


def _options(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must map names of options to values, such as {{'threshold': 0.1}}; got {value!r}")


def _variance(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for column, variance in value.items():
            check_not_negative(f"{name}[{column!r}]", variance)
    elif isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, or map names of columns to numbers; got {value!r}")
    else:
        check_not_negative(name, value)


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


def _jobs(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value == 0:
        raise ValueError(f"{name} must be None, a number of threads, or -1 for all cores; got {value!r}")


def _random(name: str, value: Any) -> None:
    try:
        check_random_state(value)
    except (TypeError, ValueError):
        expected = "None, a whole number from 0 to 2**32 - 1 or a RandomState"
        raise ValueError(f"{name} must be {expected}; got {value!r}") from None


def _names(*allowed: str) -> str:
    return "{" + ", ".join(f'"{name}"' for name in allowed) + "}"


_CIRCUIT = {
    "structure": Parameter(
        _names(*STRUCTURES),
        "Where the circuit comes from. By default a forest answers for the classes of a table and kernels, a narrow "
        "component for each of up to 2,000 rows, say what rows look like: nothing is trained. Arguments that are for "
        "circuits which are trained make it random trees. Other structures are trees over the pixels of images, hidden "
        "Chow-Liu trees, LearnSPN, and Chow-Liu trees of discrete columns. Forests, kernels and the last two come with "
        "their parameters: what sizes or trains a circuit does not apply to them, unless ``structure_options`` ask for "
        "it.",
        one_of(*STRUCTURES),
    ),
    "time_budget": Parameter(
        "float",
        'Seconds that ``structure="auto"`` may spend on trying a forest, LearnSPN and random trees, in this order, and '
        "choosing the one whose log-loss on held-out rows is the least. A structure is begun while there is time left, "
        "and finished; then the chosen one is fitted to all rows. 0: it is the forest, and none is tried.",
        check_not_negative,
    ),
    "structure_options": Parameter(
        "mapping of name to value, optional",
        "Of a learned structure: see :func:`~socratic.learn_spn` and :func:`~socratic.chow_liu_tree`. LearnSPN's "
        '``"threshold"`` is chosen on held-out rows, if there are any, and its ``"n_epochs"`` are epochs of further '
        "training, 0 by default.",
        or_none(_options),
    ),
    "image_shape": Parameter(
        "(height, width) or (height, width, channels), optional",
        'Of the rows, for "spatial"; columns are numbered channel by channel. By default a square.',
        or_none(check_image_shape),
    ),
    "n_sums": Parameter(
        'int or "auto"',
        "Sums of each region of the circuit; hidden states of each column of a hidden tree.",
        or_auto(whole(1)),
    ),
    "depth": Parameter(
        'int or "auto"', "How often a random tree or one of pixels splits the columns.", or_auto(whole(0))
    ),
    "n_repetitions": Parameter('int or "auto"', "Trees that the circuit mixes.", or_auto(whole(1))),
    "n_circuits": Parameter(
        "int",
        "Circuits to train, each from a seed of its own, and to join as one under a sum over them: more accurate, and "
        "as many times larger and slower.",
        whole(1),
    ),
    "leaf": Parameter(
        "mapping of column name to family, optional",
        'Overrules the leaf family chosen for a column, by name (``"binomial"``) or with settings (``Binomial(20)``).',
        or_none(_leaf),
    ),
}
_TRAINING = {
    "optimiser": Parameter(_names(*OPTIMISERS), "Expectation maximisation, or gradient steps.", one_of(*OPTIMISERS)),
    "cross_entropy_weight": Parameter(
        "float",
        "1 trains the class posterior alone, 0 the likelihood alone (the lambda of the RAT-SPN paper).",
        check_share,
    ),
    "n_epochs": Parameter('int or "auto"', "Passes over the rows.", or_auto(whole(1))),
    "batch_size": Parameter('int or "auto"', "Rows for each step.", or_auto(whole(1))),
    "learning_rate": Parameter("float", "Peak learning rate of Adam.", check_positive),
    "learning_rate_schedule": Parameter(
        _names(*SCHEDULES),
        "Whether the learning rate warms up and decays to zero, or stays the same.",
        one_of(*SCHEDULES),
    ),
    "training_dropout": Parameter("float", "Dropout in training, on sums.", check_rate),
    "leaf_dropout": Parameter("float", "Dropout in training, on univariate leaves.", check_rate),
    "early_stopping": Parameter(
        "int or None",
        "Epochs without a better validation loss after which training stops; None: never.",
        or_none(whole(1)),
    ),
    "validation_fraction": Parameter(
        'float or "auto"',
        "Share of rows held out to keep the best epoch; by default a tenth, for classifiers from 2,000 rows on.",
        or_auto(check_rate),
    ),
    "checkpoint": Parameter("path, optional", "File from which an interrupted ``fit`` resumes.", or_none(_path)),
}
_UNCERTAINTY = {
    "doubt": Parameter(
        _names(*DOUBTS),
        "What the uncertainty is about: the weights, which finitely many rows taught (a Dirichlet distribution for "
        "each sum: see :func:`~socratic.weight_posterior`), or which children sums keep under dropout.",
        one_of(*DOUBTS),
    ),
    "dropout": Parameter(
        'float or "auto"',
        'Dropout rate of the uncertainty, for ``doubt="dropout"``. "auto" takes the largest of some rates whose mean '
        "posterior has a log-loss on held-out rows within one standard error of the best rate's.",
        or_auto(check_rate),
    ),
    "masks": Parameter(
        _names(*MASK_KINDS),
        "Whether each edge is dropped by itself, or each unit for all its sums.",
        one_of(*MASK_KINDS),
    ),
    "leaf_variance": Parameter(
        "float or mapping of column name to float",
        "Prior doubt about the densities of single values: the relative variance (variance divided by the squared "
        "mean) that they have in all columns, or in some of them, beside what is in doubt.",
        _variance,
    ),
    "posterior": Parameter(
        _names(*POSTERIORS),
        'How the uncertainty is computed: see :func:`~socratic.class_posterior`. "one-pass" is log-moments for weights '
        'and expansion for dropout; "auto" is closer to the truth and slower, and no better at telling unfamiliar rows '
        "apart.",
        one_of(*POSTERIORS),
    ),
    "class_prior": Parameter(
        'array (C,), "uniform" or None',
        "Class probabilities, in the order of ``classes_``; None takes the frequencies of the training rows.",
        or_none(_prior),
    ),
}
_REJECTION = {
    "detector": Parameter(
        _names(*DETECTORS), "The score that rejection is based on; the combination uses all.", one_of(*DETECTORS)
    ),
    "rejection_rate": Parameter(
        "float", "Share of familiar rows that may be refused, at most; it can be changed after ``fit``.", check_rate
    ),
    "risk": Parameter(
        "float or None",
        "Share of errors among answered rows, at most, on average over calibrations or with ``risk_confidence``: rows "
        "whose classes are too close for that are ambiguous. None: no row is. It can be changed after ``fit``.",
        check_risk,
    ),
    "risk_confidence": Parameter(
        "float or None",
        "How sure to be that errors among answered rows are at most ``risk``, such as 0.9. None: they are on average "
        "over calibrations, those that answer nothing counted as without error. It can be changed after ``fit``.",
        check_risk,
    ),
    "rejected_label": Parameter("object", "What ``predict_or_reject`` answers for refused rows.", lambda *_: None),
    "training_outliers": Parameter(
        "float",
        "Share of the training rows that are known not to be familiar. Above 0, the share that looks least like the "
        "others is left out, of calibration, too. With kernels outliers in training count for little anyway.",
        check_rate,
    ),
    "calibration_fraction": Parameter(
        "float",
        "Share of rows held out to calibrate rejection. Of tables with fewer than 500 rows (200, if circuits are "
        "trained) each is held out once, from one of five models, whatever the share; 0 holds none out.",
        check_rate,
    ),
    "calibrate_by_class": Parameter(
        "bool",
        "Whether ``rejection_rate`` is kept within every class, and not only among all rows: fewer rows are refused "
        "then.",
        check_switch,
    ),
}
_MACHINE = {
    "verbose": Parameter("bool", "Show a progress bar.", check_switch),
    "n_jobs": Parameter("int or None", "Threads, as in scikit-learn.", or_none(_jobs)),
    "random_state": Parameter("int, RandomState or None", "An int makes ``fit`` repeatable.", _random),
    "device": Parameter("str", '"auto", "cpu", "cuda", ...', lambda _, value: choose_device(value)),
}
PARAMETERS: Mapping[str, Parameter] = {**_CIRCUIT, **_TRAINING, **_UNCERTAINTY, **_REJECTION, **_MACHINE}
DENSITY_PARAMETERS: Mapping[str, Parameter] = {
    **PARAMETERS,
    "dropout": Parameter(
        "float",
        'Dropout rate of ``uncertainty`` with ``doubt="dropout"``, and of nothing else; it can be changed after '
        "``fit``.",
        check_rate,
    ),
}
