"""Served models: what may be asked of a fitted estimator, and its answers as plain records."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from socratic.errors import check_rate
from socratic.estimators import (
    CircuitClassifier,
    CircuitDensity,
    CircuitImageClassifier,
    CircuitImageDensity,
    CircuitOutlierDetector,
)
from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.committee import NO_DROPOUT
from socratic.estimators.density import DensityBase
from socratic.estimators.posterior import DROPOUT
from socratic.estimators.rejection import RejectingEstimator
from socratic.scoring import answers_of, encode_batch, judge_density, likelihoods_of
from socratic.serve.columns import Field, checked_rows, record_batch
from socratic.serve.problems import RequestError
from socratic.uncertainty.ambiguity import UNFAMILIAR
from socratic.uncertainty.answers import Answer, Judgement
from socratic.uncertainty.reasons import Reasons

_VARIANTS = 64
"""Ways to ask a model that are remembered: each holds no more than a few settings of its own."""

Record = dict[str, Any]
Take: TypeAlias = Callable[[Tensor, Judgement | None], None]
"""Told the rows (N, V) that a model has answered, as its circuit reads them, and how familiar it finds them."""


def leave(x: Tensor, judgement: Judgement | None) -> None:
    """Takes nothing of what was answered."""


@dataclass(frozen=True)
class Options:
    """How a model is asked; None is what it was fitted with.

    Attributes
    ----------
    rejection_rate : float, optional
        Share of familiar rows that may be refused.
    risk : float, optional
        Share of errors among answered rows above which a row is ambiguous.
    doubt : str, optional
        What is in doubt: "weights" or "dropout".
    dropout : float, optional
        The dropout rate, where that is in doubt.
    reasons : int
        Parts of each row to name that make it unusual, at most.
    watched : bool
        Whether the rows are looked at for drift; not if they are trials.
    heat : bool
        Whether to say of each pixel how much it speaks against its image.
    """

    rejection_rate: float | None = None
    risk: float | None = None
    doubt: str | None = None
    dropout: float | None = None
    reasons: int = 0
    watched: bool = True
    heat: bool = False

    @property
    def explain(self) -> bool:
        """Whether to say why rows are unusual."""
        return self.reasons > 0 or self.heat

    def settings(self) -> dict[str, Any]:
        """Those that are given and that change the model."""
        given = {name: getattr(self, name) for name in ("rejection_rate", "risk", "doubt", "dropout")}
        return {name: value for name, value in given.items() if value is not None}


class ServedModel(ABC):
    """A fitted estimator under a name.

    Parameters
    ----------
    name : str
        What requests call it.
    estimator : estimator
    """

    kind: str
    """What it is, in words."""
    takes: str
    """What it is asked about: "rows" or "images"."""
    width: int
    """Cells of a row, or numbers of an image."""

    def __init__(self, name: str, estimator: Any) -> None:
        self.name = name
        self.estimator = estimator
        self.variant = lru_cache(_VARIANTS)(self._variant)

    @abstractmethod
    def check(self, asked: Any) -> Any:
        """What is asked about, as :meth:`answer` takes it; raises :class:`RequestError` if it cannot be answered."""

    @abstractmethod
    def join(self, parts: Sequence[Any]) -> Any:
        """What several requests ask about, one after the other."""

    @abstractmethod
    def encode(self, asked: Any) -> Tensor:
        """What is asked about as the circuit reads it: (N, V), NaN where something is missing."""

    @abstractmethod
    def answer(self, asked: Any, options: Options, take: Take = leave) -> list[Record]:
        """One record for each row or image, of numbers, text and lists alone; None stands for what is not known.

        In the end ``take`` is told what was answered.
        """

    def answer_all(self, parts: Sequence[Any], options: Options, take: Take = leave) -> list[list[Record]]:
        """The records of several requests that ask in the same way, from one evaluation."""
        records = iter(self.answer(parts[0] if len(parts) == 1 else self.join(parts), options, take))
        return [[next(records) for _ in range(len(part))] for part in parts]

    def n_values(self, options: Options) -> int:
        """Values that the record of a row or an image holds, at most."""
        n_classes = len(getattr(self.estimator, "classes_", ()))
        parts = min(options.reasons, self.width) + n_classes
        return len(ANSWER_FIELDS) + 3 * parts + (self.width if options.heat else 0)

    def judges_alike(self, options: Options) -> bool:
        """Whether it finds rows as familiar as it does by default: not if something else is in doubt."""
        own = {"doubt": getattr(self.estimator, "doubt", None), "dropout": getattr(self.estimator, "dropout_", None)}
        return all(getattr(options, name) in (None, value) for name, value in own.items())

    def notes(self, options: Options) -> list[str]:
        """What to say of answers beside them: promises that the model cannot keep."""
        model = self.variant(options)
        if not isinstance(model, RejectingEstimator):
            return []
        problems = [model._calibration_problem(), getattr(model, "_risk_problem", lambda: None)()]
        return [problem for problem in problems if problem is not None]

    def describe(self) -> dict[str, Any]:
        """What it is, and what it takes and says, as plain data."""
        model = self.estimator
        classes = getattr(model, "classes_", None)
        return {
            "name": self.name,
            "kind": self.kind,
            "takes": self.takes,
            "estimator": type(model).__name__,
            "classes": None if classes is None else classes.tolist(),
            "rejection_rate": getattr(model, "rejection_rate", None),
            "risk": getattr(model, "risk", None),
            "risk_confidence": getattr(model, "risk_confidence", None),
            "doubt": getattr(model, "doubt", None),
            "calibrated": getattr(model, "calibrated_", None),
            "explains": hasattr(model, "familiar_"),
            "columns": None,
            "image_shape": None,
        }

    def _variant(self, options: Options) -> Any:
        """The estimator with some settings of its own; it shares everything else."""
        settings = options.settings()
        model = copy.copy(self.estimator)
        for name, value in settings.items():
            if not hasattr(model, name):
                raise RequestError(f"{name} is not for this model: {self.name!r} is {a(self.kind)}")
            setattr(model, name, value)
        if "dropout" in settings and hasattr(model, "dropout_"):
            model.dropout_ = settings["dropout"]
        try:
            _check_settings(model, settings)
        except ValueError as error:
            raise RequestError(str(error)) from error
        if options.heat and self.takes != "images":
            raise RequestError(f"heat is for images, and {self.name!r} answers rows of a table; send reasons")
        if options.explain and not hasattr(model, "familiar_"):
            raise RequestError(f"reasons must be 0: {self.name!r} has no familiar rows to compare with; fit it again")
        return model


class ServedTable(ServedModel):
    """An estimator of tables."""

    takes = "rows"

    def __init__(self, name: str, estimator: Any) -> None:
        super().__init__(name, estimator)
        self.kind = _KINDS[type(estimator)]
        self.fields = {column.name: Field.of(column) for column in estimator.table_.columns}
        self.width = len(self.fields)

    def check(self, asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Rows whose fields all exist and hold what they may."""
        return checked_rows(self.fields, asked)

    def join(self, parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """All rows."""
        return [row for part in parts for row in part]

    def encode(self, asked: list[dict[str, Any]]) -> Tensor:
        """Rows as the circuit reads them; infinite where a value was never seen."""
        return encode_batch(self.estimator, record_batch(self.fields, asked), 0, {})

    def answer(self, asked: list[dict[str, Any]], options: Options, take: Take = leave) -> list[Record]:
        """One record for each row."""
        model = self.variant(options)
        x = self.encode(asked)
        judgement: Judgement | None
        if isinstance(model, CircuitClassifierBase):
            answer, judgement = model.answer_and_judge(x)
            records = classifier_records(model, answer)
        else:
            judgement = judge_density(model, x)
            records = density_records(model, x, judgement)
        names = np.array(list(self.fields), dtype=object)
        for record, strange in zip(records, x.isinf().cpu().numpy(), strict=True):
            record["unseen"] = names[strange].tolist()
        records = with_reasons(records, model.explain_rows(x) if options.reasons else None, options.reasons)
        take(x, judgement)
        return records

    def describe(self) -> dict[str, Any]:
        """What it is, with its columns."""
        columns = [
            {
                "name": field.name,
                "takes": sorted(field.takes),
                "categories": None if field.categories is None else list(field.categories),
                "leaf": column.kind,
                "left_out": field.left_out,
                "typical": field.typical,
                "range": None if field.span is None else list(field.span),
            }
            for field, column in zip(self.fields.values(), self.estimator.table_.columns, strict=True)
        ]
        return {**super().describe(), "columns": columns}


def classifier_records(model: CircuitClassifierBase, answer: Answer) -> list[Record]:
    """What a classifier says of rows: what ``socratic predict`` writes, and all that is behind it."""
    said = answers_of(model, answer).to_pylist()
    classes, doubt = model.classes_.tolist(), answer.uncertainty
    unfamiliar = model.is_rejected(answer).tolist()
    for place, record in enumerate(said):
        record["probabilities"] = of_classes(classes, answer.probabilities[place].tolist(), doubt.std[place].tolist())
        record["mutual_information"] = float(doubt.mutual_information[place])
        record["log_likelihood"] = float(doubt.log_likelihood[place])
        record["log_std"] = float(doubt.log_std[place])
        record["unfamiliar"] = unfamiliar[place]
        record["ambiguous"] = None if model.risk is None else record["risk"] > model.risk
    return [finished(record) for record in said]


def of_classes(classes: Sequence[Any], shares: Sequence[float], stds: Sequence[float]) -> list[Record]:
    """The probability of each class, and its standard deviation."""
    return [
        {"label": label, "probability": finite(share), "std": finite(std)}
        for label, share, std in zip(classes, shares, stds, strict=True)
    ]


def density_records(model: DensityBase, x: Tensor, judgement: Judgement | None) -> list[Record]:
    """What a density or a detector says of rows (N, V) as its circuit reads them, which it has judged."""
    said = likelihoods_of(model, x, judgement).to_pylist()
    for record in said if judgement is not None else ():
        record["unfamiliar"] = record["verdict"] == UNFAMILIAR
    return [finished(record) for record in said]


def with_reasons(records: list[Record], reasons: Reasons | None, most: int) -> list[Record]:
    """The same records, with the parts of each row that speak most against it."""
    if reasons is not None and most:
        for record, parts in zip(records, reasons.top(most), strict=True):
            record["reasons"] = [
                {"name": part.name, "excess": finite(part.excess), "p_value": finite(part.p_value)} for part in parts
            ]
    return records


ANSWER_FIELDS = (
    "label",
    "probability",
    "std",
    "probabilities",
    "entropy",
    "mutual_information",
    "log_likelihood",
    "log_std",
    "p_value",
    "risk",
    "unfamiliar",
    "ambiguous",
    "verdict",
    "unseen",
    "reasons",
    "heat",
)
"""What a record holds, whatever the model."""


def finite(value: Any) -> Any:
    """The same value, None in place of numbers that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def a(noun: str) -> str:
    """A noun with its article."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def finished(record: Record) -> Record:
    """The same record with all that one holds; None stands for what is not known."""
    return {name: finite(record.get(name)) for name in ANSWER_FIELDS}


def _check_settings(model: Any, settings: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless a fitted estimator can answer with these settings, which it has."""
    if "rejection_rate" in settings:
        check_rate("rejection_rate", settings["rejection_rate"])
    if "risk" in settings:
        model._risk()
    if "doubt" in settings and not model._doubts_weights() and hasattr(model, "forest_"):
        raise ValueError(NO_DROPOUT)
    if "dropout" in settings:
        check_rate("dropout", settings["dropout"])
        if model.doubt != DROPOUT:
            raise ValueError(f"dropout is for doubt='dropout'; got doubt={model.doubt!r}: send both")


_KINDS: dict[type, str] = {
    CircuitClassifier: "classifier",
    CircuitImageClassifier: "classifier",
    CircuitOutlierDetector: "outlier detector",
    CircuitDensity: "density",
    CircuitImageDensity: "density",
}


def served(name: str, estimator: Any) -> ServedModel:
    """A fitted estimator as a model to serve."""
    from socratic.serve.images import ServedImages

    if type(estimator) not in _KINDS:
        raise ValueError(
            f"model {name!r} is a {type(estimator).__name__}, which cannot be served; serve a classifier, an outlier "
            "detector or a density"
        )
    return (ServedTable if hasattr(estimator, "table_") else ServedImages)(name, estimator)
