"""CIFAR-10 and CIFAR-100, the python and the binary version, unpacked or in the archive they come in."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, cast

import numpy as np

from socratic.errors import DataFileError, check_choice
from socratic.images import Images
from socratic_experiments.data.idx import open_packed
from socratic_experiments.data.pickles import read_pickle, to_array

_BINARY = ".bin"
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
# For each split, the batches of CIFAR-10 or those of CIFAR-100, and both again in the binary version.
_BATCHES = {
    "train": (_TRAIN, ("train",), tuple(f"{name}{_BINARY}" for name in _TRAIN), (f"train{_BINARY}",)),
    "test": (("test_batch",), ("test",), (f"test_batch{_BINARY}",), (f"test{_BINARY}",)),
}
_LABELS = {"labels": 10, "fine_labels": 100}
# The bytes before the pixels of each image in the binary version, by what they are: the one used comes last.
_BINARY_LABELS = (("labels",), ("coarse_labels", "fine_labels"))
_N_VALUES = 3 * 32 * 32
_MAX_BYTES = 1 << 28  # unpacked; the archives hold 190 million
_CHUNK = 1 << 20


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def load_cifar(path: str | os.PathLike[str], split: str | None = None) -> Images:
    """Read CIFAR-10, or CIFAR-100 with its 100 fine labels.

    The batches of the python version are pickles, but nothing in them is run: they are read as plain data and arrays,
    and refused if they ask for anything else.

    Parameters
    ----------
    path : path
        The unpacked folder (``cifar-10-batches-py``, ``cifar-100-python``, ``cifar-10-batches-bin`` or
        ``cifar-100-binary``), the archive as downloaded (``cifar-100-python.tar.gz`` or the like), or one batch
        (``data_batch_1``, ``test.bin``): those of the binary version are known by the ending ``.bin``.
    split : str, optional
        ``"train"`` or ``"test"``. A single batch needs none.

    Returns
    -------
    Images
        Images (N, 32, 32, 3), in the order of the batches.

    Raises
    ------
    DataFileError
        If a batch is damaged, is no CIFAR batch, or is no plain data. A forged file takes no more memory than a
        few times the largest batch.
    """
    source = Path(path)
    if split is not None:
        check_choice("split", split, _BATCHES)
    if source.is_dir():
        return _join(source, _needed(source, split), _folder_files(source, _names(split)))
    if not source.is_file():
        raise FileNotFoundError(f"no CIFAR folder, archive or batch at {source}")
    if _is_archive(source):
        return _join(source, _needed(source, split), _archive_files(source, _names(split)))
    stated = [key for key, kinds in _BATCHES.items() if any(source.name in names for names in kinds)]
    if split is not None and stated and split not in stated:
        raise ValueError(f"split must fit the batch; {source} is a batch of the {stated[0]} split, got {split!r}")
    with _unpacking(source), open_packed(source) as file:
        content = _read_all(source, file)
    return Images(*_parse(source, content), source.name)


def holds_cifar(folder: Path) -> bool:
    """Whether a folder has a batch of either set and either split."""
    return any((folder / name).is_file() for name in _names(None))


def _names(split: str | None) -> set[str]:
    splits = _BATCHES if split is None else (split,)
    return {name for key in splits for names in _BATCHES[key] for name in names}


def _needed(source: Path, split: str | None) -> str:
    if split is None:
        raise ValueError(f"split must be 'train' or 'test', as {source} may hold both; got None")
    return split


def _join(source: Path, split: str, files: Iterator[tuple[str, str, bytes]]) -> Images:
    """The images of all batches of a split, out of those found: (name, where it lies, content)."""
    parts = {name: _parse(where, content) for name, where, content in files}
    for names in _BATCHES[split]:
        missing = [name for name in names if name not in parts]
        if not missing:
            images, labels = zip(*(parts[name] for name in names), strict=True)
            name = source.name.removesuffix(".gz").removesuffix(".tgz").removesuffix(".tar")
            return Images(np.concatenate(images), np.concatenate(labels), name)
        if len(missing) < len(names):
            raise FileNotFoundError(f"{source} is incomplete: {', '.join(missing)} missing; download it again")
    wanted = " or ".join(", ".join(names) for names in _BATCHES[split])
    raise FileNotFoundError(f"no {split} batches of CIFAR in {source}: looked for {wanted}")


def _folder_files(folder: Path, wanted: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    for path in sorted(folder.iterdir()):
        if path.name in wanted and path.is_file():
            with path.open("rb") as file:
                yield path.name, str(path), _read_all(path, file)


def _archive_files(archive: Path, wanted: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
    """Files of an archive, read in passing: nothing is unpacked to the disk."""
    # In stream mode, and limited: also what tarfile itself reads, such as long names.
    with (
        _unpacking(archive),
        open_packed(archive) as file,
        tarfile.open(fileobj=cast(Any, _Limited(archive, file)), mode="r|") as members,
    ):
        for member in members:
            name = PurePosixPath(member.name).name
            content = members.extractfile(member) if member.isreg() and name in wanted else None
            if content is not None:
                where = f"{archive}/{name}"
                yield name, where, _read_all(where, content)


@contextmanager
def _unpacking(source: Path) -> Iterator[None]:
    """Whatever goes wrong in unpacking a file becomes an error that names the file."""
    try:
        yield
    except (DataFileError, PermissionError):
        raise
    except Exception as error:  # a damaged archive can make tarfile raise almost anything
        raise DataFileError(f"{source} is damaged: it cannot be unpacked ({error}); download it again") from error


class _Limited:
    """A file of which only so much can be read as any CIFAR file has."""

    def __init__(self, source: object, file: _Readable) -> None:
        self.source, self.file, self.count = source, file, 0

    def read(self, size: int, /) -> bytes:
        data = self.file.read(size)
        self.count += len(data)
        if self.count > _MAX_BYTES:
            raise DataFileError(f"{self.source} is no CIFAR file: it holds more than {_MAX_BYTES} bytes")
        return data


def _read_all(where: object, file: _Readable) -> bytes:
    limited = _Limited(where, file)
    return b"".join(iter(lambda: limited.read(_CHUNK), b""))


def _is_archive(source: Path) -> bool:
    with _unpacking(source), open_packed(source) as file:
        return file.read(262)[257:] == b"ustar"


def _parse(where: str | Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 32, 32, 3) and labels (N,) of a batch."""
    parse = _parse_binary if str(where).endswith(_BINARY) else _parse_pickle
    pixels, labels = parse(where, content)
    # Copied, so that each image lies together: (N, H, W, C).
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _parse_binary(where: str | Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 3072) and labels (N,) of a batch of the binary version: labels and pixels of one image after another.

    CIFAR-100 has a byte more for each image than CIFAR-10, which the length of the file tells.
    """
    names = next((names for names in _BINARY_LABELS if len(content) % (len(names) + _N_VALUES) == 0), None)
    if not content or names is None:
        raise DataFileError(
            f"{where} is damaged or no CIFAR batch: {len(content)} bytes are no whole number of images with their "
            "labels; download it again"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, len(names) + _N_VALUES)
    labels, n_classes = records[:, len(names) - 1], _LABELS[names[-1]]
    if labels.max() >= n_classes:
        raise DataFileError(
            f"{where} is no CIFAR batch: {names[-1]} must hold whole numbers from 0 to {n_classes - 1}; "
            f"found {labels.max()}; name a batch of the binary version"
        )
    return records[:, len(names) :], labels.astype(np.int64)


def _parse_pickle(where: str | Path, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 3072) and labels (N,) of a batch of the python version."""
    try:
        batch = read_pickle(content)
    except Exception as error:  # a damaged file can make the parser raise almost anything
        raise DataFileError(f"{where} is damaged or no CIFAR batch ({error}); download it again") from error
    try:
        if not isinstance(batch, dict) or "data" not in batch:
            raise ValueError("no entry 'data'")
        pixels = to_array(batch["data"])
        if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _N_VALUES or not len(pixels):
            raise ValueError(f"data must hold uint8 of shape (N, 3072); found {pixels.dtype} of shape {pixels.shape}")
        labels = _labels(batch, len(pixels))
    except ValueError as error:
        raise DataFileError(f"{where} is no CIFAR batch: {error}; name a batch of the python version") from error
    return pixels, labels


def _labels(batch: dict[str, Any], n_images: int) -> np.ndarray:
    name = next((name for name in _LABELS if name in batch), None)
    if name is None:
        raise ValueError(f"none of the entries {', '.join(map(repr, _LABELS))}")
    values, n_classes = batch[name], _LABELS[name]
    if not isinstance(values, list):
        values = to_array(values).ravel()
    if len(values) != n_images:
        raise ValueError(f"it holds {n_images} images but {len(values)} {name}")
    values = values if isinstance(values, list) else values.tolist()
    if any(type(value) is not int or not 0 <= value < n_classes for value in values):
        raise ValueError(f"{name} must hold whole numbers from 0 to {n_classes - 1}")
    return np.array(values, dtype=np.int64)
