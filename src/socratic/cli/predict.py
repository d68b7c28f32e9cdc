"""``socratic predict``: labels, doubts and verdicts for the rows of a table or the images of a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.options import Device, Explain, Harmless, Jobs, Prefix, Probabilities, Quiet, Resize, Trusted


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model file: of socratic fit, or of save in Python.")
    ],
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
    prefix: Prefix = "",
    probabilities: Probabilities = None,
    explain: Explain = None,
    harmless: Harmless = False,
    resize: Resize = False,
    trusted: Trusted = None,
    jobs: Jobs = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table, some at a time, and write them with these columns added.

    Of a folder of images, the rows are the paths of the files.

    label and its probability; the entropy of the prediction; std, the standard deviation of the probability over what
    the model doubts; the p-value, which is small for unfamiliar rows; the smallest risk at which the row would be
    answered; and the verdict, familiar, unfamiliar or ambiguous (if the model was fitted with --risk). Then the
    probability of each class, p(CLASS); and the reasons: of unfamiliar rows the three columns, or regions of an image,
    that are most surprising given all others, of ambiguous ones the two most probable classes.

    Of an outlier detector: log_likelihood and log_std, its standard deviation; p_value, verdict and reasons. Of a
    density: log_likelihood and log_std, of images log_likelihood alone.
    """
    from socratic.cli.failures import UserError, library_errors
    from socratic.cli.folders import open_rows
    from socratic.cli.parsing import check_writable
    from socratic.tables.reading import suffix_of

    suffix = suffix_of(output)
    if harmless and suffix == ".parquet":
        raise UserError(f"--harmless is for CSV files, whose cells spreadsheets run; {output} is to be a Parquet file")
    check_writable(output, data, model)
    source = open_rows(data)
    from socratic.cli.console import waiting, watched
    from socratic.cli.scoring import check_columns, load_scorer, say_counts, warn
    from socratic.scoring import Columns
    from socratic.tables.writing import open_sink

    with waiting("reading the model", quiet):
        scorer = load_scorer(model, device, jobs, resize=resize, trusted=trusted)
    check_columns(scorer, source)
    with library_errors():
        columns = scorer.chosen(Columns(prefix, probabilities, explain))
    scorer.check_names(columns, source.names, data)
    counts: Counter[str | None] = Counter()
    with open_sink(output, scorer.numeric, harmless=harmless) as sink:
        for chunk in watched(source, "predicting", quiet):
            said = scorer(chunk.batch, chunk.start, columns)
            sink.write(chunk.batch, said)
            counts.update(columns.verdicts(said))
    warn(scorer.model, scorer.unknown)
    if not quiet:
        print(f"{say_counts(scorer.model, counts)}, written to {output}")
