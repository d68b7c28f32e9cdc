"""Results as JSON lines, one a figure: appended as they come, so that a run that was killed goes on where it was."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from socratic.files import replacing

RECORDS, SETTINGS = "records.jsonl", "settings.json"
_KEY = ("experiment", "train", "model", "method", "seed", "set", "role", "shift", "level", "masks", "dropout")


class Records:
    """The records of one results folder.

    Parameters
    ----------
    folder : Path
        Made, with its settings, when the first record comes.
    settings : mapping
        What the records depend on. A folder that holds records of other settings is refused.

    Raises
    ------
    ValueError
        If the folder holds results of other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        # As they will be read: a tuple comes back as a list.
        self._settings = json.loads(json.dumps(settings))
        if (folder / SETTINGS).exists():
            _check_same(folder, json.loads((folder / SETTINGS).read_text(encoding="utf-8")), self._settings)
        self._mend()
        self._done = {_key(record) for record in read_records(folder)}

    def __contains__(self, record: Mapping[str, Any]) -> bool:
        """Whether a record that agrees in everything that names it is there."""
        return _key(record) in self._done

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record, unless it is there."""
        if record in self:
            return
        if not (self.folder / SETTINGS).exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / SETTINGS) as draft:
                draft.write_text(json.dumps(self._settings, indent=2) + "\n", encoding="utf-8")
        line = json.dumps({name: _plain(value) for name, value in record.items()}, allow_nan=False)
        # One write to a file opened for appending: other processes may add records to the same file.
        handle = os.open(self.folder / RECORDS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, (line + "\n").encode())
        finally:
            os.close(handle)
        self._done.add(_key(record))

    def _mend(self) -> None:
        """End a line that a killed run left unfinished, so that the next record does not join it."""
        path = self.folder / RECORDS
        if path.exists() and path.stat().st_size:
            with path.open("rb+") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of a results folder, in the order in which they came; unfinished lines are left out."""
    path = folder / RECORDS
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in _KEY)


def _plain(value: Any) -> Any:
    """Numbers as JSON has them, with as many digits as a figure deserves; what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _check_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    other = [name for name in wanted if found.get(name) != wanted[name]]
    if other:
        differences = ", ".join(f"{name} {found.get(name)!r} instead of {wanted[name]!r}" for name in other)
        raise ValueError(
            f"{folder} holds results of other settings ({differences}); choose another folder, or delete this one"
        )
