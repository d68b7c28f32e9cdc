"""Training in a command: watched, resumable, and never lost once it is done."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from socratic.cli.console import on_terminal
from socratic.cli.failures import UserError, complain, describe, library_errors, library_warnings
from socratic.workers import is_first_process, is_lost_connection, working_together

if TYPE_CHECKING:
    from socratic.estimators.classification import CircuitClassifierBase


def train(model: CircuitClassifierBase, fit: Callable[[], Any], *, shard: bool, quiet: bool) -> None:
    """Call ``fit``, which fits a classifier, from its checkpoint if there is one, with all processes of torchrun.

    They may ``shard`` the circuit: see :func:`~socratic.workers.working_together`.
    """
    import rich

    from socratic.cli.scoring import check_device

    check_device(model.device)
    if model.checkpoint is not None:
        _check_checkpoint(Path(model.checkpoint), quiet)
    rich.reconfigure(stderr=True)  # the library's bar is a bystander's view, not output
    model.set_params(verbose=on_terminal() and not quiet)
    with library_errors(), library_warnings(), _lost_processes(), working_together(shard=shard):
        fit()
    # How the training was watched and kept is no part of what was learnt.
    model.set_params(checkpoint=None, verbose=False)


@contextmanager
def _lost_processes() -> Iterator[None]:
    """That another process failed is no bug of this one."""
    try:
        yield
    except RuntimeError as error:
        if not is_lost_connection(error):
            raise
        raise UserError(
            "another of the processes that train together is gone; see why, and start them again: with --checkpoint "
            "they go on after the last epoch that was finished"
        ) from error


def save(model: CircuitClassifierBase, path: Path) -> None:
    """Write a model, elsewhere if it cannot be written where it should go: hours of training must not be lost.

    Of several processes, which all have the same model, the first writes it.
    """
    if not is_first_process():
        return
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
    from socratic.errors import ModelFileError
    from socratic.learning.checkpoint import FORMAT, VERSION
    from socratic.model_files import read_tensors

    try:
        done = len(read_tensors(path, FORMAT, VERSION)[1]["epochs"])
    except (ModelFileError, LookupError, TypeError):
        raise UserError(f"{path} is there and is no checkpoint of a training; name another file for it") from None
    if not quiet:
        complain(f"found {path} after {done} epochs: resuming from it if data and settings are the same")
