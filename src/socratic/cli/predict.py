"""``socratic predict``: labels, doubts and verdicts for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from socratic.cli.failures import UserError

if TYPE_CHECKING:
    import numpy as np

    from socratic.cli.scoring import Scored

ADDED = ("label", "probability", "entropy", "uncertainty", "p_value", "verdict")


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table to predict: .csv, .csv.gz or .parquet.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="Table to write: .csv, .csv.gz or .parquet.")
    ],
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Predict the rows of a table, some at a time, and write them with these columns added.

    label and its probability; the entropy of the prediction; the uncertainty, which is the standard deviation of
    the probability under dropout; the p-value, which is small for unfamiliar rows; and the verdict, accept or reject.
    """
    from socratic.cli.parsing import check_writable
    from socratic.cli.tabular import open_source, suffix_of

    suffix_of(output)
    check_writable(output, data, model)
    source = open_source(data)
    taken = [prefix + name for name in ADDED if prefix + name in source.names]
    if taken:
        raise UserError(
            f"{data} has a column {taken[0]!r} already; give the new columns other names, such as with --prefix my_"
        )
    from socratic.cli.console import waiting, watched
    from socratic.cli.scoring import Scorer, load_model
    from socratic.cli.writing import open_sink

    with waiting("reading the model", quiet):
        scorer = Scorer(load_model(model, device, jobs))
    scorer.check_columns(source)
    n_rows = n_rejected = 0
    with open_sink(output, scorer.numeric) as sink:
        for chunk in watched(source, "predicting", quiet):
            scored = scorer.score(chunk)
            sink.write(chunk, {prefix + name: values for name, values in _columns(scored).items()})
            n_rows, n_rejected = n_rows + chunk.n_rows, n_rejected + int(scored.rejected.sum())
    scorer.warn_of_unknown()
    if not quiet:
        print(f"{n_rows:,} rows, {n_rejected:,} rejected ({n_rejected / n_rows:.1%}), written to {output}")


def _columns(scored: Scored) -> dict[str, np.ndarray]:
    import numpy as np

    verdict = np.where(scored.rejected, "reject", "accept")
    values = (scored.label, scored.probability, scored.entropy, scored.spread, scored.p_value, verdict)
    return dict(zip(ADDED, values, strict=True))
