"""A guard for a model that one already has: the model answers, and a circuit of its inputs says when not to ask it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.errors import check_choice
from socratic.estimators.density import CircuitDensity
from socratic.estimators.given_rows import are_images, as_given, n_rows, shifts_of, take
from socratic.estimators.guarded import ask, check_model, classes_of, entropy
from socratic.estimators.image_density import CircuitImageDensity
from socratic.estimators.parameters import PARAMETERS, Parameter, one_of
from socratic.estimators.preparation import MIN_HELD_OUT, prepare, split_rows
from socratic.estimators.rejection import RejectingEstimator
from socratic.images.checks import check_images
from socratic.tables.inputs import known
from socratic.tables.raw import raw_table
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.detector import COMBINED, Detector, fit_detector
from socratic.uncertainty.profile import N_FOLDS, Profile
from socratic.uncertainty.reasons import FamiliarSurprises, Reasons
from socratic.uncertainty.scores import Scores

GUARD_SCORES = ("log_likelihood", "typicality", "profile", "entropy")
"""What is unusual about a row: to the circuit the first three, to the model the last."""
_REFERENCE = 1 / 3
"""Share of the held-out rows that scores are weighed by; the others are calibrated on."""


def _density(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, CircuitDensity | CircuitImageDensity):
        raise ValueError(f"{name} must be a CircuitDensity, a CircuitImageDensity or None; got {value!r}")


GUARD_PARAMETERS: Mapping[str, Parameter] = {
    **PARAMETERS,
    "model": Parameter(
        "classifier or callable",
        "A fitted classifier with ``predict_proba``, or a callable from a batch of rows to class probabilities (N, C) "
        "as an array or a tensor, such as a torch network that ends in a softmax. It is not trained, copied or saved.",
        check_model,
    ),
    "density": Parameter(
        "CircuitDensity, CircuitImageDensity or None",
        "What learns the inputs, with its settings; None takes the one for tables or for images, with its defaults.",
        _density,
    ),
    "detector": Parameter(
        "{" + ", ".join(f'"{name}"' for name in (COMBINED, *GUARD_SCORES)) + "}",
        "The score that rejection is based on: three of the circuit, the entropy of the model, or all of them.",
        one_of(COMBINED, *GUARD_SCORES),
    ),
}


class Given(NamedTuple):
    """Rows as they were given, and the weight (N,) of each."""

    rows: Any
    weight: np.ndarray

    def take(self, places: np.ndarray) -> Given:
        """Some of the rows."""
        return Given(take(self.rows, places), self.weight[places])


class CircuitGuard(ClassifierMixin, RejectingEstimator):
    """A fitted model that refuses what it does not know.

    The answers are the model's. A circuit learns its inputs, and how unusual a row is to the circuit and to the model
    decides whether it is refused.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray (C,)
        Those of the model; numbers from 0 if it does not name them.
    density_ : CircuitDensity or CircuitImageDensity
        What learned the inputs.
    profile_ : Profile
        Familiar log-likelihoods of the parts of a row.
    detector_ : Detector
        The weights of the scores, and the scores of the calibration rows.
    calibrated_ : bool
        Whether enough rows were held out to keep ``rejection_rate``.
    n_calibration_ : int
        How many that were.
    """

    _parameters: ClassVar = GUARD_PARAMETERS

    classes_: np.ndarray
    density_: CircuitDensity | CircuitImageDensity
    profile_: Profile
    detector_: Detector

    def __init__(
        self,
        model: Any,
        *,
        density: CircuitDensity | CircuitImageDensity | None = None,
        detector: str = COMBINED,
        rejection_rate: float = 0.05,
        rejected_label: Any = None,
        calibration_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.density = density
        self.detector = detector
        self.rejection_rate = rejection_rate
        self.rejected_label = rejected_label
        self.calibration_fraction = calibration_fraction
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, held_out: Any = None) -> CircuitGuard:  # noqa: ARG002, N803
        """Learn the inputs, and calibrate; the model stays what it is.

        Parameters
        ----------
        X : array or data frame (N, V), or images (N, H, W) or (N, H, W, C) of uint8
            Rows to train the circuit on, in the form that the model takes.
        y : ignored
        held_out : like X, optional
            Rows to calibrate on. By default some rows of ``X`` are held out from the circuit. Either must be rows that
            the model was *not* trained on: it is surer of rows that it knows than of any others.

        Warns
        -----
        CalibrationWarning
            If too few rows can be held out to keep ``rejection_rate``; ``calibrated_`` is False then.
        """
        self._check_parameters()
        rng = self._generator()
        density = self._new_density(as_given("X", X), rng)
        train, reference, calibration = self._divide(density, X, held_out, rng)
        self.n_calibration_ = n_rows(calibration.rows) if calibration is not train else 0
        # Asked before the circuit is trained: what is wrong with the model should show early.
        answers = self._ask_familiar(reference), self._ask_familiar(calibration)
        self.classes_ = classes_of(self.model, answers[0])
        with warnings.catch_warnings():
            # Rare values may be among the held-out rows alone, as they may be among new rows.
            warnings.filterwarnings("ignore", "values not seen in training")
            self.density_ = _fitted(density, train)
            crossed = self._fit_profile(reference, rng)
            self.detector_ = fit_detector(
                self.detector,
                {**self._scores(reference.rows, answers[0]), "profile": crossed},
                [self._scores(rows, self._ask(rows)) for rows in shifts_of(reference.rows, rng)],
                self._scores(calibration.rows, answers[1]),
                reference.weight,
                calibration.weight,
            )
            kept = calibration.take(FamiliarSurprises.places(len(calibration.weight)))
            self.density_._remember_batches(self.density_._batches(kept.rows), kept.weight)
        self._warn_unless_calibrated()
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of the model: (N,)."""
        check_is_fitted(self)
        if hasattr(self.model, "predict"):
            return np.asarray(self.model.predict(X))
        return self.classes_[self._ask(X).argmax(1)]

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class probabilities of the model: (N, C)."""
        check_is_fitted(self)
        return self._ask(X)

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """How familiar each row is to the circuit and to the model: (N,), lower is more unusual."""
        check_is_fitted(self)
        return -self.detector_.score(self._scores(X, self._ask(X)))

    def p_value(self, X: Any) -> np.ndarray:  # noqa: N803
        """Share of familiar rows that are at least as unusual: (N,)."""
        return self.detector_.calibration.p_value(-self.score_samples(X))

    def reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """Which rows to refuse: (N,) booleans.

        At most ``rejection_rate`` of familiar rows are refused, if the guard is ``calibrated_``; if it is not, this
        says so with a ``CalibrationWarning``.
        """
        rejected = self.p_value(X) <= self._rate()
        self._warn_unless_calibrated()
        return rejected

    def explain(self, X: Any) -> Reasons:  # noqa: N803
        """Why rows are unusual: how surprising each part is to the circuit given all others, beside familiar rows."""
        check_is_fitted(self)
        return self.density_.explain(X)

    def predict_or_reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of :meth:`predict`, with ``rejected_label`` for refused rows."""
        labels = self.predict(X).astype(object)
        labels[self.p_value(X) <= self._rate()] = self.rejected_label
        self._warn_unless_calibrated()
        return labels

    @property
    def n_features_in_(self) -> int:
        """Columns of the rows; images have none."""
        return self.density_.n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns, if they are text."""
        return self.density_.feature_names_in_

    def guard(self, model: Any) -> CircuitGuard:
        """Guard this model, which must be of the same kind as the one before: for guards from files."""
        check_model("model", model)
        for name in ("classes_", "n_features_in_"):
            ours, theirs = (getattr(each, name, None) for each in (self, model))
            if ours is not None and theirs is not None and not np.array_equal(ours, theirs):
                raise ValueError(
                    f"model must be the one that the guard was fitted for: its {name} are {theirs}, not {ours}"
                )
        self.model = model
        return self

    def __sklearn_clone__(self) -> CircuitGuard:
        """A guard without a circuit, of the same model: a clone of the model would not be fitted."""
        parameters = self.get_params(deep=False)
        model = parameters.pop("model")
        return type(self)(model, **{name: clone(value, safe=False) for name, value in parameters.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        if isinstance(self.model, BaseEstimator):
            tags.input_tags.allow_nan = get_tags(self.model).input_tags.allow_nan
        return tags

    def _check_fitted(self) -> None:
        super()._check_fitted()
        _density("its density", self.density_)
        if len(self.profile_.column_mean) != self.density_.circuit_.n_features:
            raise ValueError("its profile does not fit its circuit")
        for name in self.detector_.weights:
            check_choice("a score of its detector", name, GUARD_SCORES)

    def _new_density(self, rows: Any, rng: np.random.Generator) -> CircuitDensity | CircuitImageDensity:
        """An unfitted density for rows, with a seed of its own unless it has one."""
        kind = CircuitImageDensity if are_images(rows) else CircuitDensity
        density = kind() if self.density is None else clone(self.density)
        if not isinstance(density, kind):
            what = "images" if are_images(rows) else "tables"
            raise ValueError(f"density must be a {kind.__name__} for {what}; got {self.density!r}")
        seed = int(rng.integers(2**31 - 1))
        return density.set_params(random_state=seed) if density.random_state is None else density

    def _divide(
        self,
        density: CircuitDensity | CircuitImageDensity,
        X: Any,  # noqa: N803
        held_out: Any,
        rng: np.random.Generator,
    ) -> tuple[Given, Given, Given]:
        """The rows to train, to weigh scores and to calibrate on; with too few rows all are those to train on."""
        rows = _draws("X", X, density, N_FOLDS)
        if held_out is None:
            one_class = np.zeros(len(rows.weight), dtype=np.int64)
            share = self.calibration_fraction
            split = split_rows(one_class, rng, validation=0.0, calibration=share, reference=_REFERENCE)
            if not len(split.calibration):
                return rows, rows, rows
            return rows.take(split.train), rows.take(split.reference), rows.take(split.calibration)
        others = _draws("held_out", held_out, density, MIN_HELD_OUT)
        order = rng.permutation(len(others.weight))
        first = int(_REFERENCE * len(order))
        return rows, others.take(np.sort(order[:first])), others.take(np.sort(order[first:]))

    def _ask(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class probabilities (N, C) of the model."""
        probabilities = ask(self.model, as_given("X", X))
        if probabilities.shape[1] != len(self.classes_):
            raise ValueError(
                f"model must give a probability for each of {len(self.classes_)} classes, as it did when the guard was "
                f"fitted; got {probabilities.shape[1]}"
            )
        return probabilities

    def _ask_familiar(self, given: Given) -> np.ndarray:
        """The same of familiar rows, which the model must know."""
        probabilities = ask(self.model, given.rows)
        unknown = np.isnan(probabilities).any(1)
        if unknown.any():
            raise ValueError(
                f"model must give probabilities of all rows that it is guarded by; got NaN for {unknown.sum()} of "
                f"{len(unknown)} rows"
            )
        return probabilities

    def _scores(self, X: Any, probabilities: np.ndarray) -> Scores:  # noqa: N803
        parts = [self._circuit_scores(x) for x in self.density_._batches(X)]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return {**joined, "entropy": entropy(probabilities)}

    def _circuit_scores(self, x: Tensor) -> Scores:
        """The scores of rows (n, V) as the circuit reads them."""
        density = self.density_
        unlikely = -density._log_density(x, density._log_joint(x))
        profile = self.profile_.score(density.circuit_, known(x))
        scores = {"log_likelihood": unlikely, "typicality": unlikely, "profile": profile}
        return density._comparable(scores, x, self._circuit_scores)

    def _fit_profile(self, reference: Given, rng: np.random.Generator) -> np.ndarray:
        """Set ``profile_``, and return the scores (N,) of the rows by profiles of the others among them."""
        circuit = self.density_.circuit_
        x = torch.cat(list(self.density_._batches(reference.rows)))
        folds = rng.permutation(len(x)) % N_FOLDS
        self.profile_, scores = Profile.fit_crossed(circuit, known(x), folds, reference.weight)
        self.density_._expect(x, self._circuit_scores, rng)
        return self.density_._comparable({"profile": scores}, x)["profile"]

    def _conformal(self) -> Conformal:
        return self.detector_.calibration


def _draws(name: str, rows: Any, density: CircuitDensity | CircuitImageDensity, minimum: int) -> Given:
    """One row for each draw from the population, of which there must be some: see :func:`preparation.draws`."""
    rows = as_given(name, rows)
    if isinstance(density, CircuitImageDensity):
        given = Given(rows, np.ones(len(check_images(rows))))
    else:
        raw = raw_table(rows, density)
        prepared = prepare(raw, np.zeros(raw.n_rows, dtype=np.int64), np.ones(raw.n_rows), density.leaf)
        given = Given(take(rows, prepared.place), prepared.weight)
    if len(given.weight) < minimum:
        raise ValueError(f"{name} must hold at least {minimum} rows that differ; got n_samples = {len(given.weight)}")
    return given


def _fitted(density: CircuitDensity | CircuitImageDensity, train: Given) -> CircuitDensity | CircuitImageDensity:
    if isinstance(density, CircuitImageDensity):
        return density.fit(train.rows)
    return density.fit(train.rows, sample_weight=train.weight)
