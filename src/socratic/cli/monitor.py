"""``socratic monitor``: whether the rows of tables are still like those that a model was calibrated on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from socratic.cli.console import output, short, waiting, watched
from socratic.cli.failures import UserError, complain, library_errors, no_such_column
from socratic.cli.measure_tables import Sheet, print_sheet
from socratic.cli.options import Device, Jobs, Quiet

if TYPE_CHECKING:
    from socratic.estimators import DriftMonitor, DriftReport
    from socratic.estimators.tabular import TableEstimator
    from socratic.tables.columns import Unknown
    from socratic.tables.reading import TableSource

ALARM = 3
"""The exit code if there is an alarm."""


def monitor(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="Tables (.csv, .csv.gz or .parquet) in the order of their rows."),
    ],
    rate: Annotated[
        float | None,
        typer.Option(help="The permitted probability of a false alarm, however many rows there are; 0.01 by default."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from this file if it exists, and write it for the next run."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as JSON; - writes it to stdout instead.")
    ] = None,
    columns: Annotated[
        bool | None,
        typer.Option(help="Find out which columns have changed, which takes several times as long; by default it is."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides how ties are broken; 0 by default.")] = None,
    jobs: Jobs = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Watch the rows of tables, from the first to the last, for a change: since when, and in which columns.

    Rows are compared with the calibration rows of the model and all rows before them. While all of these are alike, the
    probability that there is ever an alarm is at most --rate. The exit code is 3 if there is an alarm, and 0 otherwise.
    An alarm stays in the file of --state: take a new one when the model has been fitted again.
    """
    from socratic.cli.evaluate import STDOUT
    from socratic.cli.parsing import check_writable
    from socratic.cli.scoring import load_any
    from socratic.tables.reading import open_source

    for path in (state, json):
        if path is not None and path != STDOUT:
            check_writable(path, model, *files)
    sources = [open_source(path) for path in files]

    with waiting("reading the model", quiet), library_errors():
        settings = {"rate": rate, "columns": columns, "seed": seed}
        given = {name: value for name, value in settings.items() if value is not None}
        watching = _monitor_of(load_any(model, device, jobs), model, state, given)
    read = [_watch(watching, source, quiet) for source in sources]
    report = watching.report
    if state is not None:
        watching.save(state)
    _tell(report, read, watching, json, quiet)
    if report.alarm:
        raise typer.Exit(ALARM)


class _Read(NamedTuple):
    """A table that was read."""

    path: Path
    first: int
    """The number of its first row among all that were ever watched, from 0."""


def _monitor_of(model: Any, path: Path, state: Path | None, given: dict[str, Any]) -> DriftMonitor:
    """A monitor of the model in a file, with the settings that were given; one that goes on, if there is a state."""
    from socratic.estimators import DriftMonitor
    from socratic.estimators.tabular import TableEstimator

    if not isinstance(model, TableEstimator):
        raise UserError(f"{path} holds a {type(model).__name__}; name a classifier or an outlier detector of tables")
    if state is None or not state.exists():
        return DriftMonitor(model, **given)
    watching = DriftMonitor.load(state, model)
    for name, value in given.items():
        if watching.settings[name] != value:
            raise UserError(
                f"{state} was begun with {name} {watching.settings[name]!r}, which cannot become {value!r}; leave it "
                "out, or take a new file for --state"
            )
    return watching


def _watch(watching: DriftMonitor, source: TableSource, quiet: bool) -> _Read:
    """Read a table to its end."""
    from socratic.scoring import encode_batch
    from socratic.tables.inputs import describe_unknown

    model: TableEstimator = watching.model
    missing = [column.name for column in model.table_.columns if column.name not in source.names]
    if missing:
        raise no_such_column(source.path, missing, source.names)
    first = watching.report.n_rows
    unknown: dict[str, Unknown] = {}
    for chunk in watched(source, f"reading {source.path.name}", quiet):
        watching.update_rows(encode_batch(model, chunk.batch, chunk.start, unknown))
    if unknown:
        complain(f"warning: {source.path}: {describe_unknown(unknown)}")
    return _Read(source.path, first)


def _tell(report: DriftReport, read: Sequence[_Read], watching: DriftMonitor, json: Path | None, quiet: bool) -> None:
    from socratic.cli.evaluate import STDOUT, as_json
    from socratic.pages import write_page

    content: dict[str, Any] = {
        **report.to_dict(),
        "files": [{"path": str(each.path), "first_row": each.first} for each in read],
    }
    if json == STDOUT:
        print(as_json(content), end="")
    elif json is not None:
        write_page(json, as_json(content))
    console = output(quiet=quiet or json == STDOUT)
    rate = watching.model.rejection_rate
    refused = f"{report.refused_share:.1%} refused ({rate:.1%} or less are expected of familiar rows)"
    console.print(f"{report.n_rows:,} rows, {refused}", soft_wrap=True)
    for line in _verdict(report, read):
        console.print(line, soft_wrap=True, markup=False)
    if report.columns:
        print_sheet(console, _changed(report))


def _verdict(report: DriftReport, read: Sequence[_Read]) -> list[str]:
    if report.alarm_row is None or report.since is None:
        return ["no alarm: nothing says that these rows are unlike those that the model was calibrated on"]
    return [
        f"ALARM: rows have changed since about {_place(report.since, read)}",
        f"shown by {_place(report.alarm_row, read)}, {report.alarm_row - report.since:,} rows later",
    ]


def _place(row: int, read: Sequence[_Read]) -> str:
    """A row, counted from 1 among all rows, and in its table."""
    here = next((each for each in reversed(read) if each.first <= row), None)
    where = "before these tables" if here is None else f"row {row - here.first + 1:,} of {here.path}"
    return f"row {row + 1:,} ({where})"


def _changed(report: DriftReport) -> Sheet:
    rows = [
        (
            short(column.name),
            f"{column.since + 1:,}",
            f"{column.alarm_row + 1:,}",
            "more surprising" if column.more_surprising else "less surprising, or missing",
        )
        for column in report.columns
    ]
    return Sheet("", ("changed", "since row", "shown by row", "than before"), rows)
