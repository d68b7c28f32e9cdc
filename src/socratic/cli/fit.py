"""``socratic fit``: train a classifier on a table, a folder of them, or a folder of images."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from socratic.cli.failures import UserError, library_errors
from socratic.cli.options import Device, DropMissingTarget, Jobs, Quiet, Target
from socratic.cli.parsing import (
    IMAGE_STRUCTURES,
    STRUCTURES,
    check_risk,
    check_share,
    check_time_budget,
    check_writable,
    parse_doubt,
    parse_dropout,
    parse_image_shape,
    parse_leaf_variance,
    parse_leaves,
    parse_risk_confidence,
    parse_structure,
)
from socratic.workers import is_first_process

if TYPE_CHECKING:
    from socratic.cli.training_table import TrainingTable
    from socratic.estimators.classification import CircuitClassifierBase

SHOWN_COLUMNS = 30


def fit(
    train: Annotated[
        Path,
        typer.Argument(
            metavar="TRAIN",
            help="A table to learn from (.csv, .csv.gz or .parquet); a folder of Parquet files, of any size; or a "
            "folder of images, one subfolder a class.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="The model file to write.")],
    target: Target = None,
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
    drop_missing_target: DropMissingTarget = False,
    structure: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where the circuit comes from: a forest and kernels (auto, by default for tables), random trees, "
            "spatial ones (for images), or learned from the table: hidden-chow-liu, learnspn, chow-liu.",
        ),
    ] = None,
    time_budget: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long --structure auto may try a forest, learnspn and random trees, to take what answers best for "
            "held-out rows. By default it takes a forest, and tries nothing.",
        ),
    ] = 0.0,
    image_shape: Annotated[
        str | None,
        typer.Option(
            metavar="HxW[xC]",
            help="Shape that the images of a folder are resized to. Of a table: what its rows are images of, for "
            "--structure spatial; by default a square.",
        ),
    ] = None,
    circuits: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Circuits to train, whose answers are averaged: more accurate, and as many times slower.",
        ),
    ] = 1,
    doubt: Annotated[
        str,
        typer.Option(
            metavar="weights|dropout",
            help="What the uncertainty is about: weights, which finitely many rows taught, or sums under dropout.",
        ),
    ] = "weights",
    dropout: Annotated[
        str, typer.Option(metavar="auto|RATE", help="Dropout rate of the uncertainty, for --doubt dropout.")
    ] = "auto",
    leaf_variance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[COLUMN=]VARIANCE",
            help="Prior doubt beside that: relative variance of the densities of all values, or of a column's. May "
            "be repeated for columns.",
        ),
    ] = None,
    rejection_rate: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of familiar rows to reject, at most.")
    ] = 0.05,
    risk: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of errors among answered rows, at most: rows whose classes are too close for that are "
            "ambiguous. By default none are.",
        ),
    ] = None,
    risk_confidence: Annotated[
        str,
        typer.Option(
            metavar="SHARE|mean",
            help="How sure to be that --risk is kept, such as 0.9: answers fewer rows than mean, which keeps it on "
            "average over calibrations.",
        ),
    ] = "mean",
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Passes over the rows; by default chosen by their number.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Decides everything random.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the state of the training here; run again to resume from it."),
    ] = None,
    shard: Annotated[
        bool,
        typer.Option(
            "--shard",
            help="Under torchrun: divide parameters and the optimiser's state among the processes, for circuits too "
            "large to train on one GPU. Slower.",
        ),
    ] = False,
    jobs: Jobs = None,
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train a classifier on a table, or on a folder of tables or images, and write it to a file.

    Numbers become gaussian leaves, true and false bernoulli ones, text categorical ones. Empty cells and NA are
    missing values, which the model takes as they are. The Parquet files of a folder need not fit in memory: random
    trees are trained on them.
    """
    quiet = quiet or not is_first_process()
    settings: dict[str, Any] = {
        "n_circuits": circuits,
        "doubt": parse_doubt(doubt),
        "dropout": parse_dropout(dropout, doubt),
        "leaf_variance": parse_leaf_variance(leaf_variance or []),
        "rejection_rate": check_share("--rejection-rate", rejection_rate),
        "risk": check_risk(risk),
        "risk_confidence": parse_risk_confidence(risk_confidence),
        "n_epochs": epochs or "auto",
        "random_state": seed,
        "checkpoint": checkpoint,
        "n_jobs": jobs,
        "device": device,
    }
    shape = parse_image_shape(image_shape)
    check_writable(output, train)
    if checkpoint is not None:
        check_writable(checkpoint, train)
        if checkpoint.absolute() == output.absolute():
            raise UserError(f"--checkpoint and --output are both {output}; choose another file for one of them")
    options = {"leaf": leaf, "drop": drop, "weight": weight, "drop_missing_target": drop_missing_target}
    if train.is_dir() and not _holds_tables(train, of_any_kind=target is not None):
        _check_none_given(train, target=target, time_budget=time_budget, **options)
        if isinstance(settings["leaf_variance"], dict):
            raise UserError(f"--leaf-variance of a column is for tables; {train} is a folder of images: give a number")
        settings["structure"] = parse_structure(structure or "spatial", IMAGE_STRUCTURES)
        model, facts = _fit_images(train, shape, settings, shard=shard, quiet=quiet)
    else:
        if target is None:
            raise UserError("a table needs --target, the column with the classes (see 'socratic fit --help')")
        settings["structure"] = parse_structure(structure or "auto", STRUCTURES, epochs=epochs, checkpoint=checkpoint)
        settings["time_budget"] = check_time_budget(time_budget, settings["structure"])
        settings |= {"image_shape": shape, "leaf": parse_leaves(leaf or [])}
        fit_rows = _fit_folder if train.is_dir() else _fit_table
        model, facts = fit_rows(train, target, options, settings, shard=shard, quiet=quiet)
    from socratic.cli.training import save

    save(model, output)
    if not quiet:
        _summarise(model, facts, output)


