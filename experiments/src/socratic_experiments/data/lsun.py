"""LSUN, large scenes: LMDB databases of encoded images, one for each category and split."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from socratic.errors import DataFileError, check_choice, check_count, import_extra
from socratic.images import EncodedImage, Images, read_images, spread_evenly

_FILE = "data.mdb"
# For each split, how the names of its databases end. LSUN's test images come in one database, without categories;
# where that is not there, the validation images are what nobody trains on.
_ENDINGS = {"train": ("train_lmdb",), "test": ("test_lmdb", "val_lmdb")}
_SIZE = (32, 32)
_LIMIT = 10_000  # as many as LSUN has test images
_CHUNK = 256  # encoded images in memory at a time, some 30 kB each


def load_lsun(
    path: str | os.PathLike[str],
    split: str = "test",
    *,
    size: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Images:
    """Read LSUN's databases of JPEG, WebP or other images; needs lmdb and Pillow.

    Only the images asked for are read, a few hundred at a time: a database may be larger than memory.

    LMDB trusts its files and can crash, rather than raise, on some forged or damaged ones: read files you trust.

    Parameters
    ----------
    path : path
        The folder with the databases of all categories (``church_outdoor_val_lmdb``, ``bedroom_val_lmdb``, ...), or
        one such database.
    split : str
        ``"train"`` reads the databases whose names end in ``train_lmdb``; ``"test"`` reads ``test_lmdb``, or all that
        end in ``val_lmdb`` if there is none. If ``path`` is a database, it is read for both.
    size : tuple of int, optional
        Height and width that all images are resized to, whatever their proportions; by default 32 x 32.
    limit : int, optional
        Read at most so many images, by default 10,000: of each category its share, the first in the order of their
        keys. LSUN's keys are hashes, so that these are a sample like any other.

    Returns
    -------
    Images
        Coloured; the classes are the categories in the order of their names.

    Raises
    ------
    DataFileError
        If a database is damaged, cut short or empty, or an entry in it is no image. The error names the entry by
        its key.
    """
    check_choice("split", split, _ENDINGS)
    height, width = _SIZE if size is None else (check_count("height", size[0]), check_count("width", size[1]))
    databases = _find_databases(Path(path), split)
    n_most = _LIMIT if limit is None else check_count("limit", limit)
    shares = _shares([_n_entries(database) for database in databases], n_most)
    output = np.empty((sum(shares), height, width, 3), dtype=np.uint8)
    for database, end, share in zip(databases, np.cumsum(shares), shares, strict=True):
        _read_into(database, output[end - share : end])
    classes = tuple(_category(database) for database in databases)
    labels = np.repeat(np.arange(len(databases)), shares).astype(np.int64)
    return Images(output, labels, Path(path).absolute().name, classes)


def holds_lsun(folder: Path) -> bool:
    """Whether a folder is a database, or has folders with the names of LSUN's databases."""
    return (folder / _FILE).is_file() or any(entry.name.endswith("_lmdb") for entry in _subfolders(folder))


def _subfolders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir())


def _find_databases(folder: Path, split: str) -> list[Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"path must be an LMDB database of LSUN or a folder of them; there is none at {folder}")
    if (folder / _FILE).is_file():
        return [folder]
    subfolders = _subfolders(folder)
    for ending in _ENDINGS[split]:
        databases = [entry for entry in subfolders if entry.name.endswith(ending)]
        if databases:
            return databases
    wanted = " or ".join(_ENDINGS[split])
    found = ", ".join(entry.name for entry in subfolders if entry.name.endswith("_lmdb")) or "none"
    raise FileNotFoundError(
        f"no {split} images of LSUN in {folder}: looked for folders whose names end in {wanted}; found {found} "
        "(unpack archives first; the path of a database reads it, whatever its name)"
    )


def _category(database: Path) -> str:
    return re.sub(r"(_train|_val)?_lmdb$", "", database.absolute().name)


def _shares(counts: list[int], limit: int) -> list[int]:
    """Number of images to read of each category: all, or ``limit`` of them spread evenly."""
    categories = np.searchsorted(np.cumsum(counts), spread_evenly(sum(counts), limit), side="right")
    return np.bincount(categories, minlength=len(counts)).tolist()


def _n_entries(database: Path) -> int:
    with _reading(database) as transaction:
        n_entries = transaction.stat()["entries"]
    if n_entries == 0:
        raise DataFileError(f"{database} holds no images; download it again, or remove it")
    return n_entries


def _read_into(database: Path, output: np.ndarray) -> None:
    """Fill ``output`` (N, H, W, 3) with the first N images of a database."""
    n_read = 0
    with _reading(database) as transaction:
        entries = islice(transaction.cursor(), len(output))
        while chunk := [_encoded(database, *entry) for entry in islice(entries, _CHUNK)]:
            height, width = output.shape[1:3]
            output[n_read : n_read + len(chunk)] = read_images(chunk, (height, width), resize=True, n_channels=3)
            n_read += len(chunk)
    if n_read < len(output):
        raise DataFileError(f"{database / _FILE} is damaged: it has fewer entries than it says; download it again")


def _encoded(database: Path, key: bytes, content: bytes) -> EncodedImage:
    return EncodedImage(f"{database}, image {key.decode(errors='backslashreplace')},", content)


@contextmanager
def _reading(database: Path) -> Iterator[Any]:
    """A transaction on a database."""
    lmdb = import_extra("lmdb", "lsun", "reading LSUN", distribution="socratic-experiments")
    file = database / _FILE
    if not file.is_file():
        raise FileNotFoundError(f"{database} is no LMDB database: there is no {_FILE} in it; unpack it again")
    file.open("rb").close()  # if it may not be read, Python says so more clearly than LMDB
    try:
        # Without a lock, so that nothing is written; without reading ahead, as most of a large database is not wanted.
        with lmdb.open(str(database), readonly=True, lock=False, create=False, readahead=False) as environment:
            # LMDB maps the file into memory: past its end, the process would be killed.
            declared = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
            if file.stat().st_size < declared:
                raise DataFileError(
                    f"{file} is cut short: it has {file.stat().st_size} of {declared} bytes; download it again"
                )
            with environment.begin() as transaction:
                yield transaction
    except lmdb.Error as error:
        raise DataFileError(f"{file} is damaged or no LMDB database ({error}); download it again") from error
