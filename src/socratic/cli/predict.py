"""``socratic predict``: labels, doubts and verdicts for the rows of a table or the images of a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.failures import UserError


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="What to predict: a table (.csv, .csv.gz or .parquet), or a folder of images, at any depth.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="Table to write: .csv, .csv.gz or .parquet.")
    ],
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Add the column reasons: the three columns that speak most against each row."),
    ] = False,
    resize: Annotated[
        bool, typer.Option("--resize", help="Resize images to the size that the model was trained on.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Predict the rows of a table, some at a time, and write them with these columns added.

    Of a folder of images, the rows are the paths of the files.

    label and its probability; the entropy of the prediction; std, the standard deviation of the probability over what
    the model doubts; the p-value, which is small for unfamiliar rows; and the verdict, familiar or unfamiliar. With
    --explain, also the reasons: the columns, or regions of an image, that are most surprising given all others.
    """
    from socratic.cli.folders import open_rows
    from socratic.cli.parsing import check_writable
    from socratic.tables.reading import suffix_of

    suffix_of(output)
    check_writable(output, data, model)
    source = open_rows(data)
    from socratic.cli.console import waiting, watched
    from socratic.cli.scoring import check_columns, load_scorer, warn
    from socratic.scoring import ANSWER_COLUMNS, REASONS_COLUMN
    from socratic.tables.writing import open_sink

    names = [prefix + name for name in (*ANSWER_COLUMNS, *([REASONS_COLUMN] if explain else []))]
    taken = [name for name in names if name in source.names]
    if taken:
        raise UserError(
            f"{data} has a column {taken[0]!r} already; give the new columns other names, such as with --prefix my_"
        )
    with waiting("reading the model", quiet):
        scorer = load_scorer(model, device, jobs, resize=resize)
    check_columns(scorer, source)
    n_rows = n_refused = 0
    with open_sink(output, scorer.numeric) as sink:
        for chunk in watched(source, "predicting", quiet):
            answer = scorer.answer(chunk.batch, chunk.start)
            added = scorer.to_batch(answer)
            if explain:
                added = added.append_column(REASONS_COLUMN, scorer.reasons(chunk.batch, chunk.start))
            sink.write(chunk.batch, added.rename_columns(names))
            n_rows, n_refused = n_rows + chunk.batch.num_rows, n_refused + int(scorer.model.is_rejected(answer).sum())
    warn(scorer)
    if not quiet:
        print(f"{n_rows:,} rows, {n_refused:,} unfamiliar ({n_refused / n_rows:.1%}), written to {output}")
