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


def load_svhn(path: str | os.PathLike[str]) -> Images:
    """Read ``train_32x32.mat``, ``test_32x32.mat`` or ``extra_32x32.mat``; the file's label 10 becomes digit 0.

    Needs scipy, whose reader can crash, rather than raise, on some forged or damaged files: read files you trust.

    Parameters
    ----------
    path : path
        MATLAB file with the images ``X`` (32, 32, 3, N) of uint8 and the labels ``y``, N whole numbers from 1 to 10.

    Raises
    ------
    DataFileError
        If the file is damaged, is no MATLAB file, or does not hold ``X`` and ``y`` as above.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no SVHN file at {source}")
    try:
        import scipy.io
    except ImportError as error:
        raise ImportError("load_svhn needs scipy to read MATLAB files; install it by: pip install scipy") from error
    with source.open("rb") as file:
        variables = _parse(source, scipy.io.whosmat, file)
        n_images = _check_declared(source, {name: (shape, kind) for name, shape, kind in variables})
        file.seek(0)
        content = _parse(source, scipy.io.loadmat, file, variable_names=("X", "y"))
    # scipy hands over a text in place of a variable that it cannot read, and of two with one name the first.
    images, labels = np.asarray(content.get("X")), np.asarray(content.get("y")).ravel()
    if images.shape != (*_IMAGE, n_images) or images.dtype != np.uint8 or len(labels) != n_images:
        raise DataFileError(f"{source} is damaged: X and y do not hold what it declares; download it again")
    # Copied, so that each image lies together: (N, H, W, C).
    return Images(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), _digits(source, labels), source.stem)


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
