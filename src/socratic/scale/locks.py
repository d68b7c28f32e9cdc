"""Locks that last as long as the process that holds them, however it ends."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class Lock:
    """The lock of a file: of one process alone, or shared by several.

    Processes that begin as copies of the one that holds it hold it too. Where files cannot be locked, as in an object
    store or a folder that cannot be written to, it is there for everybody.

    Parameters
    ----------
    path : Path or None
        Made if it is missing, and left when the lock is given back; None where files are not on this machine.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: int | None = None
        if path is None or fcntl is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return

    @property
    def works(self) -> bool:
        """Whether the file can be locked."""
        return self._file is not None

    def take(self) -> bool:
        """Have it alone, if nobody else has it."""
        return self._lock(alone=True)

    def share(self) -> None:
        """Share it, once nobody has it alone any more."""
        self._lock(alone=False)

    def _lock(self, *, alone: bool) -> bool:
        if self._file is None:
            return True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            self._close()
        return True

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._close()
