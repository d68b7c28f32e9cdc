from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from socratic.errors import DataFileError
from socratic_experiments.data import load_svhn

PIXELS = np.random.default_rng(0).integers(256, size=(4, 32, 32, 3), dtype=np.uint8)  # (N, H, W, C)
X = PIXELS.transpose(1, 2, 3, 0)
Y = np.array([[1], [10], [9], [10]], dtype=np.uint8)


def write(path: Path, content: dict[str, Any], **options: Any) -> Path:
    savemat(path, content, **options)
    return path


@pytest.mark.parametrize("y", [Y, Y.ravel(), Y.astype(np.float64)], ids=["column", "row", "double"])
@pytest.mark.parametrize("compressed", [False, True])
def test_images_and_digits_come_back(tmp_path: Path, y: np.ndarray, compressed: bool) -> None:
    path = write(tmp_path / "test_32x32.mat", {"X": X, "y": y, "other": "text"}, do_compression=compressed)
    found = load_svhn(path)
    assert found.images.dtype == np.uint8
    assert found.images.flags.c_contiguous
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.images, PIXELS)
    assert found.labels.tolist() == [1, 0, 9, 0]
    assert found.name == "test_32x32"
    np.testing.assert_array_equal(found.flat(), PIXELS.transpose(0, 3, 1, 2).reshape(4, -1))


def test_one_image_is_enough(tmp_path: Path) -> None:
    assert load_svhn(str(write(tmp_path / "one.mat", {"X": X[..., :1], "y": Y[:1]}))).images.shape == (1, 32, 32, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"y": Y}, "the variable 'X' is missing, found y; name a cropped-digits file such as train_32x32.mat"),
        ({"X": X, "labels": Y}, "the variable 'y' is missing, found X, labels;"),
        ({}, "the variable 'X' is missing, found none;"),
        ({"X": PIXELS, "y": Y}, r"X must hold uint8 of shape \(32, 32, 3, N\); found uint8 of shape \(4, 32, 32, 3\)"),
        ({"X": X[..., 0], "y": Y}, r"found uint8 of shape \(32, 32, 3\)"),
        ({"X": X[..., :0], "y": Y[:0]}, r"found uint8 of shape \(32, 32, 3, 0\)"),
        ({"X": X.astype(np.float64), "y": Y}, r"found double of shape \(32, 32, 3, 4\)"),
        ({"X": "text", "y": Y}, r"found char of shape"),
        ({"X": X, "y": Y[:3]}, "it holds 4 images but 3 labels; download it again"),
        ({"X": X[..., :2], "y": Y}, "it holds 2 images but 4 labels; download it again"),
        ({"X": X, "y": Y - 1}, "y must hold whole numbers from 1 to 10, where 10 means the digit 0; found 0"),
        ({"X": X, "y": Y + 1}, "found 11"),
        ({"X": X, "y": Y * 0.5}, r"found 0\.5"),
        ({"X": X, "y": Y * np.nan}, "found nan"),
        ({"X": X, "y": Y.astype(np.int16) - 20}, "found -19"),
        ({"X": X, "y": Y.astype(object)}, "y must hold whole numbers from 1 to 10; found object"),
        ({"X": X, "y": Y * 1j}, "y must hold whole numbers from 1 to 10; found complex128"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "file.mat", content)
    with pytest.raises(DataFileError, match=rf"file\.mat is .*{message}"):
        load_svhn(path)


def test_a_forged_count_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    # Both counts say 2**31 - 1 images; they are found in the file by the images' and the labels' dimensions.
    path = write(tmp_path / "file.mat", {"X": X, "y": Y})
    count = (2**31 - 1).to_bytes(4, "little")
    content = path.read_bytes()
    for sizes in ([32, 32, 3, 4], [4, 1]):
        found = b"".join(size.to_bytes(4, "little") for size in sizes)
        content = content.replace(found, found.replace((4).to_bytes(4, "little"), count), 1)
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"it declares 2147483647 images, more than its \d+ bytes can hold"):
        load_svhn(path)


@pytest.mark.parametrize("compressed", [False, True])
def test_truncated_files_are_refused(tmp_path: Path, compressed: bool) -> None:
    path = write(tmp_path / "file.mat", {"X": X, "y": Y}, do_compression=compressed)
    content = path.read_bytes()
    # Everywhere in the headers, then in places of the pixels, then everywhere in the labels.
    for keep in (*range(260), *range(260, len(content) - 80, 997), *range(len(content) - 80, len(content) - 8)):
        path.write_bytes(content[:keep])
        with pytest.raises(DataFileError, match=r"file\.mat is "):
            load_svhn(path)


@pytest.mark.filterwarnings("ignore:Duplicate variable name")
def test_variables_that_come_twice_do_not_pass_the_check_of_the_other(tmp_path: Path) -> None:
    first = write(tmp_path / "first.mat", {"X": X[..., 0]}).read_bytes()
    second = write(tmp_path / "second.mat", {"X": X, "y": Y}).read_bytes()
    path = tmp_path / "file.mat"
    path.write_bytes(first + second[128:])  # the file header is 128 bytes long
    with pytest.raises(DataFileError, match=r"file\.mat is damaged: X and y do not hold what it declares"):
        load_svhn(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text " * 100, b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.mat"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=r"file\.mat is damaged or no MATLAB file that scipy reads \(.*\); "):
        load_svhn(path)


def test_images_of_further_files_follow(tmp_path: Path) -> None:
    train = write(tmp_path / "train_32x32.mat", {"X": X, "y": Y}, do_compression=True)
    extra = write(tmp_path / "extra_32x32.mat", {"X": 255 - X[..., :3], "y": Y[:3] % 10 + 1})
    found = load_svhn(train, extra)
    np.testing.assert_array_equal(found.images, np.concatenate([PIXELS, 255 - PIXELS[:3]]))
    assert found.images.flags.c_contiguous
    assert found.labels.tolist() == [1, 0, 9, 0, 2, 1, 0]
    assert found.name == "train_32x32"
    with pytest.raises(FileNotFoundError, match=r"no SVHN file at .*more\.mat"):
        load_svhn(train, tmp_path / "more.mat")
    extra.write_bytes(extra.read_bytes()[:5000])
    with pytest.raises(DataFileError, match=r"extra_32x32\.mat is no SVHN file: the variable 'y' is missing"):
        load_svhn(train, extra)


def test_memory_is_that_of_the_result_and_of_one_file(tmp_path: Path) -> None:
    many, n_files = np.tile(X, 100), 6
    paths = [write(tmp_path / f"{place}.mat", {"X": many, "y": np.tile(Y.ravel(), 100)}) for place in range(n_files)]
    tracemalloc.start()
    try:
        assert load_svhn(*paths).images.nbytes == n_files * many.nbytes
        assert tracemalloc.get_traced_memory()[1] < (n_files + 2.2) * many.nbytes
    finally:
        tracemalloc.stop()


def test_missing_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "file.mat", {"X": X, "y": Y})
    with pytest.raises(FileNotFoundError, match=r"no SVHN file at .*file$"):
        load_svhn(tmp_path / "file")  # ".mat" is not added silently


def test_scipy_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "file.mat", {"X": X, "y": Y})
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(ImportError, match=r"load_svhn needs scipy .*; install it by: pip install scipy"):
        load_svhn(path)
