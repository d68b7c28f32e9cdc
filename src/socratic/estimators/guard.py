"""A guard for a model that one already has: the model answers, and a circuit of its inputs says when not to ask it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.errors import CalibrationWarning, check_choice
from socratic.estimators.crossing import assign_folds, share_detector, split_fold
from socratic.estimators.density import CircuitDensity
from socratic.estimators.explaining import Judged
from socratic.estimators.given_rows import (
    Given,
    are_images,
    as_given,
    draws_of,
    n_rows,
    shifts_of,
    take,
    without_cells,
)
from socratic.estimators.guarded import ask, check_model, classes_of, entropy, takes_missing
from socratic.estimators.image_density import CircuitImageDensity
from socratic.estimators.learned import KERNELS
from socratic.estimators.parameters import PARAMETERS, Parameter, one_of
from socratic.estimators.preparation import MIN_HELD_OUT, split_rows
from socratic.estimators.rejection import RejectingEstimator
from socratic.tables.inputs import known
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.conformal import Conformal, over_folds
from socratic.uncertainty.detector import COMBINED, Detector, fit_detector
from socratic.uncertainty.profile import N_FOLDS, Profile
from socratic.uncertainty.reasons import FamiliarSurprises, Reasons
from socratic.uncertainty.scores import Scores

CIRCUIT_SCORES = ("log_likelihood", "typicality", "profile")
"""What is unusual about a row to the circuit, whatever the model answers."""
ENTROPY = "entropy"
"""What is unusual about it to the model, which is surer of rows that it was trained on than of any others."""
GUARD_SCORES = (*CIRCUIT_SCORES, ENTROPY)
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
        "What learns the inputs, with its settings; None takes kernels for tables, and the defaults for images.",
        _density,
    ),
    "detector": Parameter(
        "{" + ", ".join(f'"{name}"' for name in (COMBINED, *GUARD_SCORES)) + "}",
        "The score that rejection is based on: three of the circuit, the entropy of the model, or all of them. The "
        "entropy needs rows that the model has not seen: see ``fit``.",
        one_of(COMBINED, *GUARD_SCORES),
    ),
}


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
    folds_ : tuple of CircuitGuard
        With few rows: guards that each learned without a part of them, which they are compared with.
    calibrated_ : bool
        Whether there were enough calibration rows to keep ``rejection_rate``.
    n_calibration_ : int
        How many there were.
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

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,  # noqa: ARG002
        *,
        held_out: Any = None,
        unseen: bool = False,
    ) -> CircuitGuard:
        """Learn the inputs, and calibrate; the model stays what it is.

        A model is surer of the rows that it was trained on than of any others. Compared with those, new familiar rows
        leave it in doubt and would be refused too often. So its doubt, ``entropy``, is one of the scores only if there
        are rows of which you say that it has not seen them: ``held_out``, or ``X`` itself with ``unseen=True``. Without
        them the scores of the circuit decide, which keep ``rejection_rate`` whatever the model was trained on.

        Parameters
        ----------
        X : array or data frame (N, V), or images (N, H, W) or (N, H, W, C) of uint8
            Rows to train the circuit on, in the form that the model takes.
        y : ignored
        held_out : like X, optional
            Rows to calibrate on, which the model was not trained on. By default some rows of ``X`` are held out from
            the circuit.
        unseen : bool
            Whether the model was not trained on any row of ``X`` either.

        Raises
        ------
        ValueError
            If ``detector="entropy"`` is to decide, and no rows are said to be new to the model.

        Warns
        -----
        CalibrationWarning
            If the entropy is left out of the combined score for want of such rows; and if too few rows can be held out
            to keep ``rejection_rate``: ``calibrated_`` is False then.
        """
        self._check_parameters()
        asks_model = self._asks_model(held_out is not None or unseen)
        rng = self._generator()
        density = self._new_density(as_given("X", X), rng)
        rows = draws_of("X", X, density, N_FOLDS)
        folds = None
        if held_out is None and self.calibration_fraction and isinstance(density, CircuitDensity):
            folds = assign_folds(np.zeros(len(rows.twin), dtype=int), rows.twin, rng, costly=density._takes_long())
        if folds is None:
            self._calibrate(density, *self._divide(density, rows, held_out, rng), rng, asks_model)
        else:
            self._cross_fit(density, rows, folds, rng, asks_model)
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
        return -over_folds(self.judge(X).scores)

    def p_value(self, X: Any) -> np.ndarray:  # noqa: N803
        """Share of familiar rows that are at least as unusual: (N,)."""
        return self.judge(X).p_value

    def judge(self, X: Any) -> Judgement:  # noqa: N803
        """How familiar rows are."""
        check_is_fitted(self)
        probabilities = self._ask(X)
        if not self.folds_:
            scores = np.stack([self._on_one_level(self._unusualness(X, probabilities), X, self)])
        else:
            with _rare_values_ignored():  # which were told of when the rows were scored
                scores = np.stack(
                    [self._on_one_level(fold._unusualness(X, probabilities), X, fold) for fold in self.folds_]
                )
        scores[:, np.isnan(probabilities).any(1)] = np.inf  # the model has no answer, whatever the circuit says
        return Judgement(scores, self.detector_.calibration.p_value(over_folds(scores)))

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
        if not hasattr(self, "classes_"):
            raise ValueError("it has no classes")
        self.profile_.check(self.density_.circuit_)
        for name in self.detector_.weights:
            check_choice("a score of its detector", name, GUARD_SCORES)

    def _new_density(self, rows: Any, rng: np.random.Generator) -> CircuitDensity | CircuitImageDensity:
        """An unfitted density for rows, with a seed of its own unless it has one."""
        kind = CircuitImageDensity if are_images(rows) else CircuitDensity
        density: Any = None if self.density is None else clone(self.density)
        if density is None:
            density = CircuitImageDensity() if are_images(rows) else CircuitDensity(structure=KERNELS)
        if not isinstance(density, kind):
            what = "images" if are_images(rows) else "tables"
            raise ValueError(f"density must be a {kind.__name__} for {what}; got {self.density!r}")
        seed = int(rng.integers(2**31 - 1))
        return density.set_params(random_state=seed) if density.random_state is None else density

    def _asks_model(self, new_to_model: bool) -> bool:
        """Whether the model's doubt is a score: only by rows that it has not seen is it known what is usual."""
        if new_to_model or self.detector not in (COMBINED, ENTROPY):
            return self.detector in (COMBINED, ENTROPY)
        fix = "give such rows as held_out, or say unseen=True if the model was not trained on X"
        if self.detector == ENTROPY:
            raise ValueError(
                f"detector={ENTROPY!r} must be calibrated on rows that the model was not trained on: {fix}"
            )
        message = (
            f"the guard leaves out the model's {ENTROPY}, which is smaller on rows that the model was trained on than "
            f"on any others, and goes by its circuit alone: {fix}"
        )
        warnings.warn(message, CalibrationWarning, stacklevel=3)
        return False

    def _calibrate(
        self,
        density: Any,
        train: Given,
        reference: Given,
        calibration: Given,
        rng: np.random.Generator,
        asks_model: bool,
    ) -> None:
        """Compare with rows that were held out; with the training rows if those are few."""
        self.folds_ = ()
        self.n_calibration_ = n_rows(calibration.rows) if calibration is not train else 0
        # Asked before the circuit is trained: what is wrong with the model should show early.
        answers = self._ask_familiar(reference), self._ask_familiar(calibration)
        self.classes_ = classes_of(self.model, answers[0])
        with _rare_values_ignored():
            self._learn(density, train, reference, answers[0] if asks_model else None, rng)
            scores = self._unusualness(calibration.rows, answers[1])
            (scores,) = self._fit_levels([self], [calibration], [scores], rng)
            self.detector_ = self.detector_.compared_with(Conformal.fit(scores, calibration.weight))
            kept = calibration.take(FamiliarSurprises.places(len(calibration.weight)))
            self.density_._remember_batches(self.density_._batches(kept.rows), kept.weight)

    def _cross_fit(
        self, density: CircuitDensity, rows: Given, folds: np.ndarray, rng: np.random.Generator, asks_model: bool
    ) -> None:
        """Compare with all rows, each by a guard that learned from those of other folds."""
        answers = self._ask_familiar(rows)
        self.classes_ = classes_of(self.model, answers)
        models, scores, surprises, places = [], [], [], []
        one_class = np.zeros(len(folds), dtype=np.int64)
        with _rare_values_ignored():
            for number in range(int(folds.max()) + 1):
                split = split_fold(one_class, rows.twin, folds, number, rng, validation=0.0, reference=0.25)
                reference = split.reference if len(split.reference) else split.train
                model = clone(self)
                model.classes_, model.n_calibration_ = self.classes_, 0
                weighed = answers[reference] if asks_model else None
                model._learn(clone(density), rows.take(split.train), rows.take(reference), weighed, rng)
                models.append(model)
                places.append(split.calibration)
                held_out = rows.take(split.calibration).rows
                scores.append(model._scores(held_out, answers[split.calibration] if asks_model else None))
                surprise = [model.density_._surprise(x) for x in model.density_._batches(held_out)]
                surprises.append(np.concatenate(surprise) + model.density_.table_.log_scale)
            self.density_ = _fitted(density, rows)
            self._fit_profile(rows, rng)
            apart = [rows.take(part) for part in places]
            weights = rows.weight[np.concatenate(places)]
            shared = share_detector(self.detector, models, scores, weights)
            unusual = self._fit_levels(models, apart, [shared.score(part) for part in scores], rng)
        self.folds_ = tuple(models)
        numbers = np.repeat(np.arange(len(models)), [len(part) for part in places])
        twins = rows.twin[np.concatenate(places)]
        self.detector_ = shared.compared_with(Conformal.fit(np.concatenate(unusual), weights, numbers, twins))
        self.n_calibration_ = len(weights)
        in_its_units = np.concatenate(surprises) - self.density_.table_.log_scale
        self.density_.familiar_ = FamiliarSurprises.fit(in_its_units, weights)

    def _learn(
        self, density: Any, train: Given, reference: Given, answers: np.ndarray | None, rng: np.random.Generator
    ) -> None:
        """Learn the inputs, and what scores are worth by reference rows and any answers of the model to them."""
        self.density_ = _fitted(density, train)
        crossed = self._fit_profile(reference, rng)
        self.detector_ = fit_detector(
            self.detector,
            {**self._scores(reference.rows, answers), "profile": crossed},
            [
                self._scores(rows, None if answers is None else self._ask(rows))
                for rows in shifts_of(reference.rows, rng)
            ],
            reference_weight=reference.weight,
        )

    def _divide(
        self, density: CircuitDensity | CircuitImageDensity, rows: Given, held_out: Any, rng: np.random.Generator
    ) -> tuple[Given, Given, Given]:
        """The rows to train, to weigh scores and to calibrate on; with too few rows all are those to train on."""
        if held_out is None:
            one_class = np.zeros(len(rows.weight), dtype=np.int64)
            share = self.calibration_fraction
            split = split_rows(one_class, rows.twin, rng, validation=0.0, calibration=share, reference=_REFERENCE)
            if not len(split.calibration):
                return rows, rows, rows
            return rows.take(split.train), rows.take(split.reference), rows.take(split.calibration)
        others = draws_of("held_out", held_out, density, MIN_HELD_OUT)
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

    def _unusualness(self, X: Any, probabilities: np.ndarray | None) -> np.ndarray:  # noqa: N803
        """How unusual rows are by this guard alone (N,), not yet on one level."""
        return self.detector_.score(self._scores(X, probabilities))

    def _read(self, X: Any) -> Tensor:  # noqa: N803
        """Rows as the circuit reads them."""
        return torch.cat(list(self.density_._batches(X)))

    def _fit_levels(
        self, guards: Sequence[CircuitGuard], parts: Sequence[Given], scores: Sequence[np.ndarray], rng: Any
    ) -> list[np.ndarray]:
        """Learn how unusual rows are that miss cells, from rows that guards found so unusual; on one level then."""
        asks_model = ENTROPY in guards[0].detector_.weights

        def judged(guard: CircuitGuard, given: Given, unusual: np.ndarray) -> Judged:
            def hidden(places: np.ndarray, cells: np.ndarray) -> np.ndarray:
                if not len(places):
                    return np.empty(0)
                rows = without_cells(take(given.rows, places), cells)
                return guard._unusualness(rows, ask(self.model, rows) if asks_model else None)

            return Judged(self._read(given.rows), given.weight, unusual, hidden)

        if isinstance(self.density_, CircuitDensity):
            can_miss = not asks_model or takes_missing(self.model, parts[0].rows)
            self.density_._fit_levels(list(map(judged, guards, parts, scores)), rng, hiding=can_miss)
        return [
            self._on_one_level(unusual, given.rows, guard)
            for guard, given, unusual in zip(guards, parts, scores, strict=True)
        ]

    def _on_one_level(self, scores: np.ndarray, X: Any, reader: CircuitGuard) -> np.ndarray:  # noqa: N803
        """Scores (N,) that p-values compare, from how unusual rows are to this guard or a fold of it."""
        return self.density_._on_one_level(scores, self._read(X), reader.density_._unseen(reader._read(X)))

    def _scores(self, X: Any, probabilities: np.ndarray | None) -> Scores:  # noqa: N803
        """The scores of rows by name: those of the circuit, and that of the model if it was asked."""
        parts = [self._circuit_scores(x) for x in self.density_._batches(X)]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return joined if probabilities is None else {**joined, ENTROPY: entropy(probabilities)}

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


@contextmanager
def _rare_values_ignored() -> Iterator[None]:
    """Rare values may be among held-out rows alone, as they may be among new rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "values not seen in training")
        yield


def _fitted(density: CircuitDensity | CircuitImageDensity, train: Given) -> CircuitDensity | CircuitImageDensity:
    if isinstance(density, CircuitImageDensity):
        return density.fit(train.rows)
    return density.fit(train.rows, sample_weight=train.weight)
