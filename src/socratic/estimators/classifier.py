"""A classifier that says when it does not know."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_rate
from socratic.estimators.building import Training, check_structure, fit_circuit, threads
from socratic.estimators.generative import LabelledGenerativeMixin
from socratic.estimators.learned import LEARNED
from socratic.estimators.posterior import circuit_posterior
from socratic.estimators.preparation import Parts, Split, prepare, split_rows
from socratic.estimators.rejection import RejectionMixin
from socratic.estimators.settings import check_settings
from socratic.families import LeafName
from socratic.inference.posterior import Posterior, class_shares
from socratic.learning.gradient import fit_gradient
from socratic.learning.settings import History, Rows, TrainingSettings
from socratic.tables.inputs import check_columns, check_labels, check_weights, encode_rows
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.detector import fit_detector
from socratic.uncertainty.rates import choose_rate
from socratic.uncertainty.synthetic import synthetic_shifts


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """What a classifier knows and does not know of each row.

    Attributes
    ----------
    mean, std : ndarray (N, C)
        Mean and standard deviation of the class probabilities over dropout masks.
    entropy : ndarray (N,)
        Entropy of the mean, in nats.
    mutual_information : ndarray (N,)
        The part of the entropy that is the model's own doubt.
    log_likelihood : ndarray (N,)
        log p(x).
    p_value : ndarray (N,)
        Share of familiar rows that are at least as unusual; small for unfamiliar rows.
    """

    mean: np.ndarray
    std: np.ndarray
    entropy: np.ndarray
    mutual_information: np.ndarray
    log_likelihood: np.ndarray
    p_value: np.ndarray


class CircuitClassifier(RejectionMixin, LabelledGenerativeMixin, ClassifierMixin, BaseEstimator):
    """Probabilistic circuit classifier with exact dropout uncertainty and calibrated rejection.

    Parameters
    ----------
    structure : {"random", "spatial", "learnspn", "chow-liu"}
        Where the circuit comes from: random trees, trees over the pixels of images, LearnSPN, or
        Chow-Liu trees of discrete columns. The last two come with their parameters: what sizes or trains a circuit
        does not apply to them.
    image_shape : (height, width) or (height, width, channels), optional
        Of the rows, for "spatial"; columns are numbered channel by channel. By default a square.
    n_sums, depth, n_repetitions : int or "auto"
        Size of the circuit: sums per region, random splits, random trees. By default chosen by the size of the data.
    leaf : mapping of column name to family, optional
        Overrides the leaf family chosen for a column, by name (``"binomial"``) or with settings (``Binomial(20)``).
    cross_entropy_weight : float
        1 trains the class posterior alone, 0 the likelihood alone (the lambda of the RAT-SPN paper).
    n_epochs, batch_size : int or "auto"
    learning_rate : float
        Peak learning rate of Adam; it warms up and decays.
    training_dropout, leaf_dropout : float
        Dropout in training, on sums and on univariate leaves.
    early_stopping : int or None
        Epochs without a better validation loss after which training stops; None: never.
    validation_fraction : float or "auto"
        Share of rows held out to keep the best epoch; by default a tenth from 2,000 rows on.
    calibration_fraction : float
        Share of rows held out to calibrate rejection.
    dropout : float or "auto"
        Dropout rate of the uncertainty. "auto" takes the largest of some rates whose mean posterior has a log-loss on
        held-out rows within one standard error of the best rate's.
    masks : {"edge", "unit"}
    posterior : {"expansion", "auto", "log-moments", "monte-carlo"}
        How the uncertainty is computed: see :func:`~socratic.dropout_posterior`. "auto" is closer to the truth and
        slower, and no better at telling strange rows apart.
    class_prior : array (C,), "uniform" or None
        Class probabilities, in the order of ``classes_``; None takes the frequencies of the training rows.
    detector : {"combined", "log_likelihood", "entropy"}
        The score that rejection is based on.
    rejection_rate : float
        Share of familiar rows that ``reject`` refuses, at most.
    rejected_label : object
        What ``predict_or_reject`` answers for refused rows.
    checkpoint : path, optional
        File from which an interrupted ``fit`` resumes.
    verbose : bool
        Show a progress bar.
    n_jobs : int or None
        Threads, as in scikit-learn.
    random_state : int, RandomState or None
    device : str
        "auto", "cpu", "cuda", ...
    """

    def __init__(
        self,
        *,
        structure: str = "random",
        image_shape: Sequence[int] | None = None,
        n_sums: int | str = "auto",
        depth: int | str = "auto",
        n_repetitions: int | str = "auto",
        leaf: Mapping[str, LeafName] | None = None,
        cross_entropy_weight: float = 1.0,
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.08,
        training_dropout: float = 0.2,
        leaf_dropout: float = 0.2,
        early_stopping: int | None = 15,
        validation_fraction: float | str = "auto",
        calibration_fraction: float = 0.2,
        dropout: float | str = "auto",
        masks: str = "edge",
        posterior: str = "expansion",
        class_prior: Sequence[float] | str | None = None,
        detector: str = "combined",
        rejection_rate: float = 0.05,
        rejected_label: Any = None,
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.structure = structure
        self.image_shape = image_shape
        self.n_sums = n_sums
        self.depth = depth
        self.n_repetitions = n_repetitions
        self.leaf = leaf
        self.cross_entropy_weight = cross_entropy_weight
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training_dropout = training_dropout
        self.leaf_dropout = leaf_dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.dropout = dropout
        self.masks = masks
        self.posterior = posterior
        self.class_prior = class_prior
        self.detector = detector
        self.rejection_rate = rejection_rate
        self.rejected_label = rejected_label
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CircuitClassifier:  # noqa: N803
        """Train, choose the dropout rate, and calibrate.

        Parameters
        ----------
        X : array or data frame (N, V)
            Numbers, booleans, text and categories; NaN and None are missing.
        y : array (N,)
            Class labels of any kind.
        sample_weight : array (N,), optional
            A row of weight 2 is trained on as two rows would be, one of weight 0 not at all. Held out, it is a single
            draw that stands for two.

        Warns
        -----
        CalibrationWarning
            If too few rows can be held out to keep ``rejection_rate``; ``calibrated_`` is False then.
        """
        check_settings(self)
        raw = check_columns(self, X, reset=True)
        y = check_labels(y)
        check_consistent_length(X, y)
        weight = check_weights(sample_weight, X)
        check_structure(self, weight)
        if self.posterior == "log-moments" and self.structure in LEARNED:
            raise ValueError(
                f"posterior='log-moments' is not for structure={self.structure!r}; use 'expansion', 'auto' or "
                "'monte-carlo'"
            )
        self.classes_, labels = np.unique(y[weight > 0], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present; got {self.classes_[0]!r} alone")
        codes_of = np.zeros(len(weight), dtype=np.int64)
        codes_of[weight > 0] = labels
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        prepared = prepare(raw, codes_of, weight, self.leaf)
        self.table_, parts = prepared.divide(self._split(prepared.labels, rng))
        with threads(self.n_jobs):
            self._train(parts, seed=int(rng.integers(2**31 - 1)))
            self._calibrate(parts, rng)
        self._warn_unless_calibrated()
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Class probabilities p(class | x): (N, C)."""
        values = self._log_joint(self._encoded(X))
        return class_shares(values, self._log_prior(self.circuit_)).double().cpu().numpy()

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most probable class of each row: (N,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """log p(x) of each row, in the units of the data: (N,)."""
        return self._density(self._encoded(X))

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803
        """Everything the classifier can say of its doubt about each row."""
        return self._uncertainty(self._encoded(X))

    def reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """Which rows to refuse: (N,) booleans.

        At most ``rejection_rate`` of familiar rows are refused, if the model is ``calibrated_``; if it is not, this
        says so with a ``CalibrationWarning``.
        """
        rejected = self.uncertainty(X).p_value <= check_rate("rejection_rate", self.rejection_rate)
        self._warn_unless_calibrated()
        return rejected

    def predict_or_reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of :meth:`predict`, with ``rejected_label`` for refused rows."""
        labels = self.predict(X).astype(object)
        labels[self.reject(X)] = self.rejected_label
        return labels

    def describe_columns(self) -> list[str]:
        """One line for each column: its leaf family and encoding."""
        check_is_fitted(self)
        return [column.describe() for column in self.table_.columns]

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a file; :func:`socratic.load_classifier` reads it back."""
        from socratic.estimators.storage import save_classifier

        save_classifier(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = False
        return tags

    def _split(self, labels: np.ndarray, rng: np.random.Generator) -> Split:
        fraction = self.validation_fraction
        if isinstance(fraction, str):
            fraction = 0.1 if len(labels) >= 2000 and self.structure not in LEARNED else 0.0
        return split_rows(labels, float(fraction), float(self.calibration_fraction), rng)

    def _train(self, parts: Parts, seed: int) -> None:
        self.class_prior_ = self._prior(parts.train)

        def trainer(job: Training) -> History:
            settings = TrainingSettings(
                n_epochs=job.sizes.n_epochs,
                batch_size=job.sizes.batch_size,
                learning_rate=self.learning_rate,
                cross_entropy_weight=self.cross_entropy_weight,
                dropout=self.training_dropout,
                leaf_dropout=self.leaf_dropout,
                patience=None if job.validation is None else self.early_stopping,
                seed=seed,
            )
            checkpoint = None if self.checkpoint is None else Path(self.checkpoint)
            return fit_gradient(
                job.circuit,
                job.train,
                settings,
                self._log_prior(job.circuit),
                validation=job.validation,
                checkpoint=checkpoint,
                progress=job.progress,
            )

        self.circuit_, self.history_ = fit_circuit(
            self, self.table_, len(self.classes_), parts.train, parts.validation, trainer, seed
        )
        self.n_iter_ = len(self.history_.epochs)

    def _calibrate(self, parts: Parts, rng: np.random.Generator) -> None:
        """Choose the dropout rate on held-out rows and fit the detector; with too few rows, on the training rows."""
        self.n_calibration_ = len(parts.calibration)
        held_out = (parts.reference, parts.calibration)
        reference, calibration = held_out if self.n_calibration_ else (parts.train, parts.train)
        self.dropout_ = self._choose_dropout(parts.validation or reference or parts.train)
        x = reference.x.double().numpy()
        continuous = np.array([column.family.real for column in self.table_.columns])
        self.detector_ = fit_detector(
            self.detector,
            self._scores(x),
            [self._scores(shifted) for shifted in synthetic_shifts(x, continuous, rng)],
            self._scores(calibration.x),
            reference.weight.double().numpy(),
            calibration.weight.double().numpy(),
        )

    def _conformal(self) -> Conformal:
        return self.detector_.calibration

    def _choose_dropout(self, rows: Rows) -> float:
        if not isinstance(self.dropout, str):
            return float(self.dropout)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # rates that are too large are tried on purpose
            return choose_rate(
                lambda rate: self._posterior(rows.x, rate).mean.double().cpu().numpy(),
                rows.y.numpy(),
                rows.weight.double().numpy(),
            )

    def _prior(self, rows: Rows) -> np.ndarray:
        if self.class_prior is None:
            counts = np.bincount(rows.y.numpy(), weights=rows.weight.double().numpy(), minlength=len(self.classes_))
            return counts / counts.sum()
        if isinstance(self.class_prior, str):
            return np.full(len(self.classes_), 1.0 / len(self.classes_))
        prior = np.asarray(self.class_prior, dtype=np.float64)
        if prior.shape != self.classes_.shape or not (prior >= 0).all() or not abs(prior.sum() - 1.0) <= 1e-6:
            raise ValueError(
                f"class_prior must hold {len(self.classes_)} probabilities that sum to 1, in the order of the "
                f"classes {self.classes_.tolist()}; got {self.class_prior!r}"
            )
        return prior

    def _log_prior(self, circuit: Circuit | Graph) -> Tensor:
        return torch.as_tensor(np.log(self.class_prior_), dtype=circuit.dtype, device=circuit.device)

    def _encoded(self, X: Any) -> Tensor:  # noqa: N803
        check_is_fitted(self)
        return encode_rows(self, X)

    @torch.no_grad()
    def _log_joint(self, x: Tensor) -> Tensor:
        return self.circuit_.log_likelihood(x) + self._log_prior(self.circuit_)

    def _density(self, x: Tensor) -> np.ndarray:
        values = torch.logsumexp(self._log_joint(x), 1).double().cpu().numpy()
        observed = ~np.isnan(x.double().cpu().numpy())
        return values - observed @ self.table_.log_scale

    def _posterior(self, x: Tensor, dropout: float) -> Posterior:
        prior = self.class_prior_.tolist()
        return circuit_posterior(self.posterior, self.circuit_, x, dropout=dropout, masks=self.masks, class_prior=prior)

    def _scores(self, x: Any) -> dict[str, np.ndarray]:
        """Scores of encoded rows, each higher for more unusual rows."""
        rows = torch.as_tensor(np.asarray(x), dtype=self.circuit_.dtype, device=self.circuit_.device)
        entropy = self._posterior(rows, self.dropout_).entropy.double().cpu().numpy()
        return {"log_likelihood": -self._density(rows), "entropy": entropy}

    def _uncertainty(self, x: Tensor) -> Uncertainty:
        posterior = self._posterior(x, self.dropout_)
        density = self._density(x)

        def array(tensor: Tensor) -> np.ndarray:
            return tensor.double().cpu().numpy()

        scores = {"log_likelihood": -density, "entropy": array(posterior.entropy)}
        return Uncertainty(
            array(posterior.mean),
            array(posterior.std),
            scores["entropy"],
            array(posterior.mutual_information),
            density,
            self.detector_.p_value(scores),
        )
