"""An outlier detector whose share of false alarms is calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from socratic.estimators.building import check_structure, threads
from socratic.estimators.density import fit_density, log_density, split_density
from socratic.estimators.preparation import prepare
from socratic.estimators.rejection import RejectionMixin
from socratic.estimators.settings import check_settings
from socratic.families import LeafName
from socratic.tables.inputs import check_columns, check_weights, encode_rows
from socratic.uncertainty.conformal import Conformal


class CircuitOutlierDetector(RejectionMixin, OutlierMixin, BaseEstimator):
    """Outlier detection by the density of a probabilistic circuit.

    Parameters
    ----------
    rejection_rate : float
        Share of familiar rows that ``predict`` calls outliers, at most.
    calibration_fraction : float
        Share of rows held out to calibrate that.
    structure, image_shape
        See :class:`~socratic.estimators.density.CircuitDensity`.
    n_sums, depth, n_repetitions, leaf, optimiser, n_epochs, batch_size, learning_rate, validation_fraction
        See :class:`~socratic.estimators.density.CircuitDensity`.
    checkpoint, verbose, n_jobs, random_state, device
        See :class:`~socratic.estimators.density.CircuitDensity`.
    """

    def __init__(
        self,
        *,
        rejection_rate: float = 0.05,
        calibration_fraction: float = 0.2,
        structure: str = "random",
        image_shape: Sequence[int] | None = None,
        n_sums: int | str = "auto",
        depth: int | str = "auto",
        n_repetitions: int | str = "auto",
        leaf: Mapping[str, LeafName] | None = None,
        optimiser: str = "em",
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.05,
        validation_fraction: float | str = "auto",
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.rejection_rate = rejection_rate
        self.calibration_fraction = calibration_fraction
        self.structure = structure
        self.image_shape = image_shape
        self.n_sums = n_sums
        self.depth = depth
        self.n_repetitions = n_repetitions
        self.leaf = leaf
        self.optimiser = optimiser
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitOutlierDetector:  # noqa: ARG002, N803
        """Learn the density of familiar rows, and where its lowest values lie.

        A ``CalibrationWarning`` says if too few rows can be held out to keep ``rejection_rate``.
        """
        check_settings(self)
        raw = check_columns(self, X, reset=True)
        weight = check_weights(sample_weight, X)
        check_structure(self, weight)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        prepared = prepare(raw, np.zeros(len(weight), dtype=np.int64), weight, self.leaf)
        split = split_density(self, prepared.labels, self.calibration_fraction, rng)
        held = np.sort(np.concatenate([split.reference, split.calibration]))  # one score needs no reference
        self.table_, parts = prepared.divide(replace(split, reference=held[:0], calibration=held))
        self.n_calibration_ = len(held)
        with threads(self.n_jobs):
            self.circuit_, self.history_ = fit_density(self, self.table_, parts, int(rng.integers(2**31 - 1)))
            judged = parts.calibration if len(held) else parts.train
            scores = -log_density(self.circuit_, self.table_, judged.x.to(self.circuit_.device, self.circuit_.dtype))
        self.conformal_ = Conformal.fit(scores, judged.weight.double().numpy())
        self.offset_ = -self.conformal_.threshold(self.rejection_rate)
        self.n_iter_ = len(self.history_.epochs)
        self._warn_unless_calibrated()
        return self

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """log p(x) of each row: higher is more normal."""
        check_is_fitted(self)
        return log_density(self.circuit_, self.table_, encode_rows(self, X))

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """Negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """1 for familiar rows, -1 for outliers; warns if the model is not ``calibrated_``."""
        labels = np.where(self.decision_function(X) < 0, -1, 1)
        self._warn_unless_calibrated()
        return labels

    def p_value(self, X: Any) -> np.ndarray:  # noqa: N803
        """Share of familiar rows that are at least as unusual."""
        return self.conformal_.p_value(-self.score_samples(X))

    def _conformal(self) -> Conformal:
        return self.conformal_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