def _holds_tables(folder: Path, *, of_any_kind: bool) -> bool:
    """Whether there is a Parquet file in a folder, at any depth, or a table of any kind."""
    from socratic.tables.reading import SUFFIXES

    suffixes = SUFFIXES if of_any_kind else (".parquet",)
    return any(path.name.lower().endswith(suffixes) and path.is_file() for path in folder.rglob("*"))


def _check_none_given(folder: Path, **options: Any) -> None:
    for name, given in options.items():
        if given:
            raise UserError(f"--{name.replace('_', '-')} is for tables; {folder} is a folder of images")


def _fit_table(
    path: Path, target: str, options: dict[str, Any], settings: dict[str, Any], *, shard: bool, quiet: bool
) -> tuple[CircuitClassifierBase, dict[str, str]]:
    """A fitted classifier of a table, and what it was fitted to."""
    from socratic.cli.console import waiting
    from socratic.cli.training_table import read_training

    variances = settings["leaf_variance"]
    uncertain = list(variances) if isinstance(variances, dict) else []
    options = {**options, "leaf": settings["leaf"], "uncertain": uncertain, "drop": options["drop"] or []}
    table = read_training(path, target, **options, quiet=quiet)
    with waiting("starting", quiet):
        from socratic.cli.training import train
        from socratic.estimators import CircuitClassifier

        if not quiet:
            _show_columns(table, settings["leaf"])
    model = CircuitClassifier(**settings)
    train(model, partial(model.fit, table.features, table.labels, table.weight), shard=shard, quiet=quiet)
    left_out = f" ({table.n_dropped:,} without a class left out)" if table.n_dropped else ""
    return model, {"rows": f"{len(table.labels):,}{left_out}"}


def _fit_folder(
    folder: Path, target: str, options: dict[str, Any], settings: dict[str, Any], *, shard: bool, quiet: bool
) -> tuple[CircuitClassifierBase, dict[str, str]]:
    """A fitted classifier of a folder of Parquet files, and what it was fitted to."""
    from socratic.cli.console import output, waiting

    with waiting("starting", quiet):
        from socratic.cli.info import column_table
        from socratic.cli.training import train
        from socratic.estimators import CircuitClassifier
        from socratic.estimators.streaming import fit_to_files
        from socratic.scale.fitting import open_files
    with library_errors():
        chosen = {**options, "drop": options["drop"] or [], "leaf": settings["leaf"]}
        files = open_files(folder, target=target, **chosen)
    model = CircuitClassifier(**settings)
    train(model, partial(fit_to_files, model, files), shard=shard, quiet=quiet)
    if not quiet:
        output().print(column_table(model.table_.columns, SHOWN_COLUMNS))
    return model, {"rows": f"{files.files.n_rows:,} in {len(files.files.files):,} files"}


def _fit_images(
    folder: Path, shape: tuple[int, ...] | None, settings: dict[str, Any], *, shard: bool, quiet: bool
) -> tuple[CircuitClassifierBase, dict[str, str]]:
    """A fitted classifier of images, and what it was fitted to."""
    from socratic.cli.console import waiting
    from socratic.cli.folders import read_training_images

    with waiting("reading images", quiet):
        images, labels = read_training_images(folder, shape)
    with waiting("starting", quiet):
        from socratic.cli.info import describe_image
        from socratic.cli.training import train
        from socratic.estimators import CircuitImageClassifier
    model = CircuitImageClassifier(**settings)
    train(model, partial(model.fit, images, labels), shard=shard, quiet=quiet)
    return model, {"images": f"{len(images):,}, {describe_image(model.image_shape_)}"}


def _show_columns(table: TrainingTable, leaves: dict[str, str]) -> None:
    import numpy as np

    from socratic.cli.console import output
    from socratic.cli.info import column_table
    from socratic.tables.columns import fit_table
    from socratic.tables.raw import raw_table

    with library_errors():
        used = np.ones(len(table.labels), dtype=bool) if table.weight is None else table.weight > 0
        columns = fit_table(raw_table(table.features), used, leaves).columns
    output().print(column_table(columns, SHOWN_COLUMNS, scaled=False))


def _summarise(model: CircuitClassifierBase, data: dict[str, str], path: Path) -> None:
    from socratic.cli.console import output
    from socratic.cli.info import (
        describe_calibration,
        describe_doubt,
        describe_risk,
        describe_structure,
        describe_training,
        facts,
    )

    lines = {
        **data,
        "classes": f"{len(model.classes_)}",
        "structure": describe_structure(model),
        "epochs": describe_training(model),
        "doubt": describe_doubt(model),
        "calibration": describe_calibration(model),
        **describe_risk(model),
        "written": str(path),
    }
    output().print(facts(lines))
