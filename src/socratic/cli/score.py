"""``socratic score``: a folder of tables of any size, file by file, from where the last run stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from socratic.cli.options import Device, Explain, Harmless, Prefix, Probabilities, Quiet

if TYPE_CHECKING:
    from socratic.scale import InputFile, Outcome, Summary

PROBLEMS_SHOWN, NAMES_SHOWN = 5, 50
REPORT_SECONDS = 60
"""How often a run that nobody watches says how far it is."""


def score(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file, of socratic fit or of save in Python: a path or URI.")
    ],
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="A folder of tables (.parquet, .csv or .csv.gz), at any depth: a path, or a URI such as s3://...",
        ),
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="Folder to write to: a path or URI; it may be new.")
    ],
    shard: Annotated[
        str,
        typer.Option(metavar="I/N", help="Score part I of N of the files, such as 2/8; the parts may run at once."),
    ] = "1/1",
    engine: Annotated[
        str, typer.Option(metavar="ENGINE", help="What shares out the files: local (this process), dask, ray or spark.")
    ] = "local",
    rescore: Annotated[
        bool,
        typer.Option("--rescore", help="Replace answers of another model, or of tables that have changed since."),
    ] = False,
    prefix: Prefix = "",
    probabilities: Probabilities = None,
    explain: Explain = None,
    harmless: Harmless = False,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Files to score at a time, each by a process of its own.")
    ] = 1,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Score a folder of tables of any size, and go on where an earlier run stopped.

    Every table gives one of the same name in OUT, with the columns of socratic predict, when all of its rows are
    answered. OUT/_manifest says what is done. A run that is killed is simply started again: no row is missing or
    twice. Changed tables and another model are named, and replaced with --rescore.
    """
    from socratic.cli.parsing import parse_shard

    part = parse_shard(shard)
    from socratic.cli.failures import library_errors
    from socratic.cli.scoring import check_device
    from socratic.scale import Columns, ModelScorer, score_files

    check_device(device)
    with library_errors():
        scorer = ModelScorer.of(model, Columns(prefix, probabilities, explain), device=device, harmless=harmless)
        watch = None if quiet else _watched
        summary = score_files(
            scorer, dataset, output, shard=part, rescore=rescore, engine=engine, n_jobs=jobs, watch=watch
        )
    _report(summary, scorer.load().model, output, quiet)


def _watched(left: Sequence[InputFile], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    """The outcomes, with a bar on a terminal and a line now and then elsewhere."""
    import time

    from socratic.cli.console import bar, on_terminal
    from socratic.cli.failures import complain

    total = sum(file.size for file in left)
    start = said = time.monotonic()
    n_bytes = n_rows = 0
    with bar("scoring", total) if on_terminal() else nullcontext(lambda _: None) as advance:
        for n_files, outcome in enumerate(outcomes, 1):
            yield outcome
            n_bytes += outcome.input.size
            n_rows += 0 if outcome.record is None else sum(outcome.record.verdicts.values())
            advance(n_bytes)
            now = time.monotonic()
            if not on_terminal() and now - said >= REPORT_SECONDS:
                said = now
                rate = f"{n_rows / (now - start):,.0f} rows a second"
                complain(f"{n_files:,} of {len(left):,} files, {n_bytes / max(total, 1):.0%}, {rate}")


def _report(summary: Summary, model: Any, output: str, quiet: bool) -> None:
    from socratic.cli.failures import UserError, complain
    from socratic.cli.scoring import say_counts, warn
    from socratic.errors import printable

    warn(model, summary.unknown)
    if summary.gone:
        complain(
            f"warning: {output} holds answers to {len(summary.gone):,} file(s) that are not in the dataset any more, "
            f"such as {printable(summary.gone[0])}"
        )
    if not quiet:
        n_files = len(summary.records)
        before = f" ({summary.n_before:,} before)" if summary.n_before else ""
        files = f"{n_files:,} file{'' if n_files == 1 else 's'}{before}"
        print(f"{files}, {say_counts(model, summary.verdicts)}, written to {output}")
    if summary.problems:
        for problem in summary.problems[:PROBLEMS_SHOWN]:
            complain(problem)
        names = ", ".join(map(printable, summary.failed[:NAMES_SHOWN]))
        more = len(summary.failed) - NAMES_SHOWN
        raise UserError(
            f"{len(summary.failed):,} file(s) cannot be scored; correct them or take them away, and start again: "
            f"{names}{f' and {more:,} more' if more > 0 else ''}"
        )
