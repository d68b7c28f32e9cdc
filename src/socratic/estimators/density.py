"""A density of a table: exact log-likelihoods, and samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.estimators.building import Training, fit_circuit, threads, train_by_gradient
from socratic.estimators.generative import GenerativeMixin
from socratic.estimators.learned import FOREST
from socratic.estimators.members import Fitted, Member, fit_members
from socratic.estimators.parameters import DENSITY_PARAMETERS
from socratic.estimators.posterior import Uncertain, dropout_of
from socratic.estimators.preparation import Parts
from socratic.estimators.tabular import TableEstimator
from socratic.families import LeafName
from socratic.learning.em import fit_em
from socratic.learning.settings import History
from socratic.tables.inputs import encode_cells, known
from socratic.uncertainty.answers import DensityUncertainty

_PATIENCE = 15
"""Epochs without a better validation loss after which gradient training stops."""


class DensityBase(TableEstimator):
    """An estimator around a circuit of one class."""

    _parameters: ClassVar = DENSITY_PARAMETERS
    _used_in_answers: ClassVar = ("doubt", "dropout", "masks", "leaf_variance")

    def uncertainty(self, X: Any) -> DensityUncertainty:  # noqa: N803
        """Mean and deviation of each row's p(x) over what is in doubt, and leaves as uncertain as ``leaf_variance``."""
        check_is_fitted(self)
        return self.uncertainty_rows(encode_cells(self, X))

    def uncertainty_rows(self, x: Tensor) -> DensityUncertainty:
        """The same of rows (N, V) as the circuit reads them."""
        moments = self._uncertain().moments(self.circuit_, known(x))
        return DensityUncertainty.of_moments(moments, self._log_density(x, self._log_joint(x)), self._log_volume(x))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.structure == FOREST:
            raise ValueError("structure='forest' is for classifiers; 'kernels' is what it knows rows by")

    def _fit_density(self, parts: Parts, rng: np.random.Generator) -> None:
        """Train ``circuit_`` on the rows of a table."""
        seed = int(rng.integers(2**31 - 1))

        def trainer(job: Training) -> History:
            if self.optimiser == "em":
                return fit_em(
                    job.circuit,
                    job.train,
                    sample=parts.train.to(job.circuit.device),
                    n_epochs=job.sizes.n_epochs,
                    batch_size=job.sizes.batch_size,
                    seed=job.member.seed,
                    validation=job.validation,
                    progress=job.progress,
                )
            log_prior = self._log_prior(job.circuit)
            return train_by_gradient(job, self, log_prior, patience=_PATIENCE, cross_entropy_weight=0.0)

        def fit(member: Member) -> Fitted:
            return fit_circuit(self, self.table_, 1, parts, trainer, member)

        with threads(self.n_jobs):
            circuits, self.history_ = fit_members(self, seed, fit)
        self._set_circuits(circuits)
        self.n_iter_ = len(self.history_.epochs)
        self._count_visits(parts.source)

    def _uncertain(self) -> Uncertain:
        """What is uncertain about the circuit."""
        dropped = None if self._doubts_weights() else dropout_of(self.circuit_, self.dropout, self.masks)
        return Uncertain(dropped or self.weight_posterior_, self._leaf_variance())


class CircuitDensity(GenerativeMixin, DensityMixin, DensityBase):
    """Probabilistic circuit density.

    {parameters}

    Attributes
    ----------
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

    def __init__(
        self,
        *,
        structure: str = "hidden-chow-liu",
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

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
        validation: Any = None,
    ) -> CircuitDensity:
        """Learn the distribution of the rows of ``X``.

        Parameters
        ----------
        X : array or data frame (N, V)
        y : ignored
        sample_weight : array (N,), optional
        validation : array or data frame (M, V), optional
            Rows to keep the best epoch by, in place of the share ``validation_fraction`` of ``X``: all of ``X`` is then
            trained on.
        """
        raw, weight = self._check_rows(X, sample_weight)
        rng = self._generator()
        prepared = self._prepare(raw, np.zeros(len(weight), dtype=np.int64), weight)
        parts = self._divide(prepared, rng, validated=validation is not None)
        if validation is not None:
            parts = replace(parts, validation=self._given_rows(validation))
        self._fit_parts(parts, rng)
        return self

    def _fit_parts(self, parts: Parts, rng: np.random.Generator) -> None:
        self._fit_density(parts, rng)
        self._remember(parts.train)

    def bits_per_dimension(self, X: Any) -> float:  # noqa: N803
        """Mean -log2 p(x) for each value that is known: what it takes to store one, in bits. Lower is better."""
        n_known = sum(int((~x.isnan()).sum()) for x in self._batches(X))
        return float(-self.score_samples(X).sum() / (n_known * math.log(2.0)))

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
