"""A monitor of the rows that a model is given: an alarm when they are not like its calibration rows any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.estimators.explaining import ExplainingEstimator
from socratic.estimators.guard import CircuitGuard
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.estimators.rejection import RejectingEstimator
from socratic.estimators.tabular import TableEstimator
from socratic.memory import table_rows
from socratic.model_files import building, read_tensors, write_tensors
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.drift import Drift, DriftReport, draws

FORMAT = "socratic.monitor"
VERSION = 1


class DriftMonitor:
    """Watches the rows that a calibrated model is given, in their order, for a change.

    While these rows and the calibration rows of the model are exchangeable (drawn independently from one source, say),
    the probability that there is ever an alarm is at most ``rate``, however many rows come and whenever one looks. An
    alarm stays; make a new monitor when the model has been fitted again.

    Parameters
    ----------
    model : classifier, outlier detector or guard
        A fitted one, with calibration rows.
    rate : float
        The permitted probability of a false alarm.
    columns : bool, optional
        Whether to find out which columns, or regions of images, have changed: they have half of the rate, and take
        several times as long. By default those of tables.
    window : int
        Last rows that ``DriftReport.p_values`` are of.
    seed : int
        Decides how ties are broken.

    Attributes
    ----------
    notes : dict
        Plain data of whoever watches, as JSON can hold it, which is saved with the monitor.
    """

    def __init__(
        self, model: Any, *, rate: float = 0.01, columns: bool | None = None, window: int = 1000, seed: int = 0
    ) -> None:
        self.model = _checked(model)
        self.notes: dict[str, Any] = {}
        explained = _explained(model)
        self.columns = _watches_columns(explained, columns)
        calibration = _calibration(model)
        rng = np.random.default_rng([seed, 1])  # apart from the draws that break ties
        references = [
            draws(calibration.own[fold], calibration.weights[fold], rng)
            for fold in (calibration.folds == number for number in range(calibration.n_folds))
        ]
        surprises = {}
        if self.columns:
            familiar = explained.familiar_
            names = explained._compare(familiar.surprise[:0]).names
            # Surprises of cross-fitted models are by those of the folds, and new ones by the model of all rows.
            comparable = np.empty((0, len(names))) if model.folds_ else familiar.surprise
            kept = draws(comparable, familiar.weights[: len(comparable)], rng)
            surprises = dict(zip(names, kept.T, strict=True))
        self._drift = Drift(references, surprises, rate=rate, window=window, seed=seed)

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with, beside the model."""
        drift = self._drift
        return {"rate": drift.rate, "columns": self.columns, "window": drift.window, "seed": drift.seed}

    @property
    def report(self) -> DriftReport:
        """What is known by now."""
        return self._drift.report()

    def update(self, X: Any) -> DriftReport:  # noqa: N803
        """Take in the rows of ``X``, which follow those before, and say what is known by now."""
        if isinstance(self.model, CircuitGuard):
            explained = self.model.density_
            surprises = explained._surprises(explained._batches(X)) if self.columns else None
            return self.update_judged(self.model.judge(X), surprises)
        for x in self.model._batches(X):
            self.update_rows(x)
        return self.report

    def update_rows(self, x: Tensor) -> DriftReport:
        """The same of rows (N, V) as the circuit of the model reads them."""
        for some in x.split(table_rows(x.shape[1])):
            surprises = self.model._surprises([some]) if self.columns else None
            self.update_judged(self.model.judge_rows(some), surprises)
        return self.report

    def update_judged(self, judgement: Judgement, surprises: np.ndarray | None = None) -> DriftReport:
        """The same of rows that the model has judged, which saves doing it again.

        Parameters
        ----------
        judgement : Judgement
            What ``judge_rows`` of the model says of N rows, or ``judge`` of a guard.
        surprises : np.ndarray (N, V), optional
            Of their columns; only if these are watched.
        """
        # Those of familiar rows are kept in this type.
        with np.errstate(over="ignore"):  # what is too large for it is infinite
            rounded = None if surprises is None else surprises.astype(np.float32)
        self._drift.add(judgement, rounded, self.model._rate())
        return self.report

    def save(self, path: str | Path) -> None:
        """Write to a file what :meth:`load` goes on from."""
        arrays, state = self._drift.to_state()
        tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
        config = {"settings": self.settings, "state": state, "notes": self.notes}
        write_tensors(Path(path), FORMAT, VERSION, tensors, config)

    @classmethod
    def load(cls, path: str | Path, model: Any) -> DriftMonitor:
        """Go on from a file that :meth:`save` wrote, with the model that it was made for."""
        tensors, config = read_tensors(Path(path), FORMAT, VERSION)
        with building(path, "a monitor of this model"):
            monitor = cls(model, **config["settings"])
            monitor._drift.restore({name: tensor.numpy() for name, tensor in tensors.items()}, config["state"])
            monitor.notes = dict(config["notes"])
        return monitor


def _checked(model: Any) -> Any:
    """The model, or an error that says why its rows cannot be watched."""
    if not isinstance(model, RejectingEstimator):
        raise ValueError(
            f"model must be a classifier, an outlier detector or a guard, which compare rows with calibration rows; "
            f"got {type(model).__name__}"
        )
    check_is_fitted(model)
    if not model.n_calibration_:
        raise ValueError(
            "model must have calibration rows to compare others with; none were held out when this one was fitted: "
            "fit more rows, or with a calibration_fraction above 0"
        )
    return model


def _calibration(model: Any) -> Conformal:
    """The scores of a model's calibration rows, of all classes together."""
    found: Conformal = model.conformal_ if isinstance(model, CircuitOutlierDetector) else model.detector_.calibration
    return found


def _explained(model: Any) -> ExplainingEstimator:
    """What says how surprising the columns of rows are."""
    found: ExplainingEstimator = model.density_ if isinstance(model, CircuitGuard) else model
    return found


def _watches_columns(explained: ExplainingEstimator, wanted: bool | None) -> bool:
    known = hasattr(explained, "familiar_")
    if wanted and not known:
        raise ValueError("columns=True needs a model that keeps familiar rows to compare with; fit it again")
    return known and isinstance(explained, TableEstimator) if wanted is None else bool(wanted)
