"""``socratic export``: a model as an ONNX file, with the encoding of rows beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.failures import UserError
from socratic.cli.options import Quiet


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by socratic fit.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT.onnx", help="File to write; the encoding goes to OUT.json.")
    ],
    outputs: Annotated[
        list[str] | None,
        typer.Option("--give", metavar="NAME", help="An output, such as probabilities; by default all. Repeatable."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write what a model computes from encoded rows as an ONNX file, and how rows are encoded as JSON beside it.

    The outputs of a classifier are probabilities, log_likelihood, mean, std, entropy, mutual_information and p_value;
    of a density log_likelihood, relative_std and log_std, and of an outlier detector also p_value and unfamiliar; as
    far as the model has them. The number of rows is free.
    """
    from socratic.cli.parsing import check_writable

    if output.suffix != ".onnx":
        raise UserError(f"{output} must end in .onnx")
    check_writable(output, model)
    check_writable(output.with_suffix(".json"), model)
    from socratic.cli.console import waiting
    from socratic.cli.scoring import load_any
    from socratic.errors import MissingExtraError
    from socratic.export import export_onnx
    from socratic.export.models import exported

    with waiting("reading the model", quiet):
        loaded = load_any(model, "cpu")
    try:
        chosen = exported(loaded).choose(outputs)
        with waiting("recording what it computes", quiet):
            beside = export_onnx(loaded, output, chosen.names)
    except (MissingExtraError, ValueError) as error:
        raise UserError(str(error)) from error
    if not quiet:
        print(f"{', '.join(chosen.names)} written to {output}, the encoding of rows to {beside}")
        for name, reason in chosen.refused.items():
            print(f"not {name}: {reason}")
