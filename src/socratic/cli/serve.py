"""``socratic serve``: models over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.failures import UserError, library_errors
from socratic.cli.options import Device, Jobs, Trusted

TOKEN_VARIABLE = "SOCRATIC_TOKEN"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Files that socratic fit or save wrote: classifiers, detectors, densities; NAME=FILE gives a name.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; any but the machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes one that is free.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File with the token; otherwise {TOKEN_VARIABLE} may hold it."),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages that may ask, such as https://example.org; repeat it."),
    ] = None,
    wait_ms: Annotated[
        float, typer.Option(min=0.0, help="How long a request waits for others to be answered with, at most.")
    ] = 2.0,
    rows_together: Annotated[int, typer.Option(min=1, help="Rows that are answered together, at most.")] = 256,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests in work at a time.")] = 128,
    drift_window: Annotated[
        int, typer.Option(min=0, help="Last rows of each model that /v1/drift shows; 0 does not watch for drift.")
    ] = 1000,
    drift_folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep what /v1/drift knows in files there, to go on from after a restart."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.001, help="How long a request may take.")] = 30.0,
    trusted: Trusted = None,
    jobs: Jobs = None,
    device: Device = "auto",
) -> None:
    """Serve models over HTTP: answers with their doubts, verdicts and reasons.

    POST /v1/predict takes JSON, POST /v1/predict/batch tables, /v2 is the Open Inference Protocol; the front page says
    more. Ctrl-C or SIGTERM ends it when all requests that were accepted are answered.
    """
    from socratic.serve.settings import Settings

    with library_errors():
        settings = Settings(
            host=host,
            port=port,
            token=_token(token_file),
            origins=tuple(origin or ()),
            wait_ms=wait_ms,
            rows_together=rows_together,
            max_requests=max_requests,
            seconds=seconds,
            drift_window=drift_window,
            drift_folder=drift_folder,
        )
    from socratic.errors import import_extra

    for module in ("fastapi", "uvicorn", "prometheus_client", "pyarrow"):
        import_extra(module, "serve", "socratic serve")
    from socratic.cli.scoring import load_any
    from socratic.serve.model import served
    from socratic.serve.run import serve as run

    with library_errors():
        run([served(name, load_any(path, device, jobs, trusted)) for name, path in map(_named, models)], settings)


def _named(model: str) -> tuple[str, Path]:
    """The name and the file of a model, from NAME=FILE or FILE."""
    name, equals, path = model.partition("=")
    if equals and not Path(model).exists():
        return name, Path(path)
    return Path(model).stem, Path(model)


def _token(file: Path | None) -> str | None:
    """The token, from a file or the environment: command lines can be read by everybody on the machine."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--token-file {file} cannot be read: {error}") from None
    if not token:
        raise UserError(f"--token-file {file} is empty; write a token to it")
    return token
