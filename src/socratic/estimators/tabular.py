"""What estimators of tables share: columns, their encoding, and how rows are prepared for training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.errors import check_count
from socratic.estimators.building import check_structure
from socratic.estimators.choosing import Choice, choose_structure
from socratic.estimators.crossing import assign_folds
from socratic.estimators.explaining import ExplainingEstimator, Judged
from socratic.estimators.learned import FOREST, KERNELS, LEARNED, QUICK, chooses_threshold, further_epochs
from socratic.estimators.preparation import Parts, Prepared, prepare, split_rows
from socratic.inference.queries import column_surprise
from socratic.learning.settings import Rows
from socratic.tables.columns import Table, no_column
from socratic.tables.inputs import check_columns, check_weights, encode_cells, known
from socratic.tables.raw import RawTable
from socratic.uncertainty.expected import ExpectedScores, hide_cells
from socratic.uncertainty.levels import Levels, hide
from socratic.uncertainty.reasons import Reasons
from socratic.uncertainty.scores import LIKELIHOODS, Scores


class TableEstimator(ExplainingEstimator):
    """An estimator of arrays and data frames: ``table_`` says how their columns become variables of the circuit."""

    table_: Table
    structure_: str
    structure_reason_: str
    _UNTRAINED: ClassVar[str] = KERNELS
    """The structure of which nothing is trained that ``structure="auto"`` takes."""
    expected_: ExpectedScores
    levels_: Levels
    _REFERENCE: ClassVar[float] = 0.0
    """Share of the calibration rows that what is not trained is chosen by."""
    _VALIDATED_FROM = 0
    """Rows from which on some are held out to stop on, unless ``validation_fraction`` says how many."""

    def describe_columns(self) -> list[str]:
        """One line for each column: its leaf family and encoding."""
        check_is_fitted(self)
        return [column.describe() for column in self.table_.columns]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _batches(self, X: Any) -> Iterator[Tensor]:  # noqa: N803
        yield encode_cells(self, X)

    def _log_volume(self, x: Tensor) -> np.ndarray:
        return self.table_.log_volume(x.double().cpu().numpy())

    def _expect(self, x: Tensor, scores: Callable[[Tensor], Scores], rng: np.random.Generator) -> None:
        self.expected_ = ExpectedScores({}, {})
        rows = hide_cells(x.double().cpu().numpy(), rng)
        found = [scores(part) for part in self._read_in_batches(torch.as_tensor(rows))]
        joined = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
        self.expected_ = ExpectedScores.fit(joined, ~np.isnan(rows), len(x))

    def _comparable(self, scores: Scores, x: Tensor, again: Callable[[Tensor], Scores] | None = None) -> Scores:
        if not hasattr(self, "expected_"):  # not calibrated yet
            return scores
        rows = x.double().cpu().numpy()
        units = self.table_.log_units(rows)
        unitless = {name: scores[name] - units for name in LIKELIHOODS if name in scores}
        compared = self.expected_.comparable({**scores, **unitless}, ~np.isnan(rows))
        found = {name: np.array(values) for name, values in compared.items()}
        strange = np.flatnonzero(np.isinf(rows).any(1))
        if again is not None:
            for others in self.table_.with_rarest(rows[strange]):
                for name, values in again(torch.as_tensor(others).to(x)).items():
                    found[name][strange] = np.maximum(found[name][strange], values)
        beyond = self.table_.beyond(rows)
        return {name: np.where(beyond, np.inf, values) for name, values in found.items()}

    def _fit_levels(self, judged: Sequence[Judged], rng: np.random.Generator, *, hiding: bool = True) -> None:
        """The same. Without ``hiding`` rows are compared whatever they miss, since new ones will miss nothing else."""
        missing = [self._missing(part.x) for part in judged]
        together = np.concatenate(missing)
        places, cells, levels = hide(together, rng)
        if not hiding:
            places, cells, levels = places[:0], cells[:0], levels[:0]
        weights = np.concatenate([part.weight for part in judged])
        scores = np.empty(len(places))
        first = np.cumsum([0, *map(len, missing)])
        for part, begin, end in zip(judged, first[:-1], first[1:], strict=True):
            here = np.flatnonzero((places >= begin) & (places < end))
            every = np.zeros((len(here), self.n_features_in_), dtype=bool)
            every[:, self._counted()] = cells[here]
            scores[here] = part.hidden(places[here] - begin, every)
        copies = [(scores[at], weights[places[at]], cells[at].sum(1)) for at in map(levels.__eq__, np.unique(levels))]
        own = np.concatenate([part.scores for part in judged])
        self.levels_ = Levels.fit(own, weights, float(together.sum(1).mean()), copies)

    def _on_one_level(self, scores: np.ndarray, x: Tensor, unseen: np.ndarray) -> np.ndarray:
        if not hasattr(self, "levels_"):  # not calibrated yet
            return scores
        return self.levels_(scores, self._missing(x).sum(1), unseen)

    def _unseen(self, x: Tensor) -> np.ndarray:
        return self.table_.unseen(x.double().cpu().numpy())

    def _missing(self, x: Tensor) -> np.ndarray:
        """Which cells of rows (n, V) are missing, but for the columns that are left out."""
        return x.isnan().cpu().numpy()[:, self._counted()]

    def _counted(self) -> np.ndarray:
        """Which columns have a part in the model: (V,) booleans."""
        return np.array([column.left_out is None for column in self.table_.columns])

    def _read(self, x: Tensor) -> Tensor:
        return x.to(self.circuit_.device, self.circuit_.dtype)

    def _surprise(self, x: Tensor) -> np.ndarray:
        prior = torch.exp(self._log_prior(self.circuit_))
        surprise = column_surprise(self.circuit_, known(x), class_prior=prior).double().cpu().numpy()
        surprise += self.table_.log_bend(x.double().cpu().numpy())
        return np.where(x.isinf().cpu().numpy(), np.inf, surprise)

    def _compare(self, surprise: np.ndarray) -> Reasons:
        names = [column.name for column in self.table_.columns]
        return self.familiar_.compare(names, surprise, self.table_.log_scale)

    def _leaf_variance(self) -> Mapping[int, float] | None:
        return _by_number(self.leaf_variance, [column.name for column in self.table_.columns]) or None

    def _check_fitted(self) -> None:
        super()._check_fitted()
        columns = self.table_.columns
        names = getattr(self, "feature_names_in_", columns)
        n_columns = check_count("n_features_in_", self.n_features_in_)
        if not self.circuit_.n_features == len(columns) == len(names) == n_columns:
            raise ValueError("its columns do not fit its circuit")
        for column, families in zip(columns, self.circuit_.column_families, strict=True):
            own = column.family.name, column.family.n_values
            if any((family.name, family.n_values) != own for family in families):
                raise ValueError(f"the leaves of {column.name!r} are not those of its circuit")
        if hasattr(self, "expected_"):
            self.expected_.check(len(columns))
        self._leaf_variance()

    def _check_rows(self, X: Any, sample_weight: Any) -> tuple[RawTable, np.ndarray]:  # noqa: N803
        """The columns, and the weight of each row (N,)."""
        self._check_parameters()
        raw = check_columns(self, X, reset=True)
        weight = check_weights(sample_weight, X)
        self._settle(choose_structure(self, self._UNTRAINED), raw.names, weight)
        return raw, weight

    def _settle(self, choice: Choice, names: Sequence[str], weight: np.ndarray) -> None:
        """Set the structure, after checks that it goes together with the columns and the weights (N,) of rows."""
        _by_number(self.leaf_variance, names)
        self.structure_, self.structure_reason_ = choice
        check_structure(self, weight)

    @abstractmethod
    def _fit_parts(self, parts: Parts, rng: np.random.Generator) -> None:
        """Train and calibrate on rows that were divided; ``table_`` is how they were encoded."""

    def _prepare(self, raw: RawTable, labels: np.ndarray, weight: np.ndarray) -> Prepared:
        """Choose leaf families, and put the rows in an order."""
        return prepare(raw, labels, weight, self.leaf)

    def _divide(
        self,
        prepared: Prepared,
        rng: np.random.Generator,
        *,
        calibration: float = 0.0,
        reference: float = 0.0,
        validated: bool = False,
    ) -> Parts:
        """Divide the rows: see :func:`split_rows`; those to train on give the columns their scale.

        ``validated`` says that rows to stop on were given, so that none of these are held out.
        """
        validation = 0.0 if validated else self._validation(len(prepared.labels))
        split = split_rows(
            prepared.labels, prepared.twin, rng, validation=validation, calibration=calibration, reference=reference
        )
        self.table_, parts = prepared.divide(split, drawn=self._holds_out_rows())
        return parts

    def _folds(self, prepared: Prepared, rng: np.random.Generator) -> np.ndarray | None:
        """The fold (N,) that each of few rows is held out in: see :func:`assign_folds`."""
        if not self.calibration_fraction:
            return None
        return assign_folds(prepared.labels, prepared.twin, rng, costly=self._takes_long())

    def _takes_long(self) -> bool:
        """Whether a circuit takes long to fit: those that are trained, and those of LearnSPN."""
        return self._structure() not in QUICK

    def _holds_out_rows(self) -> bool:
        """Whether fitting judges parts of the model, the trees of a forest, by rows that they have not seen."""
        return self._structure() == FOREST

    def _validation(self, n_rows: int) -> float:
        """The share of so many rows to stop on."""
        if self.structure_ in LEARNED and not (chooses_threshold(self) or further_epochs(self)):
            return 0.0  # nothing to choose, nothing to stop
        if self.validation_fraction == "auto":
            return 0.1 if n_rows >= self._VALIDATED_FROM else 0.0
        return float(self.validation_fraction)

    def _reread(self, x: Tensor) -> Tensor:
        """What another estimator's circuit reads (n, V), as the circuit of this one, a fold of it, reads it."""
        return self._read(torch.as_tensor(self.table_.scale(x.double().cpu().numpy())))

    def _given_rows(self, X: Any) -> Rows:  # noqa: N803
        """Rows that were given apart from those to fit on, as the fitted table encodes them."""
        encoded = self.table_.encode(check_columns(self, X, reset=False))
        x = known(torch.as_tensor(encoded.codes, dtype=torch.float32))
        return Rows(x, torch.zeros(len(x), dtype=torch.long), torch.ones(len(x)))


def _by_number(variance: float | Mapping[str, float], names: Sequence[str]) -> dict[int, float]:
    """Relative variances of columns that are not 0, by their numbers, from one for all of them or some by name."""
    by_name = variance if isinstance(variance, Mapping) else dict.fromkeys(names, variance)
    for name in by_name:
        if name not in names:
            raise no_column("leaf_variance", name, names)
    return {number: float(by_name[name]) for number, name in enumerate(names) if by_name.get(name, 0.0) > 0.0}
