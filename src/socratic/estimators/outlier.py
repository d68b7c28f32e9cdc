"""An outlier detector whose share of false alarms is calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.estimators.choosing import choose_structure
from socratic.estimators.crossing import familiar_surprises, fit_folds
from socratic.estimators.density import DensityBase
from socratic.estimators.explaining import Judged
from socratic.estimators.learned import KERNELS
from socratic.estimators.preparation import Parts, Prepared
from socratic.estimators.rejection import RejectingEstimator
from socratic.families import LeafName
from socratic.learning.structure import divided_kernels, least_typical
from socratic.tables.columns import fit_table
from socratic.tables.inputs import known
from socratic.tables.raw import RawTable
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.conformal import Conformal, over_folds
from socratic.uncertainty.scores import Scores


class CircuitOutlierDetector(OutlierMixin, RejectingEstimator, DensityBase):
    """Outlier detection by the density of a probabilistic circuit.

    {parameters}

    Attributes
    ----------
    offset_ : float
        The value of ``score_samples`` below which rows are outliers.
    conformal_ : Conformal
        The scores of the calibration rows.
    divided_ : Circuit or None
        With kernels: those of parts of the rows, a root each, whose mean log-likelihood rows are judged by. Outliers
        among the training rows count for little in it.
    folds_ : tuple of CircuitOutlierDetector
        With few rows: models that were each trained without a part of them, which they are compared with.
    calibrated_ : bool
        Whether there were enough calibration rows to keep ``rejection_rate``.
    n_calibration_ : int
        How many there were.
    structure_ : str
        The structure it has, which ``structure="auto"`` leaves open.
    structure_reason_ : str
        Why it is that one.
    circuit_ : Circuit or Graph
        Of one class.
    table_ : Table
        How columns are encoded.
    weight_posterior_ : WeightPosterior
        The distribution of its weights that the training rows leave.
    familiar_ : FamiliarSurprises
        Of familiar rows, which ``explain`` compares with.
    history_ : History
        Losses of each epoch; of several circuits, one after the other, each from epoch 0 on.
    n_iter_ : int
        Epochs, of all circuits.
    """

    conformal_: Conformal
    divided_: Circuit | None = None

    def __init__(
        self,
        *,
        rejection_rate: float = 0.05,
        training_outliers: float = 0.0,
        calibration_fraction: float = 0.2,
        structure: str = "auto",
        structure_options: Mapping[str, Any] | None = None,
        image_shape: Sequence[int] | None = None,
        n_sums: int | str = "auto",
        depth: int | str = "auto",
        n_repetitions: int | str = "auto",
        n_circuits: int = 1,
        leaf: Mapping[str, LeafName] | None = None,
        optimiser: str = "em",
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.05,
        learning_rate_schedule: str = "cosine",
        validation_fraction: float | str = "auto",
        doubt: str = "weights",
        dropout: float = 0.1,
        masks: str = "edge",
        leaf_variance: float | Mapping[str, float] = 0.0,
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.rejection_rate = rejection_rate
        self.training_outliers = training_outliers
        self.calibration_fraction = calibration_fraction
        self.structure = structure
        self.structure_options = structure_options
        self.image_shape = image_shape
        self.n_sums = n_sums
        self.depth = depth
        self.n_repetitions = n_repetitions
        self.n_circuits = n_circuits
        self.leaf = leaf
        self.optimiser = optimiser
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.validation_fraction = validation_fraction
        self.doubt = doubt
        self.dropout = dropout
        self.masks = masks
        self.leaf_variance = leaf_variance
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitOutlierDetector:  # noqa: ARG002, N803
        """Learn the density of familiar rows, and where its lowest values lie.

        A ``CalibrationWarning`` says if too few rows can be held out to keep ``rejection_rate``.
        """
        raw, weight = self._check_rows(X, sample_weight)
        rng = self._generator()
        if self.training_outliers > 0.0:
            weight = self._without_outliers(raw, weight, rng)
        prepared = self._prepare(raw, np.zeros(len(weight), dtype=np.int64), weight)
        folds = self._folds(prepared, rng)
        parts = self._divide(prepared, rng, calibration=self.calibration_fraction if folds is None else 0.0)
        if folds is None:
            self._fit_parts(parts, rng)
        else:
            self._fit_density(parts, rng)
            self._cross_fit(prepared, folds, rng)
        self._warn_unless_calibrated()
        return self

    def _fit_parts(self, parts: Parts, rng: np.random.Generator) -> None:
        self._fit_density(parts, rng)
        self._calibrate(parts, rng)

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """How familiar rows are, as p-values compare them: (N,), lower is more unusual.

        This is log p(x), in nats, without the units of the data, as if no cell were missing, and rounded to the grid
        that p-values compare on; with few rows the mean of that over ``folds_``. What the model says of p(x) itself is
        in :meth:`uncertainty`.
        """
        check_is_fitted(self)
        return -np.concatenate([over_folds(self._unusualness(x)) for x in self._batches(X)])

    @property
    def offset_(self) -> float:
        """The value of :meth:`score_samples` below which rows are outliers, at the present ``rejection_rate``."""
        return -self.conformal_.threshold(self._rate())

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """``score_samples(X) - offset_``: by how many nats rows are familiar enough; negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """1 for familiar rows, -1 for outliers; warns if the model is not ``calibrated_``."""
        labels = np.where(self.decision_function(X) < 0, -1, 1)
        self._warn_unless_calibrated()
        return labels

    def p_value(self, X: Any) -> np.ndarray:  # noqa: N803
        """Share of familiar rows that are at least as unusual."""
        check_is_fitted(self)
        return np.concatenate([self.judge_rows(x).p_value for x in self._batches(X)])

    def judge_rows(self, x: Tensor) -> Judgement:
        """How familiar rows (N, V) are, as the circuit reads them."""
        scores = self._unusualness(x)
        return Judgement(scores, self.conformal_.p_value(over_folds(scores)))

    def _calibrate(self, parts: Parts, rng: np.random.Generator) -> None:
        """Compare with rows that were held out; with the training rows if those are few."""
        self.folds_ = ()
        self.n_calibration_ = len(parts.calibration)
        rows = parts.calibration if self.n_calibration_ else parts.train
        self._expect(rows.x, self._scores, rng)
        scores = self._unlikeliness(rows.x)
        self._fit_levels([Judged.by(self._unlikeliness, rows, scores)], rng)
        compared = self._on_one_level(scores, rows.x, self._unseen(rows.x))
        self.conformal_ = Conformal.fit(compared, rows.weight.double().numpy())
        self._remember(rows)

    def _cross_fit(self, prepared: Prepared, folds: np.ndarray, rng: np.random.Generator) -> None:
        """Compare with all rows, each by a model of the other folds."""
        self.folds_ = ()

        def fit(model: CircuitOutlierDetector, parts: Parts) -> None:
            model._fit_density(parts, rng)
            model._expect(parts.train.x, model._scores, rng)
            model.n_calibration_, model.conformal_ = 0, Conformal.fit([])

        fitted = list(fit_folds(self, prepared, folds, rng, fit, reference=0.0))
        judged = [Judged.by(model._unlikeliness, rows, model._unlikeliness(rows.x)) for model, rows, _ in fitted]
        self._fit_levels(judged, rng)
        scores = [
            self._on_one_level(part.scores, part.x, fold.model._unseen(part.x))
            for fold, part in zip(fitted, judged, strict=True)
        ]
        weight = torch.cat([fold.rows.weight for fold in fitted]).double().numpy()
        numbers = np.repeat(np.arange(len(scores)), list(map(len, scores)))
        twins = prepared.twin[np.concatenate([fold.places for fold in fitted])]
        self.conformal_ = Conformal.fit(np.concatenate(scores), weight, numbers, twins)
        self.n_calibration_ = len(weight)
        self.familiar_ = familiar_surprises(fitted)
        self.folds_ = tuple(fold.model for fold in fitted)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.training_outliers > 0.0 and choose_structure(self, KERNELS).structure != KERNELS:
            raise ValueError(
                f"training_outliers={self.training_outliers!r} is for structure='kernels', which outliers in the "
                "training rows cannot bend; leave the structure, and what is for trained circuits, at their defaults, "
                "or set it to 0"
            )

    def _without_outliers(self, raw: RawTable, weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The weights (N,) of rows, 0 for the share of them that looks least like the others."""
        table = fit_table(raw, weight > 0, self.leaf)
        codes = table.read(raw).codes
        x = table.standardised(codes[weight > 0], weight[weight > 0]).scale(codes)
        x = np.where(np.isinf(x), np.nan, x)
        seed = int(rng.integers(2**31 - 1))
        return np.where(least_typical(x, table.families, weight, self.training_outliers, seed=seed), 0.0, weight)

    def _fit_density(self, parts: Parts, rng: np.random.Generator) -> None:
        super()._fit_density(parts, rng)
        self.divided_ = None
        if self._structure() == KERNELS:
            train, seed = parts.train, int(rng.integers(2**31 - 1))
            x, weight = train.x.double().numpy(), train.weight.double().numpy()
            circuit = divided_kernels(x, self.table_.families, weight, seed=seed)
            self.divided_ = circuit.to(self.circuit_.device, self.circuit_.dtype)

    @torch.no_grad()
    def _log_joint_judged(self, x: Tensor) -> Tensor:
        """The log-likelihood (n, 1) that rows are judged by: the mean over parts of the rows, where there are some."""
        if self.divided_ is None:
            return self._log_joint(x)
        return self.divided_.log_likelihood(known(x)).mean(1, keepdim=True)

    def _unusualness(self, x: Tensor) -> np.ndarray:
        """How unusual rows (n, V) are, as the circuit reads them: (K, n), by each fold or by the one model there is."""
        judged = [(fold, fold._reread(x)) for fold in self.folds_] or [(self, x)]
        return np.stack(
            [self._on_one_level(model._unlikeliness(rows), x, model._unseen(rows)) for model, rows in judged]
        )

    def _unlikeliness(self, x: Tensor) -> np.ndarray:
        """The same (n,) by this circuit alone, not yet on one level."""
        parts = [self._scores(part)["log_likelihood"] for part in self._read_in_batches(x)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _scores(self, x: Tensor) -> Scores:
        return self._comparable({"log_likelihood": -self._log_density(x, self._log_joint_judged(x))}, x, self._scores)

    def _conformal(self) -> Conformal:
        return self.conformal_
