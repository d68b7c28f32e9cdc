"""A classifier of tables that says when it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from socratic.estimators.building import Training, fit_circuit, threads, train_by_gradient
from socratic.estimators.choosing import AUTO
from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.committee import NO_DROPOUT
from socratic.estimators.comparing import compare_structures
from socratic.estimators.crossing import familiar_surprises, fit_folds, share_detector
from socratic.estimators.generative import LabelledGenerativeMixin
from socratic.estimators.learned import FOREST, LEARNED, fit_forest
from socratic.estimators.members import Fitted, Member, fit_members
from socratic.estimators.posterior import DROPOUT
from socratic.estimators.preparation import Parts, Prepared
from socratic.estimators.tabular import TableEstimator
from socratic.families import LeafName
from socratic.learning.settings import History, Rows
from socratic.tables.inputs import check_labels, known
from socratic.uncertainty.synthetic import synthetic_shifts


class CircuitClassifier(LabelledGenerativeMixin, CircuitClassifierBase, TableEstimator):
    """Probabilistic circuit classifier that says how sure it is, with calibrated rejection.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray (C,)
    class_prior_ : ndarray (C,)
        Their probabilities.
    circuit_ : Circuit or Graph
    table_ : Table
        How columns are encoded.
    dropout_ : float
        The dropout rate of the uncertainty.
    structure_ : str
        The structure it has, which ``structure="auto"`` leaves open.
    structure_reason_ : str
        Why it is that one.
    forest_ : Forest
        The trees that answer for the classes, with ``structure="forest"`` only.
    committee_ : Committee
        The circuits that answer together, with ``n_circuits`` above 1 only.
    doubt_ : str
        The ``doubt`` that rejection was calibrated for.
    weight_posterior_ : WeightPosterior
        The distribution of its weights that the training rows leave, with the worth of a visit that was chosen.
    profile_, class_profile_ : Profile
        Familiar log-likelihoods of the parts of a row, of all classes and of each.
    detector_ : Detector
    class_conformal_ : ClassConformal or None
        What p-values compare with if they are calibrated by class.
    ambiguity_ : Ambiguity
        How sure and how right the answers to calibration rows are, which ``risk`` is kept by.
    folds_ : tuple of CircuitClassifier
        With few rows: models that were each trained without a part of them, which they are compared with.
    calibrated_ : bool
        Whether there were enough calibration rows to keep ``rejection_rate``.
    n_calibration_ : int
        How many there were.
    familiar_ : FamiliarSurprises
        Of familiar rows, which ``explain`` compares with.
    history_ : History
        Losses of each epoch; of several circuits, one after the other, each from epoch 0 on.
    n_iter_ : int
        Epochs, of all circuits.
    """

    _REFERENCE = 1 / 3
    _VALIDATED_FROM = 2000
    _UNTRAINED = FOREST

    def __init__(
        self,
        *,
        structure: str = "auto",
        time_budget: float = 0.0,
        structure_options: Mapping[str, Any] | None = None,
        image_shape: Sequence[int] | None = None,
        n_sums: int | str = "auto",
        depth: int | str = "auto",
        n_repetitions: int | str = "auto",
        n_circuits: int = 1,
        leaf: Mapping[str, LeafName] | None = None,
        cross_entropy_weight: float = 1.0,
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.08,
        learning_rate_schedule: str = "cosine",
        training_dropout: float = 0.2,
        leaf_dropout: float = 0.2,
        early_stopping: int | None = 15,
        validation_fraction: float | str = "auto",
        calibration_fraction: float = 0.2,
        calibrate_by_class: bool = False,
        doubt: str = "weights",
        dropout: float | str = "auto",
        masks: str = "edge",
        leaf_variance: float | Mapping[str, float] = 0.0,
        posterior: str = "one-pass",
        class_prior: Sequence[float] | str | None = None,
        detector: str = "combined",
        rejection_rate: float = 0.05,
        risk: float | None = None,
        risk_confidence: float | None = None,
        rejected_label: Any = None,
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.structure = structure
        self.time_budget = time_budget
        self.structure_options = structure_options
        self.image_shape = image_shape
        self.n_sums = n_sums
        self.depth = depth
        self.n_repetitions = n_repetitions
        self.n_circuits = n_circuits
        self.leaf = leaf
        self.cross_entropy_weight = cross_entropy_weight
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.training_dropout = training_dropout
        self.leaf_dropout = leaf_dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.calibrate_by_class = calibrate_by_class
        self.doubt = doubt
        self.dropout = dropout
        self.masks = masks
        self.leaf_variance = leaf_variance
        self.posterior = posterior
        self.class_prior = class_prior
        self.detector = detector
        self.rejection_rate = rejection_rate
        self.risk = risk
        self.risk_confidence = risk_confidence
        self.rejected_label = rejected_label
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CircuitClassifier:  # noqa: N803
        """Train, choose how much to doubt, and calibrate.

        Parameters
        ----------
        X : array or data frame (N, V)
            Numbers, booleans, text and categories; NaN, None and masked cells are missing.
        y : array (N,)
            Class labels of any kind.
        sample_weight : array (N,), optional
            A row of weight 2 is trained on as two rows would be, one of weight 0 not at all. Held out, and to a forest,
            it is a single draw that stands for two.

        Warns
        -----
        CalibrationWarning
            If too few rows can be held out to keep ``rejection_rate``; ``calibrated_`` is False then. Or if no
            row can be answered at the chosen ``risk``.
        """
        raw, weight = self._check_rows(X, sample_weight)
        self._check_forest()
        if self.posterior == "log-moments" and self.doubt == DROPOUT and self.structure_ in LEARNED:
            raise ValueError(
                f"posterior='log-moments' is not for doubt='dropout' with structure={self.structure_!r}; use "
                "'one-pass', 'auto' or 'monte-carlo'"
            )
        y = check_labels(y)
        check_consistent_length(X, y)
        labels = self._encode_classes(y, weight)
        rng = self._generator()
        prepared = self._prepare(raw, labels, weight)
        self._compare_structures(prepared, rng)
        folds = self._folds(prepared, rng)
        held_out = self.calibration_fraction if folds is None else 0.0
        parts = self._divide(prepared, rng, calibration=held_out, reference=self._REFERENCE)
        if folds is None:
            self._fit_parts(parts, rng)
        else:
            with threads(self.n_jobs):
                self._train(parts, rng)
                self._cross_fit(parts.train, prepared, folds, rng)
        self._warn_unless_kept()
        return self

    def _fit_parts(self, parts: Parts, rng: np.random.Generator) -> None:
        with threads(self.n_jobs):
            self._train(parts, rng)
            self._calibrate(parts, rng)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.time_budget > 0.0 and self.structure != AUTO:
            raise ValueError(
                f"time_budget={self.time_budget!r} is for structure='auto', which spends it on trying structures; got "
                f"structure={self.structure!r}: set one of the two to its default"
            )

    def _compare_structures(self, prepared: Prepared, rng: np.random.Generator) -> None:
        """Let held-out rows choose the structure, if there is time for it and no argument decides."""
        if self.time_budget == 0.0 or self.structure_ != self._UNTRAINED:
            return
        apart = rng.spawn(1)[0]  # so that the model is the one that asking for its structure gives

        def fit(model: CircuitClassifier, parts: Parts) -> None:
            model.classes_ = self.classes_
            model._train(parts, apart)

        with threads(self.n_jobs):
            self.structure_, self.structure_reason_ = compare_structures(self, prepared, apart, fit)

    def _check_forest(self) -> None:
        """Raise unless what is in doubt is something that a forest has."""
        if self.structure_ != FOREST:
            return
        if self.doubt == DROPOUT:
            raise ValueError(NO_DROPOUT)
        if self.leaf_variance:
            raise ValueError(
                f"leaf_variance is for circuits, and structure='forest' asks the cells of trees; got "
                f"{self.leaf_variance!r}: use structure='random', or set it to 0"
            )

    def _train(self, parts: Parts, rng: np.random.Generator) -> None:
        self._set_prior(parts.source)
        seed = int(rng.integers(2**31 - 1))

        def trainer(job: Training) -> History:
            return train_by_gradient(
                job,
                self,
                self._log_prior(job.circuit),
                cross_entropy_weight=self.cross_entropy_weight,
                dropout=self.training_dropout,
                leaf_dropout=self.leaf_dropout,
                patience=self.early_stopping,
            )

        def fit(member: Member) -> Fitted:
            return fit_circuit(self, self.table_, len(self.classes_), parts, trainer, member)

        circuits, self.history_ = fit_members(self, seed, fit)
        self._set_circuits(circuits)
        if self.structure_ == FOREST:
            self.forest_ = fit_forest(self.table_, parts.train, len(self.classes_), seed, self.n_jobs)
        self.n_iter_ = len(self.history_.epochs)

    def _cross_fit(self, train: Rows, prepared: Prepared, folds: np.ndarray, rng: np.random.Generator) -> None:
        """Compare with all rows, each by a model of the other folds; what they choose on average is chosen."""

        def fit(model: CircuitClassifier, parts: Parts) -> None:
            model.classes_ = self.classes_
            model._train(parts, rng)
            model._weigh_scores(parts, rng)
            model.n_calibration_ = 0

        fitted = list(fit_folds(self, prepared, folds, rng, fit, reference=0.25))
        self.folds_ = tuple(fold.model for fold in fitted)
        self._start_doubt(train)
        self.dropout_ = median_low(model.dropout_ for model in self.folds_)
        self._temper(median_low(model.weight_posterior_.worth for model in self.folds_))
        self._fit_profiles(train, rng)
        self._expect(train.x, self._scores_of, rng)
        answers = [model._answer_encoded(rows.x) for model, rows, _ in fitted]
        rows = Rows.concatenate([fold.rows for fold in fitted])
        scores = [answer.uncertainty.scores() for answer in answers]
        self.detector_ = share_detector(self.detector, self.folds_, scores, rows.weight.double().numpy())
        (places,) = np.nonzero(folds < 0)
        alone = Rows(
            torch.empty(len(places), rows.x.shape[1]),
            torch.as_tensor(prepared.labels[places]),
            torch.as_tensor(prepared.weight[places], dtype=torch.float32),
        )
        self.n_calibration_ = len(rows) + len(alone)
        twins = prepared.twin[np.concatenate([fold.places for fold in fitted])]
        self._compare_with(self.folds_, answers, rows, alone, rng, twins)
        self._count_errors(self.folds_, answers, rows)
        self.familiar_ = familiar_surprises(fitted)

    def _judge_folds(self, x: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for fold in self.folds_:
            rows = fold._reread(x)
            answer = fold._answer_alone(rows)
            score = self._on_one_level(fold._unusualness_of(answer), x, fold._unseen(rows))
            found.append((score, answer.probabilities))
        return found

    def _shifts(self, x: Tensor, rng: np.random.Generator) -> list[Tensor]:
        continuous = np.array([column.family.real for column in self.table_.columns])
        return [torch.as_tensor(shifted) for shifted in synthetic_shifts(known(x).double().numpy(), continuous, rng)]
