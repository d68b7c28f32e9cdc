"""What models without classes say of rows and of images: outlier detectors and densities."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from socratic.estimators import CircuitImageDensity
from socratic.estimators.density import DensityBase
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.scoring.base import (
    ANSWERS_ALONE,
    REASONS_COLUMN,
    VERDICT_COLUMN,
    Columns,
    OfImages,
    OfTables,
    Scorer,
)
from socratic.tables.batches import import_pyarrow
from socratic.uncertainty.ambiguity import FAMILIAR, UNFAMILIAR
from socratic.uncertainty.answers import Judgement

LIKELIHOOD_COLUMNS = ("log_likelihood", "log_std")
"""What a density of tables says of each row: log p(x), and its standard deviation over what is in doubt."""
JUDGED_COLUMNS = ("p_value", VERDICT_COLUMN)
"""What an outlier detector says besides: how familiar the row is, and whether it is familiar or unfamiliar."""


class LikelihoodScorer(Scorer):
    """Applies a model without classes."""

    def chosen(self, columns: Columns) -> Columns:
        """The same columns, with what is left to the model decided."""
        if columns.probabilities:
            raise ValueError(f"probabilities are those of classes; a {type(self.model).__name__} has none")
        explain = self._explains(columns, refuses=VERDICT_COLUMN in self._said(columns))
        return replace(columns, probabilities=False, explain=explain)

    @abstractmethod
    def _likelihoods(self, rows: Any) -> Any:
        """What the model says of rows as it takes them: a ``pyarrow.RecordBatch``."""

    def __call__(self, batch: Any, start: int = 0, columns: Columns = ANSWERS_ALONE) -> Any:
        """What is written of each row."""
        columns = self.chosen(columns)
        rows = self._read(batch, start, self.unknown)
        said = self._likelihoods(rows)
        if columns.explain:
            said = said.append_column(REASONS_COLUMN, self._reasons(rows, said))
        return said.rename_columns(self.added(columns))

    def _reasons(self, rows: Any, said: Any) -> Any:
        """The parts that speak most against unfamiliar rows: a ``pyarrow.Array`` of text, empty for the others."""
        texts = np.full(said.num_rows, "", dtype=object)
        unfamiliar = np.flatnonzero(np.array(said.column(VERDICT_COLUMN).to_pylist()) == UNFAMILIAR)
        if len(unfamiliar):
            texts[unfamiliar] = self._against(rows[unfamiliar])
        return import_pyarrow().array(texts, "string")


class TableLikelihoodScorer(OfTables, LikelihoodScorer):
    """Applies a density or an outlier detector of tables."""

    model: DensityBase

    def _likelihoods(self, rows: Any) -> Any:
        return likelihoods_of(self.model, rows, self.judge(rows))

    def judge(self, x: Tensor) -> Judgement | None:
        """How familiar rows (N, V) are as the circuit reads them; densities do not say."""
        return judge_density(self.model, x)

    def _said(self, columns: Columns) -> list[str]:  # noqa: ARG002 - there are no others
        return [*LIKELIHOOD_COLUMNS, *(JUDGED_COLUMNS if isinstance(self.model, CircuitOutlierDetector) else ())]


class ImageLikelihoodScorer(OfImages, LikelihoodScorer):
    """Applies a density of images to rows with the column ``path``, the files of images."""

    model: CircuitImageDensity

    def _likelihoods(self, rows: Any) -> Any:
        pa = import_pyarrow()
        values = pa.array(self.model.score_samples(rows))
        return pa.RecordBatch.from_arrays([values], names=self._said(ANSWERS_ALONE))

    def _said(self, columns: Columns) -> list[str]:  # noqa: ARG002 - there are no others
        return [LIKELIHOOD_COLUMNS[0]]


def judge_density(model: DensityBase, x: Tensor) -> Judgement | None:
    """How familiar rows (N, V) are as a detector's circuit reads them; densities do not say."""
    return model.judge_rows(x) if isinstance(model, CircuitOutlierDetector) else None


def likelihoods_of(model: DensityBase, x: Tensor, judgement: Judgement | None) -> Any:
    """What is said of rows (N, V) as the circuit reads them: a ``pyarrow.RecordBatch``.

    It has the columns :data:`LIKELIHOOD_COLUMNS` and, of rows that were judged, :data:`JUDGED_COLUMNS`.
    """
    pa = import_pyarrow()
    doubt = model.uncertainty_rows(x)
    said = dict(zip(LIKELIHOOD_COLUMNS, (doubt.log_likelihood, doubt.log_std), strict=True))
    if judgement is not None and isinstance(model, CircuitOutlierDetector):
        verdict = np.where(judgement.p_value <= model._rate(), UNFAMILIAR, FAMILIAR).tolist()
        said |= dict(zip(JUDGED_COLUMNS, (judgement.p_value, verdict), strict=True))
    return pa.RecordBatch.from_pydict(said)
