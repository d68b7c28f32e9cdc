"""IDX files, the format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np

from socratic.errors import DataFileError, check_choice
from socratic.images import Images

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_DIMENSIONS = 32  # what an array of any supported numpy may have
_CHUNK = 1 << 20
_SPLITS = {"train": ("train",), "test": ("t10k", "test")}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read one IDX file, gzipped or not: its content decides, not its name.

    Returns
    -------
    np.ndarray
        Of the shape and type that the file declares, in the machine's byte order.

    Raises
    ------
    DataFileError
        If the file is no IDX file, or holds less or more data than its header declares. The data are counted
        before memory for them is taken: a forged header costs none.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no IDX file at {source}")
    try:
        with open_packed(source) as file:
            dtype, shape = _read_header(source, file)
            start, n_bytes = file.tell(), math.prod(shape) * dtype.itemsize
            _check_length(source, shape, n_bytes, _count_bytes(file, n_bytes))
            file.seek(start)
            data = file.read(n_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(f"{source} is damaged: it cannot be decompressed ({error}); download it again") from error
    # astype copies, always: the result can be written to, the bytes read cannot.
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def load_idx_dataset(images_path: str | os.PathLike[str], labels_path: str | os.PathLike[str]) -> Images:
    """Read grey images and their labels from a pair of IDX files.

    The images are returned as stored: EMNIST stores rows as columns, so its letters lie on their side.

    Parameters
    ----------
    images_path : path
        IDX file of bytes (N, H, W).
    labels_path : path
        IDX file of whole numbers (N,), none below 0.
    """
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.dtype != np.uint8:
        raise DataFileError(
            f"images_path must hold uint8 of shape (N, H, W); {images_path} holds {images.dtype} of shape "
            f"{images.shape}: name the images first, the labels second"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataFileError(
            f"labels_path must hold whole numbers of shape (N,); {labels_path} holds {labels.dtype} of shape "
            f"{labels.shape}: name the images first, the labels second"
        )
    if len(images) != len(labels):
        raise DataFileError(
            f"{images_path} holds {len(images)} images but {labels_path} {len(labels)} labels; "
            "name two files of the same split"
        )
    if labels.min() < 0:
        raise DataFileError(f"labels_path must hold labels of at least 0; {labels_path} holds {labels.min()}")
    return Images(images[..., None], labels.astype(np.int64), Path(images_path).name.removesuffix(".gz"))


def find_idx(folder: str | os.PathLike[str], split: str) -> tuple[Path, Path]:
    """Find the images and the labels of a split, for :func:`load_idx_dataset`.

    Parameters
    ----------
    folder : path
        Folder that holds them, under the names they were published with: ``train-images-idx3-ubyte`` and
        ``train-labels-idx1-ubyte``, ``t10k-...`` or ``test-...``; with any prefix (``emnist-letters-train-...``),
        gzipped or not. Where a file lies there both ways, the unpacked one is taken.
    split : str
        ``"train"`` or ``"test"``.
    """
    check_choice("split", split, _SPLITS)
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"folder must be a folder with IDX files; there is none at {place}")
    images = _files_by_set(place, split, "images", 3)
    labels = _files_by_set(place, split, "labels", 1)
    pairs = {name: (images[name], labels[name]) for name in sorted(images.keys() & labels.keys())}
    if not pairs:
        wanted = " or ".join(
            f"[prefix-]{word}-images-idx3-ubyte[.gz] with [prefix-]{word}-labels-idx1-ubyte[.gz]"
            for word in _SPLITS[split]
        )
        found = ", ".join(file.name for file in (*images.values(), *labels.values())) or "neither"
        raise FileNotFoundError(f"no {split} images with labels in {place}: looked for {wanted}; found {found}")
    if len(pairs) > 1:
        found = ", ".join(images[name].name for name in pairs)
        raise ValueError(
            f"folder must hold one set of {split} images; {place} holds {len(pairs)}: {found}; "
            "name the files of one in load_idx_dataset(images_path, labels_path)"
        )
    return next(iter(pairs.values()))


def _files_by_set(folder: Path, split: str, content: str, n_dimensions: int) -> dict[str, Path]:
    """The files of a split with such content, by the part of their names that tells sets apart."""
    words = "|".join(_SPLITS[split])
    # Some mirrors write "images.idx3" for "images-idx3".
    pattern = re.compile(rf"((?:.+-)?(?:{words}))-{content}[-.]idx{n_dimensions}-ubyte(?:\.gz)?")
    files = {}
    # Backwards, so that an unpacked file comes after its .gz and replaces it.
    for path in sorted(folder.iterdir(), reverse=True):
        match = pattern.fullmatch(path.name)
        if match and path.is_file():
            files[match[1]] = path
    return files


def open_packed(source: Path) -> io.BufferedIOBase:
    """Open a file that may be gzipped: its content decides, not its name."""
    with source.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(source, "rb") if gzipped else source.open("rb")


def _read_header(source: Path, file: io.BufferedIOBase) -> tuple[np.dtype, tuple[int, ...]]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES or not 1 <= magic[3] <= _MAX_DIMENSIONS:
        codes = ", ".join(f"{code:02x}" for code in _DTYPES)
        raise DataFileError(
            f"{source} is no IDX file: it starts with the bytes [{magic.hex(' ')}]; expected 00 00, a type "
            f"({codes}) and a number of dimensions (01 to {_MAX_DIMENSIONS:02x})"
        )
    n_dimensions = magic[3]
    sizes = file.read(4 * n_dimensions)
    if len(sizes) < 4 * n_dimensions:
        raise DataFileError(
            f"{source} is damaged: it ends within its header, after {4 + len(sizes)} of {4 + 4 * n_dimensions} "
            "bytes; download it again"
        )
    shape = struct.unpack(f">{n_dimensions}I", sizes)
    if 0 in shape:
        raise DataFileError(f"{source} holds no data: its header declares the shape {shape}; download it again")
    return np.dtype(_DTYPES[magic[2]]), shape


def _count_bytes(file: io.BufferedIOBase, most: int) -> int:
    """Number of bytes left in ``file``; counting stops above ``most``, so that no file can unpack without end."""
    count = 0
    while count <= most and (chunk := file.read(min(_CHUNK, most + 1 - count))):
        count += len(chunk)
    return count


def _check_length(source: Path, shape: tuple[int, ...], n_bytes: int, found: int) -> None:
    if found != n_bytes:
        amount = f"only {found}" if found < n_bytes else "more"
        raise DataFileError(
            f"{source} is damaged: its header declares the shape {shape}, {n_bytes} bytes of data, but {amount} "
            "follow; download it again"
        )
