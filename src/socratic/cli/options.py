"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column of a table with the classes.")]
DropMissingTarget = Annotated[bool, typer.Option("--drop-missing-target", help="Leave out rows without a class.")]
Prefix = Annotated[str, typer.Option(help="Put before the names of the new columns.")]
Probabilities = Annotated[
    bool | None, typer.Option(help="Add a column with the probability of each class; by default of up to 20 classes.")
]
Explain = Annotated[
    bool | None, typer.Option(help="Add the column reasons: why rows are not answered; by default if the model knows.")
]
Harmless = Annotated[
    bool,
    typer.Option("--harmless", help="Put an apostrophe before cells of a CSV file that a spreadsheet would run."),
]
Resize = Annotated[bool, typer.Option("--resize", help="Resize images to the size that the model was trained on.")]
Jobs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Threads to compute with.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, ...")]
Trusted = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A public key: refuse models that are not signed with it (see socratic sign)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")]
