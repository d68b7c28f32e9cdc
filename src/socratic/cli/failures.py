"""Mistakes become one line on stderr and exit code 2; anything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
import errno
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from socratic.errors import DataFileError, MissingExtraError
from socratic.workers import is_first_process

USER_MISTAKE = 2
INTERRUPTED = 130


class UserError(Exception):
    """A mistake of the user: the message names the problem and the fix."""


def complain(message: object) -> None:
    """Print one line on stderr, whatever the message holds."""
    print(f"socratic: {' '.join(str(message).split())}", file=sys.stderr, flush=True)


def run_guarded(action: Callable[[], int | None]) -> int:
    """Run ``action`` and return the exit code, having said what went wrong in one line."""
    from socratic.cli.parsing import UsageError

    try:
        with _termination_as_interrupt():
            code = action() or 0
    except (UserError, DataFileError, MissingExtraError, MemoryError) as error:
        complain(str(error) or "out of memory: use fewer rows or columns")
        return USER_MISTAKE
    except UsageError as error:
        hint = getattr(getattr(error, "ctx", None), "command_path", "socratic")
        complain(f"{error.format_message().rstrip('.')} (see '{hint} --help')")
        return USER_MISTAKE
    except OSError as error:
        complain(describe(error))
        return USER_MISTAKE
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        complain("interrupted")
    return code


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, with which schedulers and containers stop a program, do what Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def library_errors() -> Iterator[None]:
    """Errors with which the library refuses arguments, data or files are mistakes of the user."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error)) from error


@contextmanager
def library_warnings() -> Iterator[None]:
    """What the library warns of is said in one line, by the first of several processes."""
    from socratic.errors import CalibrationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always" if is_first_process() else "ignore", CalibrationWarning)
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        yield


def no_such_column(path: Path, missing: Sequence[str], names: Sequence[str], what: str = "column") -> UserError:
    """The error for columns that are not in a file, with names that look like them."""
    few, more = list(missing[:5]), len(missing) - 5
    listed = ", ".join(repr(name) for name in few) + (f" and {more} more" if more > 0 else "")
    alike = {name: close_names(name, names) for name in few}
    hints = "; ".join(
        f"did you mean {' or '.join(map(repr, found))}{'' if len(few) == 1 else f' for {name!r}'}?"
        for name, found in alike.items()
        if found
    )
    if not hints:
        shown = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        hints = f"it has {shown}"
    plural = what if len(missing) == 1 else f"{what}s"
    return UserError(f"{path} has no {plural} {listed}; {hints}")


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """At most two names that look like this one, whatever their case."""
    folded = {other.strip().casefold(): other for other in names}
    matches = difflib.get_close_matches(name.strip().casefold(), folded, n=2, cutoff=0.7)
    return [folded[match] for match in matches]


def describe(error: OSError) -> str:
    """What the system refused, in a few words."""
    if error.filename is None or error.strerror is None:
        return str(error)
    if isinstance(error, PermissionError):
        return f"no permission for {error.filename}; choose another place or change its permissions"
    hint = "; make room, or choose another place" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"{error.filename}: {error.strerror}{hint}"
