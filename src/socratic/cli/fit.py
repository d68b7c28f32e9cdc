"""``socratic fit``: train a classifier on a table."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from socratic.cli.failures import UserError, describe, library_errors, library_warnings
from socratic.cli.parsing import (
    check_share,
    check_writable,
    parse_dropout,
    parse_image_shape,
    parse_leaves,
    parse_structure,
)

if TYPE_CHECKING:
    from socratic.estimators import CircuitClassifier

SHOWN_COLUMNS = 30


def fit(
    train: Annotated[Path, typer.Argument(metavar="TRAIN", help="Table to learn from: .csv, .csv.gz or .parquet.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the classes.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="The model file to write.")],
    leaf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=FAMILY",
            help="Leaf family of a column, such as visits=binomial. May be repeated.",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out. May be repeated.")
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column with the weights of rows.")] = None,
    drop_missing_target: Annotated[
        bool, typer.Option("--drop-missing-target", help="Leave out rows without a class.")
    ] = False,
    structure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Where the circuit comes from: random trees, spatial for images, or learned from the table: learnspn, "
            "chow-liu.",
        ),
    ] = "random",
    image_shape: Annotated[
        str | None,
        typer.Option(metavar="HxW[xC]", help="Shape of the images for --structure spatial; by default a square."),
    ] = None,
    dropout: Annotated[str, typer.Option(metavar="auto|RATE", help="Dropout rate of the uncertainty.")] = "auto",
    rejection_rate: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of familiar rows to reject, at most.")
    ] = 0.05,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Passes over the rows; by default chosen by their number.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the state of the training here; run again to resume from it."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")] = False,
) -> None:
    """Train a classifier on a table and write it to a file.

    Numbers become gaussian leaves, true and false bernoulli ones, text categorical ones. Empty cells and NA are
    missing values, which the model takes as they are.
    """
    leaves = parse_leaves(leaf or [])
    parse_structure(structure, epochs=epochs, checkpoint=checkpoint)
    shape = parse_image_shape(image_shape)
    rate, share = parse_dropout(dropout), check_share("--rejection-rate", rejection_rate)
    check_writable(output, train)
    if checkpoint is not None:
        check_writable(checkpoint, train)
        if checkpoint.absolute() == output.absolute():
            raise UserError(f"--checkpoint and --output are both {output}; choose another file for one of them")
    from socratic.cli.training import read_training

    table = read_training(
        train,
        target,
        leaves=leaves,
        drop=drop or [],
        weight=weight,
        drop_missing_target=drop_missing_target,
        quiet=quiet,
    )
    model = _train(
        table,
        quiet=quiet,
        structure=structure,
        image_shape=shape,
        leaf=leaves or None,
        dropout=rate,
        rejection_rate=share,
        n_epochs=epochs or "auto",
        random_state=seed,
        checkpoint=checkpoint,
        n_jobs=jobs,
        device=device,
    )
    # How the training was watched and kept is no part of what was learnt.
    model.set_params(checkpoint=None, verbose=False)
    _save(model, output)
    if not quiet:
        _summarise(model, table, output)


def _train(table: Any, *, quiet: bool, **settings: Any) -> CircuitClassifier:
    from socratic.cli.console import on_terminal, waiting

    with waiting("starting", quiet):
        import rich

        from socratic.cli.scoring import check_device
        from socratic.estimators import CircuitClassifier

        check_device(settings["device"])
        if settings["checkpoint"] is not None:
            _check_checkpoint(settings["checkpoint"], quiet)
        if not quiet:
            _show_columns(table, settings["leaf"])
    rich.reconfigure(stderr=True)  # the library's bar is a bystander's view, not output
    model = CircuitClassifier(**settings, verbose=on_terminal() and not quiet)
    with library_errors(), library_warnings():
        return model.fit(table.features, table.labels, table.weight)


def _save(model: CircuitClassifier, path: Path) -> None:
    """Write the model, elsewhere if it cannot be written where it should go: hours of training must not be lost."""
    import tempfile

    try:
        model.save(path)
    except OSError as error:
        reason = describe(error)
    else:
        return
    for folder in (tempfile.gettempdir(), Path.home()):
        spare = Path(folder) / f"{path.name}-{secrets.token_hex(4)}"
        with suppress(OSError):
            model.save(spare)
            raise UserError(f"cannot write the model ({reason}); it is in {spare} instead: move it where you want it")
    raise UserError(f"cannot write the model ({reason}), nor to {tempfile.gettempdir()}: make room and train again")


def _check_checkpoint(path: Path, quiet: bool) -> None:
    """Raise if there is a file that is no checkpoint: training would overwrite it."""
    if not path.exists():
        return
    from socratic.circuit.storage import read_config
    from socratic.cli.failures import complain
    from socratic.errors import ModelFileError
    from socratic.learning.checkpoint import FORMAT, VERSION

    try:
        done = len(read_config(path, FORMAT, VERSION)["epochs"])
    except (ModelFileError, LookupError, TypeError):
        raise UserError(f"{path} is there and is no checkpoint of a training; name another file for it") from None
    if not quiet:
        complain(f"found {path} after {done} epochs: resuming from it if data and settings are the same")


def _show_columns(table: Any, leaves: dict[str, str] | None) -> None:
    import numpy as np

    from socratic.cli.console import output
    from socratic.cli.info import column_table
    from socratic.tables.columns import fit_table
    from socratic.tables.raw import raw_table

    with library_errors():
        used = np.ones(len(table.labels), dtype=bool) if table.weight is None else table.weight > 0
        columns = fit_table(raw_table(table.features), used, leaves).columns
    output().print(column_table(columns, SHOWN_COLUMNS, scaled=False))


def _summarise(model: CircuitClassifier, table: Any, path: Path) -> None:
    from socratic.cli.console import output
    from socratic.cli.info import describe_calibration, describe_training, facts

    rows = f"{len(table.labels):,}"
    if table.n_dropped:
        rows += f" ({table.n_dropped:,} without a class left out)"
    lines = {
        "rows": rows,
        "classes": f"{len(model.classes_)}",
        "epochs": describe_training(model),
        "dropout": f"{model.dropout_:g}",
        "calibration": describe_calibration(model),
        "written": str(path),
    }
    output().print(facts(lines))
