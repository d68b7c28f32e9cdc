"""Files that appear completely or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A hidden file beside ``path`` to write to, which takes its name at the end; an error leaves nothing.

    Parameters
    ----------
    path : Path
        If it is a link, the link stays and the file that it leads to is replaced.
    shared : bool
        Whether several processes or threads may write ``path`` at once: the hidden file then has a name of its own
        for each. Otherwise the name is fixed, so that what a killed run left is replaced by the next one.
    """
    target = path.resolve()
    writer = f".{os.getpid()}.{threading.get_ident()}" if shared else ""
    draft = target.with_name(f".{target.name}{writer}.partial")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
