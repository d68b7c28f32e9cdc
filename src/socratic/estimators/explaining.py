"""Estimators that say why a row is unusual: which of its parts, compared with the same parts of familiar rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.estimators.base import CircuitEstimator
from socratic.inference.kinds import engine_of
from socratic.inference.visits import weight_posterior
from socratic.inference.weight_posterior import WeightPosterior
from socratic.learning.settings import Rows, Source
from socratic.memory import table_rows
from socratic.uncertainty.reasons import FamiliarSurprises, Reasons
from socratic.uncertainty.scores import Scores


class Judged(NamedTuple):
    """Familiar rows, and how unusual a model that has not seen them finds them."""

    x: Tensor
    """(n, ...), as the model reads them."""
    weight: np.ndarray
    """(n,)"""
    scores: np.ndarray
    """(n,)"""
    hidden: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Scores (m,) of copies of the rows at some places (m,), without the cells that are to be hidden (m, V)."""

    @classmethod
    def by(cls, score: Callable[[Tensor], np.ndarray], rows: Rows, scores: np.ndarray) -> Judged:
        """Rows whose ``scores`` (n,) are what ``score`` says of them."""

        def hidden(places: np.ndarray, cells: np.ndarray) -> np.ndarray:
            copies = rows.x[torch.as_tensor(places, device=rows.x.device)]
            return score(copies.masked_fill(torch.as_tensor(cells, device=rows.x.device), torch.nan))

        return cls(rows.x, rows.weight.double().cpu().numpy(), scores, hidden)


class ExplainingEstimator(CircuitEstimator):
    """An estimator around a circuit whose rows have parts: the columns of a table, or the regions of an image.

    A subclass says what they are, by :meth:`_surprise` and :meth:`_compare`, and its ``fit`` calls :meth:`_remember`.
    The rows it trains and calibrates on may be of another kind than the circuit reads (the bytes of images):
    :meth:`_read` converts them.
    """

    familiar_: FamiliarSurprises

    def explain(self, X: Any) -> Reasons:  # noqa: N803
        """Why rows are unusual: how surprising each part of a row is given all others, beside familiar rows.

        All parts together take one pass up through the circuit and one down. A missing value has no surprise, and the
        others are judged without it.
        """
        check_is_fitted(self)
        return self._compare(self._surprises(self._batches(X)))

    def explain_rows(self, x: Tensor) -> Reasons:
        """The same of rows (N, V) as the circuit reads them."""
        return self._compare(self._surprises([x]))

    @abstractmethod
    def _read(self, x: Tensor) -> Tensor:
        """Rows of the kind that is trained on (n, V), as the circuit reads them."""

    @abstractmethod
    def _surprise(self, x: Tensor) -> np.ndarray:
        """How surprising each part of rows (n, V) is given all others: (n, Q)."""

    @abstractmethod
    def _compare(self, surprise: np.ndarray) -> Reasons:
        """Surprises (N, Q) beside those of familiar rows."""

    def _expect(self, x: Tensor, scores: Callable[[Tensor], Scores], rng: np.random.Generator) -> None:
        """Learn what scores to expect of rows with missing cells, by familiar ones (n, V) as the circuit reads them."""

    def _comparable(
        self,
        scores: Scores,
        x: Tensor,  # noqa: ARG002 - where no cell can be missing or strange
        again: Callable[[Tensor], Scores] | None = None,  # noqa: ARG002
    ) -> Scores:
        """Scores of rows (n, V) as they were encoded, made comparable with each other.

        A row with a value that no training row holds is at least as unusual as with the rarest in its place, if it is
        known how to score it ``again``.
        """
        return scores

    def _fit_levels(self, judged: Sequence[Judged], rng: np.random.Generator) -> None:
        """Learn how unusual rows are that miss cells, by familiar rows: those of each fold, or of the one model."""

    def _on_one_level(self, scores: np.ndarray, x: Tensor, unseen: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Scores (n,) that p-values compare, from how unusual rows (n, V) are, and how rare what is unseen in them.

        Both are by this model, or by a fold of it.
        """
        return scores

    def _unseen(self, x: Tensor) -> np.ndarray:
        """How rare the categories of rows (n, V) are that no training row holds: (n,), 1 without any."""
        return np.ones(len(x))

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if hasattr(self, "familiar_"):
            self._compare(np.empty((0, self.familiar_.surprise.shape[1])))

    def _count_visits(self, rows: Source) -> None:
        """Set ``weight_posterior_`` by the rows that were trained on."""
        self.weight_posterior_ = self._visits(self.circuit_, rows)

    def _visits(self, circuit: Circuit | Graph, rows: Source) -> WeightPosterior:
        """The weight posterior that such rows leave to a circuit."""
        counted: WeightPosterior | None = None
        for some in rows.pieces(table_rows(circuit.n_features)):
            found = weight_posterior(circuit, self._read(some.x), some.y, sample_weight=some.weight)
            counted = found if counted is None else counted.plus(found)
        assert counted is not None
        return counted

    def _remember(self, rows: Rows) -> None:
        """Keep how surprising the parts of familiar rows are, which are of the kind that is trained on."""
        kept = rows.take(
            torch.as_tensor(FamiliarSurprises.places(len(rows), engine_of(self.circuit_).entries_per_surprise))
        )
        self._remember_batches(self._read_in_batches(kept.x), kept.weight.double().cpu().numpy())

    def _remember_batches(self, batches: Iterable[Tensor], weight: np.ndarray) -> None:
        """The same of rows as the circuit reads them, with a weight (N,) for each."""
        self.familiar_ = FamiliarSurprises.fit(np.concatenate([self._surprise(x) for x in batches]), weight)

    def _read_in_batches(self, x: Tensor) -> Iterator[Tensor]:
        for part in x.split(table_rows(x.shape[1])):
            yield self._read(part)

    def _surprises(self, batches: Iterable[Tensor]) -> np.ndarray:
        """The surprises (N, Q) of rows as the circuit reads them, to be compared."""
        if not hasattr(self, "familiar_"):
            raise ValueError("the model was saved before models kept familiar rows to compare with; fit it again")
        return np.concatenate([self._surprise(x) for x in batches])
