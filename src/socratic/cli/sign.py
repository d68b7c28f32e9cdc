"""``socratic sign``: vouch for a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from socratic.cli.failures import UserError, library_errors


def sign(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A model file, which gets the signature.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Your private key.")] = None,
    new_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a new private key there, and its public key to FILE.pub."),
    ] = None,
) -> None:
    """Sign a model file, so that others can see who vouches for it (Ed25519).

    They load it with --trusted FILE.pub, or socratic.load(path, trusted="FILE.pub").
    """
    if (model is None) != (key is None) or (model is None and new_key is None):
        raise UserError("socratic sign takes MODEL and --key FILE, or --new-key FILE to make a key first")
    from socratic import signing

    with library_errors():
        if new_key is not None:
            print(f"wrote {new_key}, which you keep to yourself, and {signing.new_key(new_key)}, for others")
        if model is not None and key is not None:
            from socratic.model_files import sign as sign_file

            print(f"signed {model} ({sign_file(model, key)[:16]})")
