from __future__ import annotations

import gzip
import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import socratic
from socratic.errors import DataFileError
from socratic.images import Images
from socratic_experiments.data import find_idx, load_idx_dataset, read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
PIXELS = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
LABELS = np.array([2, 0, 9], dtype=np.uint8)


def header(code: int, *shape: int) -> bytes:
    return struct.pack(f">HBB{len(shape)}I", 0, code, len(shape), *shape)


def idx(array: np.ndarray) -> bytes:
    """The array as an IDX file."""
    kind = array.dtype.str[1:]
    return header(CODES[kind], *array.shape) + array.astype(f">{kind}").tobytes()


def write(path: Path, content: bytes, *, packed: bool = False) -> Path:
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("shape", [(7,), (2, 3), (2, 3, 4), (1, 2, 1, 3), (1,) * 32])
def test_every_type_and_shape_comes_back(tmp_path: Path, kind: str, shape: tuple[int, ...], packed: bool) -> None:
    values = np.random.default_rng(0).normal(scale=50.0, size=shape).clip(-100, 100)
    array = (np.abs(values) if kind == "u1" else values).astype(kind)
    found = read_idx(write(tmp_path / "file", idx(array), packed=packed))
    assert found.dtype == array.dtype
    assert found.dtype.isnative
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array)


def test_the_content_decides_whether_a_file_is_gzipped(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_idx(write(tmp_path / "plain.gz", idx(PIXELS))), PIXELS)
    np.testing.assert_array_equal(read_idx(write(tmp_path / "packed", idx(PIXELS), packed=True)), PIXELS)
    np.testing.assert_array_equal(read_idx(str(tmp_path / "packed")), PIXELS)


def test_numbers_are_read_high_byte_first(tmp_path: Path) -> None:
    path = write(tmp_path / "file", bytes([0, 0, 0x0C, 1, 0, 0, 0, 2, 0, 0, 1, 2, 255, 255, 255, 254]))
    assert read_idx(path).tolist() == [258, -2]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("keep", range(len(idx(PIXELS))))
def test_content_cut_short_anywhere_is_refused(tmp_path: Path, keep: int, packed: bool) -> None:
    path = write(tmp_path / "file", idx(PIXELS)[:keep], packed=packed)
    if keep < 4:
        message = "is no IDX file: it starts with the bytes"
    elif keep < 16:
        message = f"it ends within its header, after {keep} of 16 bytes; download it again"
    else:
        message = rf"declares the shape \(3, 4, 5\), 60 bytes of data, but only {keep - 16} follow; download it again"
    with pytest.raises(DataFileError, match=rf"^{re.escape(str(path))} .*{message}"):
        read_idx(path)


def test_gzip_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    content = gzip.compress(idx(PIXELS))
    for keep in range(len(content)):
        path = write(tmp_path / "file", content[:keep])
        message = "it cannot be decompressed .*; download it again" if keep >= 2 else "is no IDX file"
        with pytest.raises(DataFileError, match=message):
            read_idx(path)


def test_gzip_with_any_byte_wrong_gives_an_error_or_the_data(tmp_path: Path) -> None:
    content = gzip.compress(idx(PIXELS))
    refused = 0
    for place in range(len(content)):
        path = write(tmp_path / "file", content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            np.testing.assert_array_equal(read_idx(path), PIXELS)
        except DataFileError:
            refused += 1
    assert refused > 0.9 * len(content)  # the rest: time stamp and other fields that change nothing


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_data_beyond_the_declared_are_refused(tmp_path: Path, packed: bool) -> None:
    path = write(tmp_path / "file", idx(PIXELS) + b"\0", packed=packed)
    with pytest.raises(DataFileError, match="60 bytes of data, but more follow; download it again"):
        read_idx(path)


def test_rubbish_after_gzip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "file", gzip.compress(idx(PIXELS)) + b"rubbish")
    with pytest.raises(DataFileError, match="it cannot be decompressed"):
        read_idx(path)


