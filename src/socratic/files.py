"""Files that appear completely or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["replacing"]

try:
    import fcntl
except ImportError:  # Windows: what a killed process left is not recognised there, and stays
    fcntl = None  # type: ignore[assignment]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of errors that say that a disk is full, or a file as long as it may be."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden file beside ``path`` to write to, which takes its name at the end; an error leaves nothing.

    Each writer has a draft of its own, so that several can write the same file at once: the last to finish wins. What
    a killed process left is removed by the next writer. New files get the permissions that the umask allows; a file
    that is replaced keeps its own.

    Parameters
    ----------
    path : Path
        If it is a link, the link stays and the file that it leads to is replaced.
    """
    target = path.resolve()
    _remove_abandoned(target)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.partial")
    lock = None
    try:  # from before the draft is there, so that an interrupt at any moment finds somebody to remove it
        lock = _create_locked(draft)
        mode = (target.stat() if target.exists() else os.fstat(lock)).st_mode & 0o777
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.chmod(mode)
        os.replace(draft, target)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        # Errors while writing name no file.
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            error.filename = str(path)
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _create_locked(draft: Path) -> int:
    """Make an empty file, and return a descriptor that holds its lock for as long as the writer lives."""
    while True:
        lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if fcntl is None:
            return lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        if draft.exists():
            return lock
        os.close(lock)  # another writer took it for abandoned before it was locked


def _remove_abandoned(target: Path) -> None:
    """Remove the drafts that nobody holds the lock of."""
    if fcntl is None:
        return
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8,16}}\.partial")
    with suppress(OSError):  # a folder that cannot be listed
        for name in filter(ours.fullmatch, os.listdir(target.parent)):
            with suppress(OSError), (target.parent / name).open("rb+") as file:  # being written, or not ours to remove
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (target.parent / name).unlink(missing_ok=True)
