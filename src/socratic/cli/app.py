"""The program ``socratic``: one file a command, each of which imports what it needs when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.evaluate import evaluate
from socratic.cli.export import export
from socratic.cli.failures import run_guarded
from socratic.cli.fit import fit
from socratic.cli.info import info
from socratic.cli.monitor import monitor
from socratic.cli.predict import predict
from socratic.cli.score import score
from socratic.cli.serve import serve
from socratic.cli.sign import sign

app = typer.Typer(
    name="socratic",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from socratic import __version__

        print(f"socratic {__version__}")
        raise typer.Exit


@app.callback()
def socratic(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Classifiers that know what they don't know: train them, predict with them, and see what they refuse."""


app.command()(fit)
app.command()(predict)
app.command()(score)
app.command()(evaluate)
app.command()(monitor)
app.command()(info)
app.command()(export)
app.command()(serve)
app.command()(sign)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where to write to.")] = Path(
        "socratic-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Decides everything random.")] = 0,
) -> None:
    """Train on handwritten digits, meet what is no digit, and write a report."""
    from socratic.cli.demo import run_demo

    run_demo(output, seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit with its code: 0, 2 for a mistake of the user, 3 for an alarm, 130 when interrupted."""
    given = None if arguments is None else list(arguments)
    sys.exit(run_guarded(lambda: app(given, prog_name="socratic", standalone_mode=False)))


def program() -> None:
    """The same as a process of its own."""
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int) and end.code:
            # Threads that read ahead may still run, and would abort an orderly exit; files are in order already.
            with suppress(BrokenPipeError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(end.code)
        raise