@pytest.mark.parametrize(
    ("content", "start"),
    [
        (b"", ""),
        (b"\0\0", "00 00"),
        (b"PK\x03\x04 an archive", "50 4b 03 04"),
        (b"\x89PNG\r\n\x1a\n", "89 50 4e 47"),
        (b"\0\1" + idx(LABELS)[2:], "00 01 08 01"),
        (b"\1\0" + idx(LABELS)[2:], "01 00 08 01"),
        (header(0x07, 3) + bytes(3), "00 00 07 01"),
        (header(0x0A, 3) + bytes(3), "00 00 0a 01"),
        (header(0x0F, 3) + bytes(24), "00 00 0f 01"),
        (header(0x08) + bytes(1), "00 00 08 00"),
        (header(0x08, *[1] * 33) + bytes(1), "00 00 08 21"),
        (header(0x08, *[1] * 255) + bytes(1), "00 00 08 ff"),
        (gzip.compress(idx(LABELS), mtime=0), "1f 8b 08 00"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, start: str, packed: bool) -> None:
    if content[:2] == b"\x1f\x8b" and not packed:
        return  # gzipped once: a good file
    path = write(tmp_path / "file", content, packed=packed)
    with pytest.raises(DataFileError, match=rf"is no IDX file: it starts with the bytes \[{start}\]; expected 00 00"):
        read_idx(path)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "shape", [(60_000, 1000, 1000), (2**31, 28, 28), (2**32 - 1,), (2**32 - 1,) * 3, (2**32 - 1,) * 32]
)
@pytest.mark.parametrize("code", [0x08, 0x0E])
def test_a_forged_header_takes_no_memory(tmp_path: Path, shape: tuple[int, ...], code: int, packed: bool) -> None:
    path = write(tmp_path / "file", header(code, *shape) + bytes(100), packed=packed)
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match=r"bytes of data, but only 100 follow"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("declared", [3, 2**32 - 1])
def test_a_gzip_bomb_takes_no_memory(tmp_path: Path, declared: int) -> None:
    with gzip.open(tmp_path / "file", "wb") as file:
        file.write(header(0x08, declared))
        for _ in range(32):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="but more follow" if declared == 3 else "but only 33554432 follow"):
            read_idx(tmp_path / "file")
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(0,), (0, 28, 28), (3, 0, 2), (0, 2**32 - 1, 2**32 - 1, 2**32 - 1)])
def test_files_without_data_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = write(tmp_path / "file", header(0x08, *shape))
    with pytest.raises(DataFileError, match=rf"holds no data: its header declares the shape {re.escape(str(shape))}"):
        read_idx(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no IDX file at .*nothing"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match=f"no IDX file at {re.escape(str(tmp_path))}"):
        read_idx(tmp_path)


def test_a_pair_of_files_is_a_data_set(tmp_path: Path) -> None:
    images = write(tmp_path / "train-images-idx3-ubyte.gz", idx(PIXELS), packed=True)
    labels = write(tmp_path / "labels", idx(LABELS))
    found = load_idx_dataset(images, labels)
    assert found.images.dtype == np.uint8
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.images, PIXELS[..., None])
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.name == "train-images-idx3-ubyte"


def test_labels_may_be_of_any_whole_type(tmp_path: Path) -> None:
    images = write(tmp_path / "images", idx(PIXELS))
    labels = write(tmp_path / "labels", idx(np.array([1, 300, 2], dtype=np.int16)))
    assert load_idx_dataset(images, labels).labels.tolist() == [1, 300, 2]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (PIXELS, LABELS[:2], r"images holds 3 images but \S+labels 2 labels; name two files of the same split"),
        (PIXELS[:1], LABELS, r"images holds 1 images but \S+labels 3 labels"),
        (LABELS, PIXELS, r"images_path must hold uint8 of shape \(N, H, W\); \S+images holds uint8 of shape \(3,\)"),
        (PIXELS.astype("i4"), LABELS, r"images_path must hold uint8 .* holds int32 of shape \(3, 4, 5\)"),
        (PIXELS[..., None], LABELS, r"images_path must hold .* of shape \(3, 4, 5, 1\)"),
        (PIXELS, PIXELS, r"labels_path must hold whole numbers of shape \(N,\); \S+labels holds uint8 of shape \(3, 4"),
        (PIXELS, LABELS.astype("f4"), r"labels_path must hold whole .* holds float32 of shape \(3,\)"),
        (PIXELS, np.array([0, -1, 2], "i1"), r"labels_path must hold labels of at least 0; \S+labels holds -1"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, message: str
) -> None:
    paths = write(tmp_path / "images", idx(images)), write(tmp_path / "labels", idx(labels))
    with pytest.raises(DataFileError, match=message):
        load_idx_dataset(*paths)


