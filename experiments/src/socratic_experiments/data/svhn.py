"""SVHN, the street view house numbers: cropped digits in MATLAB files."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from socratic.errors import DataFileError
from socratic.images import Images

_IMAGE = (32, 32, 3)
_N_DIGITS = 10
# Deflate, which MATLAB files may be compressed with, never shrinks data further than this.
_MAX_COMPRESSION = 1032


def load_svhn(path: str | os.PathLike[str], *more: str | os.PathLike[str]) -> Images:
    """Read ``train_32x32.mat``, ``test_32x32.mat`` or ``extra_32x32.mat``; the file's label 10 becomes digit 0.

    Needs scipy, whose reader can crash, rather than raise, on some forged or damaged files: read files you trust.

    Parameters
    ----------
    path : path
        MATLAB file with the images ``X`` (32, 32, 3, N) of uint8 and the labels ``y``, N whole numbers from 1 to 10.
    *more : path
        Further files, whose images follow. The 531,131 extra images with the 73,257 training images are 1.9 GB, and
        reading them takes 3.5 GB.

    Raises
    ------
    DataFileError
        If a file is damaged, is no MATLAB file, or does not hold ``X`` and ``y`` as above.
    """
    sources = [Path(source) for source in (path, *more)]
    for source in sources:
        if not source.is_file():
            raise FileNotFoundError(f"no SVHN file at {source}")
    counts = [_count(source) for source in sources]
    images = np.empty((sum(counts), *_IMAGE), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.int64)
    n_read = 0
    # One file after the other into its place: no more than one of them is in memory besides the result.
    for source, count in zip(sources, counts, strict=True):
        part = slice(n_read, n_read + count)
        _read_into(source, images[part], labels[part])
        n_read += count
    return Images(images, labels, sources[0].stem)


def _count(source: Path) -> int:
    """Number of images that a file declares."""
    with source.open("rb") as file:
        variables = _parse(source, _scipy().whosmat, file)
    return _check_declared(source, {name: (shape, kind) for name, shape, kind in variables})


def _read_into(source: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Fill ``images`` (N, 32, 32, 3) and ``labels`` (N,) from a file."""
    with source.open("rb") as file:
        content = _parse(source, _scipy().loadmat, file, variable_names=("X", "y"))
    # scipy hands over a text in place of a variable that it cannot read, and of two with one name the first.
    found_images, found_labels = np.asarray(content.get("X")), np.asarray(content.get("y")).ravel()
    if (
        found_images.shape != (*_IMAGE, len(images))
        or found_images.dtype != np.uint8
        or len(found_labels) != len(labels)
    ):
        raise DataFileError(f"{source} is damaged: X and y do not hold what it declares; download it again")
    images[...] = found_images.transpose(3, 0, 1, 2)
    labels[...] = _digits(source, found_labels)


def _scipy() -> Any:
    try:
        import scipy.io
    except ImportError as error:
        raise ImportError("load_svhn needs scipy to read MATLAB files; install it by: pip install scipy") from error
    return scipy.io


def _parse(source: Path, parser: Any, file: BinaryIO, **options: Any) -> Any:
    try:
        return parser(file, **options)
    except Exception as error:  # a damaged file can make scipy raise almost anything
        raise DataFileError(
            f"{source} is damaged or no MATLAB file that scipy reads ({error}); download it again"
        ) from error


def _check_declared(source: Path, declared: dict[str, tuple[tuple[int, ...], str]]) -> int:
    """Number of images, after a check of the variables' shapes: before memory is taken for them."""
    for name in ("X", "y"):
        if name not in declared:
            found = ", ".join(declared) or "none"
            raise DataFileError(
                f"{source} is no SVHN file: the variable {name!r} is missing, found {found}; "
                "name a cropped-digits file such as train_32x32.mat"
            )
    shape, kind = declared["X"]
    if len(shape) != 4 or shape[:3] != _IMAGE or shape[3] < 1 or kind != "uint8":
        raise DataFileError(
            f"{source} is no SVHN file: X must hold uint8 of shape (32, 32, 3, N); found {kind} of shape {shape}"
        )
    n_labels = math.prod(declared["y"][0])
    if n_labels != shape[3]:
        raise DataFileError(f"{source} is damaged: it holds {shape[3]} images but {n_labels} labels; download it again")
    size = source.stat().st_size
    if math.prod(shape) > _MAX_COMPRESSION * size:
        raise DataFileError(
            f"{source} is damaged: it declares {shape[3]} images, more than its {size} bytes can hold; "
            "download it again"
        )
    return shape[3]


def _digits(source: Path, labels: np.ndarray) -> np.ndarray:
    """Digits (N,) of int64 from the labels 1 to 10; MATLAB may have stored those as floats."""
    if labels.dtype.kind not in "iuf":
        raise DataFileError(f"{source} is no SVHN file: y must hold whole numbers from 1 to 10; found {labels.dtype}")
    valid = np.isin(labels, np.arange(1, _N_DIGITS + 1))
    if not valid.all():
        raise DataFileError(
            f"{source} is no SVHN file: y must hold whole numbers from 1 to 10, where 10 means the digit 0; "
            f"found {labels[~valid][0]}"
        )
    return labels.astype(np.int64) % _N_DIGITS
