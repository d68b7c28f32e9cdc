"""CIFAR batches, folders and archives for the tests, made as they are published."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any, Literal

import numpy as np

PIXELS = np.random.default_rng(0).integers(256, size=(4, 3072), dtype=np.uint8)
LABELS = [3, 0, 9, 1]


class Pickle:
    """A pickle written operation by operation: what Python 2 wrote, or nobody would."""

    def __init__(self) -> None:
        self.parts = [b"\x80\x02"]

    def text(self, value: bytes) -> Pickle:
        """A text of Python 2."""
        short = len(value) < 256
        head = b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))
        return self.raw(head + value)

    def raw(self, *values: bytes) -> Pickle:
        self.parts += values
        return self

    def name(self, module: str, name: str) -> Pickle:
        return self.raw(f"c{module}\n{name}\n".encode())

    def number(self, value: int) -> Pickle:
        return self.raw(b"J" + struct.pack("<i", value))

    def array(self, shape: tuple[int, ...], data: bytes, kind: bytes = b"u1") -> Pickle:
        self.name("numpy.core.multiarray", "_reconstruct").name("numpy", "ndarray").raw(b"K\0\x85").text(b"b")
        self.raw(b"\x87Rq\1(K\1(")
        for size in shape:
            self.number(size)
        self.raw(b"t").name("numpy", "dtype").text(kind).raw(b"K\0K\1\x87R(K\3").text(b"|")
        return self.raw(b"NNN").number(-1).number(-1).raw(b"K\0tb\x89").text(data).raw(b"tb")

    def end(self) -> bytes:
        return b"".join(self.parts) + b"."


def python2(
    pixels: np.ndarray = PIXELS, labels: list[int] = LABELS, name: bytes = b"labels", kind: bytes = b"u1"
) -> bytes:
    """A batch as Python 2 pickled it."""
    batch = Pickle().raw(b"}q\0(").text(b"batch_label").text(b"batch 1 of 1").text(name).raw(b"]q\2(")
    for label in labels:
        batch.number(label)
    batch.raw(b"e").text(b"data").array(pixels.shape, pixels.tobytes(), kind).text(b"filenames").raw(b"](")
    for number in range(len(pixels)):
        batch.text(b"image_%d.png" % number)
    return batch.raw(b"eu").end()


def batch_of(number: int, name: bytes = b"labels") -> bytes:
    """The batch with this number: its images differ from those of the others."""
    return python2(PIXELS + np.uint8(number), [number] * 4, name)


def cifar10() -> dict[str, bytes]:
    files = {f"data_batch_{number}": batch_of(number) for number in range(1, 6)}
    return {**files, "test_batch": batch_of(0), "batches.meta": b"not read", "readme.html": b"not read"}


def as_published(number: int) -> bytes:
    """The batch of CIFAR-100 with all its entries, coarse labels among them."""
    pixels, fine = PIXELS + np.uint8(number), [10, 99, 0, 7]
    batch = Pickle().raw(b"}q\0(").text(b"filenames").raw(b"](")
    for place in range(len(pixels)):
        batch.text(b"image_%d.png" % place)
    batch.raw(b"e").text(b"batch_label").text(b"training batch 1 of 1")
    for name, labels in ((b"fine_labels", fine), (b"coarse_labels", [1, 19, 0, 2])):
        batch.text(name).raw(b"](")
        for label in labels:
            batch.number(label)
        batch.raw(b"e")
    return batch.text(b"data").array(pixels.shape, pixels.tobytes()).raw(b"u").end()


def binary(pixels: np.ndarray, *labels: list[int]) -> bytes:
    """A batch of the binary version: one list of labels for CIFAR-10, coarse and fine ones for CIFAR-100."""
    return np.column_stack([*(np.array(values, dtype=np.uint8) for values in labels), pixels]).tobytes()


def cifar10_binary() -> dict[str, bytes]:
    names = ("test_batch.bin", *(f"data_batch_{number}.bin" for number in range(1, 6)))
    files = {name: binary(PIXELS + np.uint8(number), [number] * 4) for number, name in enumerate(names)}
    return {**files, "batches.meta.txt": b"not read", "readme.html": b"not read"}


def cifar100_binary() -> dict[str, bytes]:
    return {
        "train.bin": binary(PIXELS + np.uint8(1), [19] * 4, [99] * 4),
        "test.bin": binary(PIXELS, [1, 19, 0, 2], [10, 99, 0, 7]),
        "fine_label_names.txt": b"not read",
    }


def cifar100() -> dict[str, bytes]:
    """With fine labels only."""
    return {"train": batch_of(99, b"fine_labels"), "test": batch_of(0, b"fine_labels"), "meta": b"not read"}


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path: Path, files: dict[str, bytes], mode: Literal["w", "w:gz"] = "w:gz") -> Path:
    """The archive with its files in the reverse of their order, as order must not matter."""
    with tarfile.open(path, mode) as archive:
        for name, content in reversed(list(files.items())):
            member = tarfile.TarInfo(f"cifar-folder/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def as_images(pixels: np.ndarray) -> np.ndarray:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def python3(protocol: int, **changes: Any) -> bytes:
    """A batch as Python 3 pickles it; entries in ``changes`` come later and count."""
    return pickle.dumps({b"data": PIXELS, b"labels": LABELS, **changes}, protocol=protocol)
