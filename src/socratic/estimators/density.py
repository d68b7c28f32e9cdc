"""A density of a table: exact log-likelihoods, and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.estimators.building import Training, check_structure, fit_circuit, threads
from socratic.estimators.generative import GenerativeMixin
from socratic.estimators.learned import LEARNED
from socratic.estimators.preparation import Parts, Split, prepare, split_rows
from socratic.estimators.settings import check_settings
from socratic.families import LeafName
from socratic.learning.em import fit_em
from socratic.learning.gradient import fit_gradient
from socratic.learning.settings import History, TrainingSettings
from socratic.tables.columns import Table
from socratic.tables.inputs import check_columns, check_weights, encode_rows


class CircuitDensity(GenerativeMixin, DensityMixin, BaseEstimator):
    """Probabilistic circuit density.

    Parameters
    ----------
    structure : {"random", "spatial", "learnspn", "chow-liu"}
        Where the circuit comes from, as in :class:`~socratic.estimators.classifier.CircuitClassifier`. Learned
        structures ("learnspn", "chow-liu") are not trained: sizes, optimiser and validation do not apply.
    image_shape : (height, width) or (height, width, channels), optional
        Of the rows, for "spatial".
    n_sums, depth, n_repetitions : int or "auto"
        Size of the circuit, by default chosen by the size of the data.
    leaf : mapping of column name to family, optional
        Overrides the leaf family chosen for a column.
    optimiser : {"em", "adam"}
        Expectation maximisation, or gradient steps.
    n_epochs, batch_size : int or "auto"
    learning_rate : float
        Of Adam.
    validation_fraction : float or "auto"
        Share of rows held out to stop on; by default a tenth.
    checkpoint : path, optional
        File from which an interrupted ``fit`` with Adam resumes.
    verbose : bool
    n_jobs : int or None
    random_state : int, RandomState or None
    device : str
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CircuitDensity:  # noqa: ARG002, N803
        """Learn the distribution of the rows of ``X``."""
        check_settings(self)
        raw = check_columns(self, X, reset=True)
        weight = check_weights(sample_weight, X)
        check_structure(self, weight)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        prepared = prepare(raw, np.zeros(len(weight), dtype=np.int64), weight, self.leaf)
        self.table_, parts = prepared.divide(split_density(self, prepared.labels, 0.0, rng))
        with threads(self.n_jobs):
            self.circuit_, self.history_ = fit_density(self, self.table_, parts, int(rng.integers(2**31 - 1)))
        self.n_iter_ = len(self.history_.epochs)
        return self

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """log p(x) of each row, in the units of the data: (N,)."""
        check_is_fitted(self)
        return log_density(self.circuit_, self.table_, encode_rows(self, X))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002, N803
        """Mean log p(x)."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw rows; a data frame if it was fitted on one.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None
        """
        return self._sample(n_samples, random_state)[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def split_density(settings: Any, labels: np.ndarray, calibration_fraction: float, rng: np.random.Generator) -> Split:
    """Hold rows out as the attributes of ``settings`` say, none to stop on if nothing is trained."""
    fraction = settings.validation_fraction
    if settings.structure in LEARNED:
        fraction = 0.0
    elif fraction == "auto":
        fraction = 0.1
    return split_rows(labels, float(fraction), float(calibration_fraction), rng)


def fit_density(settings: Any, table: Table, parts: Parts, seed: int) -> tuple[Circuit | Graph, History]:
    """A circuit of one class as the attributes of ``settings`` say (a density's or outlier detector's)."""

    def trainer(job: Training) -> History:
        circuit, train, validation, sizes, progress = job
        if settings.optimiser == "em":
            return fit_em(circuit, train, n_epochs=sizes.n_epochs, validation=validation, progress=progress)
        training = TrainingSettings(
            n_epochs=sizes.n_epochs,
            batch_size=sizes.batch_size,
            learning_rate=settings.learning_rate,
            cross_entropy_weight=0.0,
            patience=None if validation is None else 15,
            seed=seed,
        )
        return fit_gradient(
            circuit,
            train,
            training,
            torch.zeros(1, device=circuit.device),
            validation=validation,
            checkpoint=None if settings.checkpoint is None else Path(settings.checkpoint),
            progress=progress,
        )

    return fit_circuit(settings, table, 1, parts.train, parts.validation, trainer, seed)


@torch.no_grad()
def log_density(circuit: Circuit | Graph, table: Table, x: torch.Tensor) -> np.ndarray:
    """log p(x) in the units of the data, of encoded rows and a circuit of one class."""
    values = circuit.log_likelihood(x).squeeze(1).double().cpu().numpy()
    observed = ~np.isnan(x.double().cpu().numpy())
    return values - observed @ table.log_scale