def test_flat_rows_are_channel_major() -> None:
    images = np.random.default_rng(0).integers(256, size=(4, 3, 2, 5), dtype=np.uint8)  # (N, H, W, C)
    rows = Images(images, np.zeros(4, dtype=np.int64), "colour").flat()
    assert rows.dtype == np.float32
    assert rows.shape == (4, 30)
    for n, h, w, c in np.ndindex(images.shape):
        assert rows[n, (c * 3 + h) * 2 + w] == images[n, h, w, c]


def test_flat_rows_keep_the_channels_of_a_pixel_together_in_spatial_trees() -> None:
    # Each image shows one pixel: whatever leaf region holds one of its variables must hold all of them.
    images = np.eye(6, dtype=np.uint8).reshape(6, 2, 3, 1).repeat(3, axis=-1)
    rows = Images(images, np.arange(6), "pixels").flat()
    leaves = [region.scope for region in socratic.spatial_binary_trees(2, 3, 3).regions if len(region.scope) == 3]
    assert {tuple(np.flatnonzero(row).tolist()) for row in rows} == set(leaves)


def test_flat_takes_no_rows_too() -> None:
    assert Images(np.zeros((0, 2, 3, 1), np.uint8), np.zeros(0, np.int64), "none").flat().shape == (0, 6)


@pytest.mark.parametrize(
    ("split", "stem"),
    [("train", "train"), ("test", "t10k"), ("test", "test"), ("train", "emnist-letters-train"), ("test", "a-b-test")],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("joint", ["-", "."])
def test_pairs_are_found(tmp_path: Path, split: str, stem: str, ending: str, joint: str) -> None:
    other = "train" if split == "test" else "t10k"
    for name in (stem, other):
        (tmp_path / f"{name}-images{joint}idx3-ubyte{ending}").touch()
        (tmp_path / f"{name}-labels{joint}idx1-ubyte{ending}").touch()
    images, labels = find_idx(tmp_path, split)
    assert images == tmp_path / f"{stem}-images{joint}idx3-ubyte{ending}"
    assert labels == tmp_path / f"{stem}-labels{joint}idx1-ubyte{ending}"


def test_of_a_file_and_its_gzip_the_file_is_taken(tmp_path: Path) -> None:
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (tmp_path / f"{name}.gz").touch()
    (tmp_path / "train-images-idx3-ubyte").touch()
    (tmp_path / "train-labels-idx1-ubyte").mkdir()  # as some archives unpack
    assert [path.name for path in find_idx(str(tmp_path), "train")] == [
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte.gz",
    ]


def test_what_was_looked_for_is_listed(tmp_path: Path) -> None:
    (tmp_path / "constrain-images-idx3-ubyte").touch()
    (tmp_path / "train-images-idx3-ubyte.zip").touch()
    with pytest.raises(FileNotFoundError, match=r"no train images with labels in .*; found neither") as caught:
        find_idx(tmp_path, "train")
    assert "[prefix-]train-images-idx3-ubyte[.gz] with [prefix-]train-labels-idx1-ubyte[.gz]" in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"looked for \S+t10k-images-idx3\S+ with .* or \S+test-images-idx3"):
        find_idx(tmp_path, "test")


def test_half_a_pair_is_named(tmp_path: Path) -> None:
    (tmp_path / "b-train-images-idx3-ubyte").touch()
    (tmp_path / "a-train-labels-idx1-ubyte.gz").touch()
    with pytest.raises(FileNotFoundError, match=r"found b-train-images-idx3-ubyte, a-train-labels-idx1-ubyte\.gz$"):
        find_idx(tmp_path, "train")


def test_several_pairs_are_not_guessed_from(tmp_path: Path) -> None:
    for prefix in ("digits", "letters"):
        (tmp_path / f"{prefix}-train-images-idx3-ubyte").touch()
        (tmp_path / f"{prefix}-train-labels-idx1-ubyte").touch()
    message = r"holds 2: digits-train-images-idx3-ubyte, letters-train-images-idx3-ubyte; name the files of one in"
    with pytest.raises(ValueError, match=message):
        find_idx(tmp_path, "train")


def test_other_splits_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'valid'"):
        find_idx(tmp_path, "valid")
    with pytest.raises(FileNotFoundError, match=r"folder must be a folder with IDX files; there is none at .*nothing"):
        find_idx(tmp_path / "nothing", "train")
