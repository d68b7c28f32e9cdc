"""``socratic info``: what a model file holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from socratic.cli.console import short

if TYPE_CHECKING:
    from rich.table import Table

    from socratic.estimators import CircuitOutlierDetector
    from socratic.estimators.base import CircuitEstimator
    from socratic.estimators.classification import CircuitClassifierBase

SHOWN_CLASSES = 20
_LEAST_SHOWN = 0.01
"""Scores of a smaller weight are not told of."""


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file of a classifier, a detector or a density.")],
    all_columns: Annotated[bool, typer.Option("--all", help="List every column, not only the first ones.")] = False,
) -> None:
    """Say what a model file holds."""
    from socratic.cli.console import output, waiting
    from socratic.cli.scoring import load_scorer

    with waiting("reading the model"):
        loaded = load_scorer(model, "cpu").model
    console = output()
    console.print(facts(_describe(loaded, model)))
    if hasattr(loaded, "table_"):
        console.print(column_table(loaded.table_.columns, None if all_columns else 30))


def facts(lines: Mapping[str, str]) -> Table:
    """Names and values, one below the other."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in lines.items():
        table.add_row(name, Text(value))
    return table


def column_table(columns: Sequence[Any], limit: int | None, scaled: bool = True) -> Table:
    """The leaf family of each column; beyond ``limit`` columns the rest is counted.

    Parameters
    ----------
    columns : sequence of Column
    limit : int or None
    scaled : bool
        Whether the columns have been standardised: before, they have no mean and scale to show.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table("column", "leaf", "values", box=None, pad_edge=False, header_style="bold")
    shown = columns if limit is None else columns[:limit]
    for column in shown:
        details = column.describe().removeprefix(f"{column.name}: {column.kind} ").strip("()")
        if column.family.scaling != "none" and not scaled:
            details = column.family.domain
        table.add_row(Text(short(column.name)), column.kind, Text(short(details, 70)))
    rest = Counter(column.kind for column in columns[len(shown) :])
    if rest:
        counted = ", ".join(f"{number:,} {kind}" for kind, number in rest.most_common())
        table.add_row(f"and {sum(rest.values()):,} more", "", counted)
    return table


def describe_image(shape: tuple[int, int, int]) -> str:
    """Height, width and colours of images."""
    height, width, n_channels = shape
    return f"{height} x {width} pixels, {'grey' if n_channels == 1 else 'coloured'}"


def describe_calibration(model: CircuitClassifierBase | CircuitOutlierDetector) -> str:
    """What rejection was calibrated on, and between which shares of familiar rows it will refuse."""
    size = f"{calibration_size(model):,}"
    if not model.n_calibration_:
        return f"{size} training rows (none were held out)"
    rows = f"{size} rows, each held out once" if model.folds_ else f"{size} held-out rows"
    if not model.calibrated_:
        return f"{rows} (too few for a rate of {model.rejection_rate:g})"
    low, high = model.calibration_interval()
    about = "about " if model.folds_ else ""
    within = " of every class" if getattr(model, "class_conformal_", None) is not None else ""
    return (
        f"{rows}: at {model.rejection_rate:.3g}, {about}{low:.1%} to {high:.1%} of familiar rows{within} are refused, "
        "with 95 % confidence"
    )


def describe_risk(model: CircuitClassifierBase) -> dict[str, str]:
    """What to expect of the rows that are answered at the chosen risk, if one was."""
    if model.risk is None:
        return {}
    told = model.ambiguity_.answered(model.risk, model.rejection_rate, model.risk_confidence)
    promise = f"{model.risk:g} {describe_risk_confidence(model.risk_confidence)}"
    if told is None:
        return {"risk": f"{promise}: every row is ambiguous"}
    answered = f"{told.coverage:.0%} of familiar rows are answered, with {told.error:.1%} errors in calibration"
    return {"risk": f"{promise}: {answered}"}


def describe_risk_confidence(risk_confidence: float | None) -> str:
    """Which promise is made of a risk."""
    return "on average over calibrations" if risk_confidence is None else f"with {risk_confidence:.3g} confidence"


def describe_doubt(model: CircuitEstimator) -> str:
    """What the uncertainty is about, and how much of it there is."""
    if model.doubt == "dropout":
        return f"dropout at a rate of {getattr(model, 'dropout_', model.dropout):g}"
    return f"weights, a visit of a row worth {model.weight_posterior_.worth:.2g}"


def describe_structure(model: CircuitEstimator) -> str:
    """Where the circuit comes from, how large it is, and why it is that one, if it was to be chosen."""
    name = model._structure()
    if model.n_circuits > 1:
        name = f"{name}, {model.n_circuits} circuits"
    # A graph counts its nodes; a circuit of layers would have to be unrolled for it.
    n_nodes = getattr(model.circuit_, "n_nodes", None)
    if n_nodes is not None:
        name = f"{name} ({n_nodes:,} nodes)"
    reason = getattr(model, "structure_reason_", None)  # which files of before do not have
    return f"{name}: {reason}" if reason and model.structure == "auto" else name


def describe_training(model: CircuitEstimator) -> str:
    """How long the circuit was trained, if it was."""
    if not model.history_.epochs:
        return "none: structure and parameters are learned from the table"
    if model.n_circuits > 1:
        return f"{model.n_iter_:,} in all"
    return f"{model.n_iter_} (best: {model.history_.best + 1})"


def calibration_size(model: CircuitClassifierBase | CircuitOutlierDetector) -> int:
    """How many distinct rows the p-values compare with."""
    detector = getattr(model, "detector_", None)
    return len((model.conformal_ if detector is None else detector.calibration).scores)


def _describe(model: Any, path: Path) -> dict[str, str]:
    return {
        "file": f"{path} ({path.stat().st_size / 1e6:.1f} MB)",
        "model": type(model).__name__,
        **_describe_classes(model),
        **_describe_rows(model),
        "structure": describe_structure(model),
        "parameters": f"{model.circuit_.n_parameters:,}",
        "epochs": describe_training(model),
        **_describe_uncertainty(model),
        **_describe_rejection(model),
    }


def _describe_uncertainty(model: Any) -> dict[str, str]:
    """What is in doubt, of a model that says so: a density of images gives likelihoods alone."""
    if not hasattr(model, "doubt"):
        return {}
    return {"doubt": describe_doubt(model), **_describe_leaf_variance(model)}


def _describe_classes(model: Any) -> dict[str, str]:
    """The classes, of a model that has any."""
    if not hasattr(model, "classes_"):
        return {}
    classes = [str(label) for label in model.classes_]
    shown = ", ".join(classes[:SHOWN_CLASSES]) + (", ..." if len(classes) > SHOWN_CLASSES else "")
    return {"classes": f"{len(classes)}: {shown}"}


def _describe_rejection(model: Any) -> dict[str, str]:
    """Which rows are refused, by a model that refuses any."""
    if not hasattr(model, "rejection_rate"):
        return {}
    detects = hasattr(model, "detector_")
    return {
        **({"detector": _describe_detector(model)} if detects else {}),
        "rejection rate": f"{model.rejection_rate:g}",
        "calibration": describe_calibration(model),
        **(describe_risk(model) if detects else {}),
    }


def _describe_detector(model: CircuitClassifierBase) -> str:
    """Its name, and the weights of the scores that have a say."""
    if model.detector_.kind != "combined":
        return model.detector_.kind
    weights = sorted(model.detector_.weights.items(), key=lambda item: -item[1])
    return "combined: " + ", ".join(f"{name} {weight:.0%}" for name, weight in weights if weight > _LEAST_SHOWN)


def _describe_rows(model: Any) -> dict[str, str]:
    """What the rows are that a model was trained on."""
    if hasattr(model, "image_shape_"):
        return {"images": describe_image(model.image_shape_)}
    columns = model.table_.columns
    kinds = Counter(column.kind for column in columns)
    return {"columns": f"{len(columns):,}: " + ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())}


def _describe_leaf_variance(model: CircuitEstimator) -> dict[str, str]:
    given = model.leaf_variance
    if not isinstance(given, Mapping):
        return {"leaf variance": f"{given:g}"} if given else {}
    uncertain = ", ".join(f"{name} {variance:g}" for name, variance in given.items() if variance)
    return {"leaf variance": uncertain} if uncertain else {}
