"""What classifiers share, whatever they classify: the prior, doubt and calibration at fit, answers and refusals."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.forest import Forest
from socratic.circuit.graph import Graph
from socratic.errors import check_rate
from socratic.estimators.committee import Committee, ForestCommittee
from socratic.estimators.explaining import ExplainingEstimator, Judged
from socratic.estimators.members import Circuits, as_one
from socratic.estimators.posterior import DROPOUT, ONE_PASS, WEIGHTS
from socratic.estimators.preparation import Parts
from socratic.estimators.rejection import warn_of_few
from socratic.estimators.verdicts import JudgingClassifier
from socratic.inference.posterior import Posterior
from socratic.inference.tempering import DROPOUT_RATES, WORTHS, most_doubt
from socratic.learning.settings import Rows, Source
from socratic.tables.inputs import known
from socratic.uncertainty.ambiguity import Ambiguity
from socratic.uncertainty.answers import Answer, Judgement, Uncertainty
from socratic.uncertainty.by_class import ClassConformal
from socratic.uncertainty.conformal import Conformal, over_folds
from socratic.uncertainty.detector import Detector, fit_detector
from socratic.uncertainty.profile import N_FOLDS, Profile
from socratic.uncertainty.scores import Scores

PROFILES = {"profile": False, "class_profile": True}
"""The profiles of a classifier by name, and whether rows are compared within their class."""
_MOST_JUDGED = 1000
"""Held-out rows that decide how much to doubt, at most."""


class CircuitClassifierBase(ClassifierMixin, JudgingClassifier, ExplainingEstimator):
    """A classifier around a circuit with a root for each class.

    A subclass trains ``circuit_`` in its ``fit`` and then calls :meth:`_calibrate`; :meth:`_shifts` makes rows of the
    kind that is trained on, which look natural and are not.
    """

    _used_in_answers: ClassVar = ("doubt", "masks", "leaf_variance", "posterior")

    calibrate_by_class: bool
    class_conformal_: ClassConformal | None = None
    class_prior_: np.ndarray
    committee_: Committee
    forest_: Forest
    doubt_: str
    dropout_: float
    profile_: Profile
    class_profile_: Profile
    detector_: Detector
    n_calibration_: int

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Class probabilities p(class | x): (N, C)."""
        check_is_fitted(self)
        return np.concatenate([self._shares(x) for x in self._batches(X)])

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most probable class of each row: (N,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def answer(self, X: Any) -> Answer:  # noqa: N803
        """Everything the classifier can say of each row, from one evaluation."""
        check_is_fitted(self)
        return Answer.concatenate([self.answer_rows(x) for x in self._batches(X)])

    def answer_rows(self, x: Tensor) -> Answer:
        """The same of rows (N, V) as the circuit reads them."""
        return self.answer_and_judge(x)[0]

    def answer_and_judge(self, x: Tensor) -> tuple[Answer, Judgement]:
        """The answer to rows (N, V) as the circuit reads them, and how familiar they are, from one evaluation."""
        answer = self._answer_alone(x)
        judgement = self.judge_rows(x, answer)
        return replace(answer, uncertainty=replace(answer.uncertainty, p_value=judgement.p_value)), judgement

    def judge_rows(self, x: Tensor, answer: Answer | None = None) -> Judgement:
        """How familiar rows (N, V) are, as the circuit reads them; from the answer to them, if there is one."""
        answer = self._answer_alone(x) if answer is None else answer
        judged = self._judge_folds(x)
        if not judged:
            judged = [(self._on_one_level(self._unusualness_of(answer), x, self._unseen(x)), answer.probabilities)]
        scores, probabilities = map(np.stack, zip(*judged, strict=True))
        if self.class_conformal_ is not None:
            return Judgement(scores, self.class_conformal_.p_value(scores, probabilities))
        return Judgement(scores, self.detector_.calibration.p_value(over_folds(scores)))

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803
        """Everything the classifier can say of its doubt about each row."""
        return self.answer(X).uncertainty

    @abstractmethod
    def _shifts(self, x: Tensor, rng: np.random.Generator) -> Sequence[Tensor]:
        """Synthetic shifts of such rows."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.leaf_variance
        if self.posterior == "monte-carlo" and any(given.values() if isinstance(given, Mapping) else [given]):
            raise ValueError(
                f"posterior='monte-carlo' samples weights or masks alone, and leaf_variance={given!r} cannot be "
                "sampled; use 'one-pass', 'expansion', 'log-moments' or 'auto', or set leaf_variance to 0"
            )

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_classes = self.circuit_.n_classes
        if len(self.classes_) != n_classes or self.class_prior_.shape != (n_classes,):
            raise ValueError("its classes do not fit its circuit")
        if not (self.class_prior_ >= 0.0).all() or not abs(self.class_prior_.sum() - 1.0) <= 1e-6:
            raise ValueError(f"class_prior_ must hold probabilities; got {self.class_prior_}")
        for profile in (getattr(self, f"{name}_", None) for name in PROFILES):
            if profile is not None:
                profile.check(self.circuit_)
        if self.class_conformal_ is not None:
            self.class_conformal_.check(n_classes)
        check_rate("dropout_", self.dropout_)
        if hasattr(self, "committee_") or hasattr(self, "forest_"):
            self._committee().check()

    def _calibration_problem(self) -> str | None:
        calibrated = getattr(self, "doubt_", self.doubt)
        if self.doubt != calibrated:
            return (
                f"the detector was calibrated for doubt={calibrated!r}, and doubt was changed to {self.doubt!r} since: "
                "more familiar rows than rejection_rate may be refused; change it back, or fit again"
            )
        return super()._calibration_problem()

    def _encode_classes(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Set ``classes_`` to those of the rows of positive weight, and return the number of each row's class (N,)."""
        used = weight > 0
        self.classes_, numbers = np.unique(y[used], return_inverse=True)
        if len(self.classes_) < 2:
            (label,) = self.classes_.tolist()
            raise ValueError(f"Classifier can't train when only one class is present; got {label!r} alone")
        labels = np.zeros(len(y), dtype=np.int64)
        labels[used] = numbers
        return labels

    def _set_prior(self, train: Source) -> None:
        """Set ``class_prior_`` to what was asked for, or to the frequencies of the training rows."""
        n_classes = len(self.classes_)
        if self.class_prior is None:
            counts = train.class_weights(n_classes)
            self.class_prior_ = counts / counts.sum()
            return
        uniform = isinstance(self.class_prior, str)
        prior = np.full(n_classes, 1.0 / n_classes) if uniform else np.asarray(self.class_prior, dtype=np.float64)
        if prior.shape != (n_classes,) or not (prior >= 0).all() or not abs(prior.sum() - 1.0) <= 1e-6:
            raise ValueError(
                f"class_prior must hold {n_classes} probabilities that sum to 1, in the order of the classes "
                f"{self.classes_.tolist()}; got {self.class_prior!r}"
            )
        self.class_prior_ = prior

    def _calibrate(self, parts: Parts, rng: np.random.Generator) -> None:
        """Choose how much to doubt, and fit the detector, on held-out rows; on the training rows if those are few."""
        held_out, answers = [parts.reference or parts.train], [self._weigh_scores(parts, rng)]
        self.folds_ = ()
        self.n_calibration_ = len(parts.calibration)
        if self.n_calibration_:
            self.n_calibration_ += 0 if parts.alone is None else len(parts.alone)
            # What the reference rows choose makes no difference to class probabilities: their errors count, too.
            n_more = 1 if parts.reference else 0
            held_out = [parts.calibration, *held_out[:n_more]]
            answers = [self._answer_encoded(parts.calibration.x), *answers[:n_more]]
        self._compare_with([self], answers[:1], held_out[0], parts.alone, rng)
        self._count_errors([self] * len(answers), answers, Rows.concatenate(held_out))
        self._remember(held_out[0])

    def _weigh_scores(self, parts: Parts, rng: np.random.Generator) -> Answer:
        """Choose how much to doubt, and what each score is worth, by the reference rows; by the others without them.

        Gives the answer to these rows.
        """
        reference = parts.reference or parts.train
        self._start_doubt(parts.source)
        self._choose_doubt(parts.validation or reference)
        crossed = self._fit_profiles(reference, rng)
        self._expect(reference.x, self._scores_of, rng)
        answer = self._answer_encoded(reference.x)
        self.detector_ = fit_detector(
            self.detector,
            {**answer.uncertainty.scores(), **self._comparable(crossed, reference.x)},
            [self._scores(shifted) for shifted in self._shifts(reference.x, rng)],
            reference_weight=reference.weight.double().cpu().numpy(),
        )
        return answer

    def _compare_with(
        self,
        models: Sequence[CircuitClassifierBase],
        answers: Sequence[Answer],
        rows: Rows,
        alone: Rows | None,
        rng: np.random.Generator,
        twins: np.ndarray | None = None,
    ) -> None:
        """Make p-values compare with calibration rows, by what models that have not seen them answer.

        Parameters
        ----------
        models : sequence of CircuitClassifierBase
            Itself, or those of the folds.
        answers : sequence of Answer
            Of each model to rows of its own.
        rows : Rows
            All of these rows, in this order.
        alone : Rows or None
            Rows that are calibrated on but had to be trained on: see :meth:`Conformal.fit`.
        rng : Generator
        twins : np.ndarray (M,), optional
            The same number for equal ones among the rows.
        """
        apart = rows.split([len(answer.probabilities) for answer in answers])
        self._fit_levels(
            [
                Judged.by(model._unusualness, some, model._unusualness_of(answer))
                for model, answer, some in zip(models, answers, apart, strict=True)
            ],
            rng,
        )
        each = self._compared(models, answers, rows)
        n_alone = 0 if alone is None else len(alone)
        folds = np.append(np.repeat(np.arange(len(each)), list(map(len, each))), np.full(n_alone, -1))
        scores = np.concatenate([*each, np.full(n_alone, np.inf)])
        probabilities = np.concatenate(
            [*(answer.probabilities for answer in answers), np.ones((n_alone, len(self.classes_)))]
        )
        parts = [rows] if alone is None else [rows, alone]
        labels = np.concatenate([part.y.cpu().numpy() for part in parts])
        weights = np.concatenate([part.weight.double().cpu().numpy() for part in parts])
        if twins is not None:
            twins = np.append(twins, twins.max(initial=0) + 1 + np.arange(n_alone))
        self.detector_ = self.detector_.compared_with(Conformal.fit(scores, weights, folds, twins))
        self.__dict__.pop("class_conformal_", None)  # of a fit before
        if self.calibrate_by_class:
            self.class_conformal_ = ClassConformal.fit(
                scores, probabilities, labels, weights, self._rate(), folds, twins
            )
            few = np.setdiff1d(np.arange(len(self.classes_)), list(self.class_conformal_.classes))
            warn_of_few({self.classes_[number]: int((labels == number).sum()) for number in few}, self._rate())

    def _count_errors(self, models: Sequence[CircuitClassifierBase], answers: Sequence[Answer], rows: Rows) -> None:
        """Make risks compare with such rows; the parameters are those of :meth:`_compare_with`."""
        scores = np.concatenate(self._compared(models, answers, rows))
        probabilities = np.concatenate([answer.probabilities for answer in answers])
        held_out = slice(None) if self.n_calibration_ else slice(0)  # answers to training rows tell nothing
        self.ambiguity_ = Ambiguity.fit(
            probabilities.max(1)[held_out],
            (probabilities.argmax(1) == rows.y.cpu().numpy())[held_out],
            rows.weight.double().cpu().numpy()[held_out],
            self.detector_.calibration.p_value(scores)[held_out],
        )

    def _compared(
        self, models: Sequence[CircuitClassifierBase], answers: Sequence[Answer], rows: Rows
    ) -> list[np.ndarray]:
        """How unusual (n,) the rows of each answer are, as p-values compare them; parameters as above."""
        apart = rows.split([len(answer.probabilities) for answer in answers])
        return [
            self._on_one_level(model._unusualness_of(answer), some.x, model._unseen(some.x))
            for model, answer, some in zip(models, answers, apart, strict=True)
        ]

    def _unusualness(self, x: Tensor) -> np.ndarray:
        """How unusual rows of the kind that is trained on are by this model alone, not yet on one level: (N,)."""
        return self._unusualness_of(self._answer_encoded(x)) if len(x) else np.empty(0)

    def _unusualness_of(self, answer: Answer) -> np.ndarray:
        """The same of rows that were answered."""
        return self.detector_.score(answer.uncertainty.scores())

    def _start_doubt(self, train: Source) -> None:
        """Set what there is to doubt about circuits that were trained on rows."""
        self.doubt_ = self.doubt
        self._count_visits(train)

    def _judge_folds(self, x: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:  # noqa: ARG002 - here there are none
        """How unusual rows (n, V) are (n,), and their class probabilities (n, C), by the models of the folds."""
        return []

    def _choose_doubt(self, rows: Rows) -> None:
        """Set ``dropout_``, and how much a visit is worth to the weight posteriors, by rows that were held out."""
        committee = self._committee()
        if isinstance(committee, ForestCommittee):  # whose mean is the same however much is in doubt
            self.dropout_ = 0.0
            return
        rows = rows.take(torch.arange(0, len(rows), -(-len(rows) // _MOST_JUDGED)))
        x, labels, weight = self._read(rows.x), rows.y.cpu().numpy(), rows.weight.double().cpu().numpy()
        log_joints = self._log_joints(x)

        def most(kind: str, choices: Sequence[float], doubts: Callable[[float], Sequence[Any]]) -> float:
            # A method that the doubt in use allows may not be possible for the other.
            method = self.posterior if kind == self.doubt else ONE_PASS

            def mean(choice: float) -> np.ndarray:
                return self._posterior(x, log_joints, doubts(choice), method).mean.double().cpu().numpy()

            return most_doubt(choices, mean, labels, weight) if len(choices) > 1 else choices[0]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # rates that are too large are tried on purpose
            rates = DROPOUT_RATES if isinstance(self.dropout, str) else (float(self.dropout),)
            self.dropout_ = most(DROPOUT, rates, lambda rate: committee.dropping(rate, self.masks))
            worth = most(WEIGHTS, WORTHS, lambda worth: committee.tempered(worth).weight_posteriors)
        self._temper(worth)

    def _temper(self, worth: float) -> None:
        """Set how much a visit is worth to the weight posteriors."""
        self.weight_posterior_ = self.weight_posterior_.tempered(worth=worth)
        if hasattr(self, "committee_"):
            self.committee_ = self.committee_.tempered(worth)

    def _fit_profiles(self, rows: Rows, rng: np.random.Generator) -> Scores:
        """Set the profiles, and return the scores (N,) of the rows by profiles of the others among them.

        A circuit without inner sums has no regions but the row as a whole, and no profile.
        """
        for name in PROFILES:  # of a fit before
            if hasattr(self, f"{name}_"):
                delattr(self, f"{name}_")
        if isinstance(self.circuit_, Circuit) and not self.circuit_.inner_layers():
            return {}
        x = known(torch.cat(list(self._read_in_batches(rows.x))))
        folds = rng.permutation(len(x)) % N_FOLDS
        found = {}
        for name, by_class in PROFILES.items():
            profile, found[name] = Profile.fit_crossed(
                self.circuit_,
                x,
                folds,
                rows.weight.double().cpu().numpy(),
                class_prior=self.class_prior_.tolist(),
                by_class=by_class,
            )
            setattr(self, f"{name}_", profile)
        return found

    def _answer_alone(self, x: Tensor) -> Answer:
        """What the classifier says of rows (N, V) before it is compared with familiar rows: without p-values."""
        log_joints = self._log_joints(x)
        doubt = self._doubt(x, log_joints)
        return Answer(doubt.mean if self._committee().answers_by_mean else self._shares(x, log_joints), doubt)

    def _answer_encoded(self, x: Tensor) -> Answer:
        """The same of rows of the kind that is trained on."""
        return Answer.concatenate([self._answer_alone(part) for part in self._read_in_batches(x)])

    def _scores(self, x: Tensor) -> Scores:
        """Scores of rows of the kind that is trained on."""
        return self._answer_encoded(x).uncertainty.scores()

    def _scores_of(self, x: Tensor) -> Scores:
        """Scores of rows as they were encoded."""
        return self._doubt(x, self._log_joints(x)).scores()

    def _doubt(self, x: Tensor, log_joints: Tensor) -> Uncertainty:
        """What the classifier says of its doubt, before it is compared with familiar rows."""
        committee = self._committee()
        weights = self._doubts_weights()
        doubts = committee.weight_posteriors if weights else committee.dropping(self.dropout_, self.masks)
        posterior = self._posterior(x, log_joints, doubts, self.posterior)
        profiles = [self._distance(name, x) for name in PROFILES]
        doubt = Uncertainty.of_posterior(posterior, self._log_density(x, _mixed(log_joints)), *profiles)
        return doubt.judged_by(self._comparable(doubt.scores(), x, self._scores_of))

    def _posterior(self, x: Tensor, log_joints: Tensor, doubts: Sequence[Any], method: str) -> Posterior:
        """The class posterior of rows over what is in doubt of each circuit."""
        prior = self.class_prior_.tolist()
        return self._committee().posterior(method, known(x), log_joints, doubts, self._leaf_variance(), prior)

    def _distance(self, name: str, x: Tensor) -> np.ndarray:
        """How far rows are from one of ``PROFILES``: (N,), NaN in models from files that have none."""
        profile: Profile | None = getattr(self, f"{name}_", None)
        if profile is None:
            return np.full(len(x), np.nan)
        return profile.score(self.circuit_, known(x), class_prior=self.class_prior_.tolist())

    def _set_circuits(self, circuits: Circuits) -> None:
        super()._set_circuits(circuits)
        for before in ("committee_", "forest_"):
            if hasattr(self, before):
                delattr(self, before)
        if len(circuits) > 1:
            self.committee_ = Committee(circuits, ())

    def _stored(self) -> dict[str, Any]:
        stored = super()._stored()
        if "committee_" in stored:
            del stored["circuit_"]  # which is the committee's circuits, joined
        return stored

    def _restore(self) -> None:
        super()._restore()
        if hasattr(self, "committee_"):
            self.circuit_ = as_one(self.committee_.circuits)

    def _count_visits(self, rows: Source) -> None:
        super()._count_visits(rows)
        if hasattr(self, "committee_"):
            circuits = self.committee_.circuits
            self.committee_ = Committee(circuits, tuple(self._visits(circuit, rows) for circuit in circuits))

    def _committee(self) -> Committee | ForestCommittee:
        """What answers for the classes: a forest, several circuits, or ``circuit_`` alone."""
        if hasattr(self, "forest_"):
            return ForestCommittee.of(self.forest_, self.circuit_)
        if hasattr(self, "committee_"):
            return self.committee_
        known = (self.weight_posterior_,) if hasattr(self, "weight_posterior_") else ()
        return Committee((self.circuit_,), known)

    def _log_joints(self, x: Tensor) -> Tensor:
        """log p(x, class) of rows (n, V) by each circuit that answers: (K, n, C)."""
        return self._committee().log_joints(known(x), self._log_prior(self.circuit_))

    def _log_joint(self, x: Tensor) -> Tensor:
        return _mixed(self._log_joints(x))

    def _shares(self, x: Tensor, log_joints: Tensor | None = None) -> np.ndarray:
        return self._committee().shares(known(x), self._log_prior(self.circuit_), log_joints).double().cpu().numpy()

    def _log_prior(self, circuit: Circuit | Graph) -> Tensor:
        with np.errstate(divide="ignore"):  # a class may have a prior of 0
            log_prior = np.log(self.class_prior_)
        return torch.as_tensor(log_prior, dtype=circuit.dtype, device=circuit.device)

    def _conformal(self) -> Conformal | ClassConformal:
        return self.class_conformal_ or self.detector_.calibration


def _mixed(log_joints: Tensor) -> Tensor:
    """log p(x, class) of circuits joined under a sum (n, C), from that of each (K, n, C)."""
    return torch.logsumexp(log_joints, 0) - math.log(len(log_joints))
