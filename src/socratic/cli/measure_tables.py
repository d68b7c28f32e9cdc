"""Measures of an evaluation as tables of text, for the terminal and for web pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from socratic.cli.console import short
from socratic.cli.info import describe_risk_confidence

if TYPE_CHECKING:
    from rich.console import Console

_MOST_CLASSES = 20
"""Of more classes no confusion matrix is shown; JSON has it."""
_SCORES = {"p_value": "p-value", "log_likelihood": "log-likelihood"}
"""Names of scores that are shown otherwise than they are in JSON."""


class Sheet(NamedTuple):
    """A table of text."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheets(measures: Mapping[str, Any]) -> list[Sheet]:
    """The measures of rows whose classes are known."""
    classes = measures["classes"]
    names = [short(str(each["class"]), 20) for each in classes]
    shown = [_summary(measures), _by_class(classes, names)]
    if len(names) <= _MOST_CLASSES:
        matrix = [[name, *map(str, row)] for name, row in zip(names, measures["confusion_matrix"], strict=True)]
        shown.append(Sheet("rows of each class, by the class predicted", ["class", *names], matrix))
    return shown


def print_sheet(console: Console, sheet: Sheet) -> None:
    """Print a sheet in the terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, heading in enumerate(sheet.headings):
        table.add_column(Text(heading), justify="right" if place and len(sheet.headings) > 2 else "left")
    for row in sheet.rows:
        table.add_row(*map(Text, row))
    if sheet.title:
        console.print(Text(sheet.title, style="italic"))
    console.print(table)


def named(score: str) -> str:
    """The name of a score as it is shown."""
    return _SCORES.get(score, score)


def _summary(measures: Mapping[str, Any]) -> Sheet:
    left_out = f" ({measures['rows_left_out']:,} left out)" if measures["rows_left_out"] else ""
    asked = f"at most {measures['rejection_rate']:g} of familiar rows"
    risk = measures["risk"]
    rows = [
        ("rows", f"{measures['rows']:,}{left_out}"),
        ("accuracy", _number(measures["accuracy"])),
        ("log-loss", _number(measures["log_loss"])),
        ("Brier score", _number(measures["brier_score"])),
        ("calibration error (ECE)", _number(measures["calibration_error"])),
        ("area under ROC (AUC)", _number(measures["auc"])),
    ]
    for kind, words in (("aurc", "risk-coverage (AURC)"), ("augrc", "generalised risk-coverage (AUGRC)")):
        rows += [(f"area under {words}, by {named(score)}", _number(area)) for score, area in measures[kind].items()]
    verdicts = measures["verdicts"]
    rows.append(("refused as unfamiliar", f"{verdicts['unfamiliar']:.4f} (asked for {asked})"))
    if risk is not None:
        rows.append(("refused as ambiguous", f"{verdicts['ambiguous']:.4f} (for a risk of {risk:g})"))
    error = measures["error_answered"]
    confidence = describe_risk_confidence(measures["risk_confidence"])
    promised = "" if risk is None else f" (asked for at most {risk:g}, {confidence})"
    rows += [
        ("answered", _number(measures["coverage"])),
        ("errors among answered rows", "none answered" if error is None else f"{error:.4f}{promised}"),
    ]
    return Sheet("", ("measure", "value"), rows)


def _by_class(classes: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Sheet:
    headings = ("class", "rows", "recall", "AUC", "unfamiliar", "ambiguous", "errors among answered")
    kinds = ("recall", "auc", "unfamiliar", "ambiguous", "error_answered")
    rows = [
        (name, f"{each['rows']:,}", *(_number(each[kind]) for kind in kinds))
        for name, each in zip(names, classes, strict=True)
    ]
    return Sheet("by class", headings, rows)


def others_sheet(others: Mapping[str, Any]) -> Sheet:
    """How well other rows are told apart."""
    rows = [
        [named(score), *(_number(found[kind]) for kind in ("auroc", "aupr", "fpr95"))]
        for score, found in others["scores"].items()
    ]
    for verdict in ("unfamiliar", "ambiguous"):
        rows.append([verdict, f"{others['verdicts'][verdict]:.1%} of them", "", ""])
    return Sheet(f"telling {others['rows']:,} other rows apart", ("score", "AUROC", "AUPR", "FPR95"), rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
