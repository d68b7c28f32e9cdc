"""What every estimator shares: checked arguments and model files; a circuit, its rows and their densities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count
from socratic.estimators.members import Circuits, as_one
from socratic.estimators.parameters import PARAMETERS, Parameter, check_parameters, described
from socratic.estimators.posterior import DOUBTS, DROPOUT
from socratic.inference.kinds import engine_of
from socratic.inference.weight_posterior import WeightPosterior
from socratic.learning.settings import History
from socratic.tables.inputs import known
from socratic.workers import Workers


class SocraticEstimator(BaseEstimator, ABC):
    """A scikit-learn estimator with checked arguments and a file format.

    Where a subclass's docstring says ``{parameters}``, its constructor's arguments are described.
    """

    _parameters: ClassVar[Mapping[str, Parameter]] = PARAMETERS
    """What the constructor's arguments are, by name."""
    _used_in_answers: ClassVar[tuple[str, ...]] = ()
    """Those that a fitted estimator still reads."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and cls.__doc__:  # python -OO strips docstrings
            cls.__doc__ = described(cls, cls._parameters)

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a file; :func:`socratic.load` reads it back."""
        from socratic.estimators.storage import save_estimator

        check_is_fitted(self)
        save_estimator(self, path)

    def _stored(self) -> dict[str, Any]:
        """What ``fit`` set, by name, as far as a model file has to hold it."""
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def _restore(self) -> None:
        """Make what a model file held what ``fit`` set."""

    def _check_fitted(self) -> None:
        """Raise ``ValueError`` unless the parts that a model file gave an estimator fit together."""
        for name in self._used_in_answers:
            self._parameters[name].check(name, getattr(self, name))

    def _check_parameters(self) -> None:
        check_parameters(self, self._parameters)

    def _generator(self) -> np.random.Generator:
        """The source of everything random in ``fit``, the same in all processes that train together."""
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return np.random.default_rng(Workers.present().of_first(seed))


class CircuitEstimator(SocraticEstimator):
    """An estimator around a circuit.

    A subclass says how its data become rows of the circuit, by :meth:`_batches` and :meth:`_log_volume`.
    """

    structure: str
    doubt: str
    masks: str
    leaf_variance: float | Mapping[str, float]
    circuit_: Circuit | Graph
    weight_posterior_: WeightPosterior
    history_: History
    n_iter_: int

    def score_samples(self, X: Any) -> np.ndarray:  # noqa: N803
        """log p(x) of each row, in the units of the data: (N,)."""
        check_is_fitted(self)
        return np.concatenate([self._log_density(x, self._log_joint(x)) for x in self._batches(X)])

    @abstractmethod
    def _batches(self, X: Any) -> Iterator[Tensor]:  # noqa: N803
        """The data as rows (n, V) that the circuit reads, in its type and on its device, some at a time."""

    @abstractmethod
    def _log_volume(self, x: Tensor) -> np.ndarray | float:
        """By how much log-densities of such rows (n, V) exceed those in the units of the data: (n,)."""

    @abstractmethod
    def _leaf_variance(self) -> Mapping[int, float] | None:
        """The relative variances that ``leaf_variance`` gives to columns, by their numbers; None if all are 0."""

    def _structure(self) -> str:
        """Where the circuit comes from; files of before call random trees "auto"."""
        return str(getattr(self, "structure_", "random" if self.structure == "auto" else self.structure))

    def _set_circuits(self, circuits: Circuits) -> None:
        """Set ``circuit_`` to all circuits that were trained, as one."""
        self.circuit_ = as_one(circuits)

    def _restore(self) -> None:
        super()._restore()
        if hasattr(self, "doubt") and not hasattr(self, "weight_posterior_"):
            self.doubt = DROPOUT  # from a file that was written before there was another doubt

    def _doubts_weights(self) -> bool:
        """Whether the weights are in doubt, which must then be known; otherwise it is dropout."""
        check_choice("doubt", self.doubt, DOUBTS)
        if self.doubt == DROPOUT:
            return False
        if not hasattr(self, "weight_posterior_"):
            raise ValueError(
                "doubt must be 'dropout' for this model, which was saved before models kept the distribution of their "
                "weights; or fit it again"
            )
        return True

    def _log_prior(self, circuit: Circuit | Graph) -> Tensor:
        """Log-probabilities of the classes (C,); a density has one class."""
        return torch.zeros(1, dtype=circuit.dtype, device=circuit.device)

    @torch.no_grad()
    def _log_joint(self, x: Tensor) -> Tensor:
        """log p(x, class) of rows (n, V): (n, C)."""
        return self.circuit_.log_likelihood(known(x)) + self._log_prior(self.circuit_)

    def _log_density(self, x: Tensor, log_joint: Tensor) -> np.ndarray:
        """log p(x) of rows (n, V), in the units of the data: (n,)."""
        return torch.logsumexp(log_joint.double(), 1).cpu().numpy() - self._log_volume(x)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        check_count("n_iter_", self.n_iter_, minimum=0)
        check_count("the epochs of history_", len(self.history_.epochs), minimum=self.n_iter_)
        if hasattr(self, "weight_posterior_"):
            self.weight_posterior_.check_shapes(engine_of(self.circuit_).sum_shapes)
