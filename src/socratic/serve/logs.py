"""The log of a server, which nobody who asks can fill a disk with."""

from __future__ import annotations

import logging
import time

_MOST_LINES, _MOST_KINDS = 20, 100
_SECONDS = 60.0


class Sparing(logging.Filter):
    """Lets through 20 lines of a kind a minute; the last of them says that others are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._since = 0.0
        self._n_lines: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        now = time.monotonic()
        if now - self._since > _SECONDS:
            self._since, self._n_lines = now, {}
        kind = (record.name, str(record.msg)[:40])
        if kind not in self._n_lines and len(self._n_lines) >= _MOST_KINDS:
            kind = ("", "")  # all others together
        n_lines = self._n_lines[kind] = self._n_lines.get(kind, 0) + 1
        if n_lines == _MOST_LINES:
            record.msg = f"{record.msg} (more of this kind are left out for up to a minute)"
        return n_lines <= _MOST_LINES


def begin_log() -> None:
    """Log to standard error, sparingly."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing())
