"""Databases as LSUN publishes them, for the tests: encoded images under their hashes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import lmdb
import numpy as np
from PIL import Image


def picture(
    colour: tuple[int, int, int], kind: str = "JPEG", size: tuple[int, int] = (64, 40), mode: str = "RGB"
) -> bytes:
    """An image file of one colour; ``size`` is width and height, as Pillow has it."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).convert(mode).save(file, kind)
    return file.getvalue()


def write_database(folder: Path, images: Iterable[bytes] | Mapping[bytes, bytes]) -> Path:
    """A database of image files, under given keys or the hashes of their contents."""
    entries = images if isinstance(images, Mapping) else {hashlib.sha1(one).hexdigest().encode(): one for one in images}
    folder.mkdir(parents=True)
    with lmdb.open(str(folder), map_size=1 << 26) as environment, environment.begin(write=True) as transaction:
        for key, content in entries.items():
            transaction.put(key, content)
    return folder


def colours(images: np.ndarray) -> list[list[int]]:
    """The colour of each image, in tens: JPEG keeps it nearly."""
    return (images.mean(axis=(1, 2)) / 10).round().astype(int).tolist()
