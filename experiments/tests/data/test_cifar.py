from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from experiments.tests.data.batches import (
    LABELS,
    PIXELS,
    as_images,
    as_published,
    binary,
    cifar10,
    cifar10_binary,
    cifar100,
    cifar100_binary,
    python2,
    python3,
    write,
    write_archive,
    write_folder,
)

from socratic.errors import DataFileError
from socratic_experiments.data import load_cifar


@pytest.mark.parametrize(
    "content",
    [
        python2(),
        *(python3(protocol) for protocol in (2, 3, 4)),
        python3(4).replace(b"numpy._core.multiarray", b"numpy.core.multiarray").replace(b"\x8c\x16", b"\x8c\x15"),
        pickle.dumps({"data": np.asfortranarray(PIXELS), "labels": LABELS}, protocol=4),
        pickle.dumps({"data": PIXELS, "labels": np.array(LABELS)}, protocol=4),
        pickle.dumps({"data": PIXELS, "labels": np.array(LABELS, dtype=">i4")}, protocol=2),
        gzip.compress(python2()),
    ],
    ids=["python 2", "2", "3", "4", "old numpy", "columns", "label array", "high byte first", "gzipped"],
)
def test_a_batch_comes_back(tmp_path: Path, content: bytes) -> None:
    found = load_cifar(write(tmp_path / "data_batch_1", content))
    assert found.images.dtype == np.uint8
    assert found.images.flags.c_contiguous
    assert found.images.flags.writeable
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.images, as_images(PIXELS))
    assert found.labels.tolist() == LABELS
    assert found.name == "data_batch_1"
    np.testing.assert_array_equal(found.flat(), PIXELS)


@pytest.mark.parametrize("place", ["folder", "tar.gz", "tar"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_all_batches_of_a_split_come_in_order(tmp_path: Path, place: str, split: str) -> None:
    if place == "folder":
        path = write_folder(tmp_path / "cifar-10-python", cifar10())
    else:
        path = write_archive(
            tmp_path / f"cifar-10-python.{place}", cifar10(), mode="w:gz" if place == "tar.gz" else "w"
        )
    before = set(tmp_path.rglob("*"))
    found = load_cifar(str(path), split)
    numbers = range(1, 6) if split == "train" else [0]
    np.testing.assert_array_equal(found.images, as_images(np.concatenate([PIXELS + np.uint8(n) for n in numbers])))
    assert found.labels.tolist() == [n for n in numbers for _ in range(4)]
    assert found.name == "cifar-10-python"
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
@pytest.mark.parametrize(("split", "label"), [("train", 99), ("test", 0)])
def test_cifar_100_has_fine_labels(tmp_path: Path, packed: bool, split: str, label: int) -> None:
    path = tmp_path / "cifar-100-python"
    write_archive(path, cifar100()) if packed else write_folder(path, cifar100())
    assert load_cifar(path, split).labels.tolist() == [label] * 4
    if not packed:
        assert load_cifar(path / split).labels.tolist() == [label] * 4


def test_coarse_labels_are_not_taken(tmp_path: Path) -> None:
    content = python3(2, coarse_labels=[1, 2, 3, 4], fine_labels=[10, 20, 30, 40]).replace(b"labels", b"lebals", 1)
    path = write(tmp_path / "train", content)
    assert load_cifar(path).labels.tolist() == [10, 20, 30, 40]


def test_cifar_100_as_published(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "cifar-100-python", {"train": as_published(1), "test": as_published(0)})
    for split, number in (("train", 1), ("test", 0)):
        found = load_cifar(folder, split)
        np.testing.assert_array_equal(found.images, as_images(PIXELS + np.uint8(number)))
        assert found.labels.tolist() == [10, 99, 0, 7]


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_the_binary_version_is_read_like_the_other(tmp_path: Path, packed: bool) -> None:
    for name, files in (("cifar-10", cifar10_binary()), ("cifar-100", cifar100_binary())):
        path = tmp_path / f"{name}-binary.tar.gz"
        write_archive(path, files) if packed else write_folder(path, files)
    ten = load_cifar(tmp_path / "cifar-10-binary.tar.gz", "train")
    np.testing.assert_array_equal(ten.images, as_images(np.concatenate([PIXELS + np.uint8(n) for n in range(1, 6)])))
    assert ten.labels.tolist() == [n for n in range(1, 6) for _ in range(4)]
    assert ten.images.flags.c_contiguous
    assert ten.images.flags.writeable
    hundred = load_cifar(tmp_path / "cifar-100-binary.tar.gz", "test")
    np.testing.assert_array_equal(hundred.images, as_images(PIXELS))
    assert hundred.labels.tolist() == [10, 99, 0, 7]
    assert hundred.labels.dtype == np.int64
    assert load_cifar(tmp_path / "cifar-100-binary.tar.gz", "train").labels.tolist() == [99] * 4


def test_one_binary_batch_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "test.bin", cifar100_binary()["test.bin"])
    assert load_cifar(path).labels.tolist() == load_cifar(path, "test").labels.tolist() == [10, 99, 0, 7]
    with pytest.raises(
        ValueError, match=r"split must fit the batch; .*test\.bin is a batch of the test split, got 'tr"
    ):
        load_cifar(path, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged or no CIFAR batch: 0 bytes are no whole number of images"),
        (binary(PIXELS, LABELS)[:-1], "damaged or no CIFAR batch: 12291 bytes are no whole number of images with"),
        (binary(PIXELS, LABELS) + b"x", "damaged or no CIFAR batch: 12293 bytes"),
        (python2(), r"damaged or no CIFAR batch: \d+ bytes"),
        (binary(PIXELS, [1, 2, 3, 10]), "no CIFAR batch: labels must hold whole numbers from 0 to 9; found 10"),
        (binary(PIXELS, LABELS, [1, 2, 3, 100]), "no CIFAR batch: fine_labels must hold .* from 0 to 99; found 100"),
    ],
    ids=["empty", "cut short", "too long", "pickle", "label", "fine label"],
)
def test_other_binary_contents_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataFileError, match=rf"batch\.bin is {message}"):
        load_cifar(write(tmp_path / "batch.bin", content))


def test_coarse_labels_alone_are_refused(tmp_path: Path) -> None:
    content = python2(name=b"coarse_labels")
    with pytest.raises(
        DataFileError, match="no CIFAR batch: none of the entries 'labels', 'fine_labels'; name a batch"
    ):
        load_cifar(write(tmp_path / "train", content))


def test_missing_batches_are_named(tmp_path: Path) -> None:
    files = cifar10()
    del files["data_batch_2"], files["data_batch_4"], files["test_batch"]
    for path in (write_folder(tmp_path / "folder", files), write_archive(tmp_path / "file.tar.gz", files)):
        with pytest.raises(FileNotFoundError, match=r"is incomplete: data_batch_2, data_batch_4 missing; download"):
            load_cifar(path, "train")
        with pytest.raises(
            FileNotFoundError, match=r"no test batches of CIFAR in .*: looked for test_batch or test or test_"
        ):
            load_cifar(path, "test")


def test_splits_must_be_known_and_fit(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", cifar10())
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'valid'"):
        load_cifar(folder, "valid")
    with pytest.raises(ValueError, match=r"split must be 'train' or 'test', as .*folder may hold both; got None"):
        load_cifar(folder)
    with pytest.raises(
        ValueError, match=r"split must fit the batch; .*test_batch is a batch of the test split, got 't"
    ):
        load_cifar(folder / "test_batch", "train")
    assert len(load_cifar(folder / "test_batch", "test")) == 4
    with pytest.raises(FileNotFoundError, match=r"no CIFAR folder, archive or batch at .*nothing"):
        load_cifar(tmp_path / "nothing", "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2]), "no entry 'data'"),
        (pickle.dumps({"labels": LABELS}), "no entry 'data'"),
        (pickle.dumps({"data": PIXELS, "label_names": []}, 4), "none of the entries 'labels', 'fine_labels'"),
        (python3(4, labels=LABELS[:3]), "it holds 4 images but 3 labels"),
        (python2(PIXELS[:2]), "it holds 2 images but 4 labels"),
        (python2(labels=[1, 2, 3, 10]), "labels must hold whole numbers from 0 to 9"),
        (python2(labels=[1, 2, 3, -1]), "labels must hold whole numbers from 0 to 9"),
        (python2(labels=[1, 2, 3, 100], name=b"fine_labels"), "fine_labels must hold whole numbers from 0 to 99"),
        (python3(4, labels=[1, 2, True, 3]), "labels must hold whole numbers"),
        (python3(4, labels=["1", None, [], {}]), "labels must hold whole numbers"),
        (python3(4, labels={}), "expected an array; found dict"),
        (
            python3(4, data=PIXELS[:, 1:]),
            r"data must hold uint8 of shape \(N, 3072\); found uint8 of shape \(4, 3071\)",
        ),
        (python3(4, data=PIXELS[0]), r"found uint8 of shape \(3072,\)"),
        (python3(4, data=PIXELS[:0], labels=[]), r"found uint8 of shape \(0, 3072\)"),
        (python3(4, data=PIXELS.astype(np.int16)), r"found int16 of shape \(4, 3072\)"),
        (python3(4, data=PIXELS.astype(np.float32)), "an array in it has the type 'f4'; only whole numbers are read"),
        (python3(4, data=PIXELS.astype(object)), "an array in it has the type 'O8'"),
        (python3(4, data="text"), "expected an array; found str"),
        (python2(kind=b"u8"), r"declares the shape \(4, 3072\) of uint64 but holds 12288 bytes"),
        (python2(kind=b"O8"), "an array in it has the type 'O8'; only whole numbers are read"),
        (python2(kind=b"u" * 9999), "the type of an array must be a short text"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path / "batch", content)
    with pytest.raises(DataFileError, match=rf"batch is no CIFAR batch: .*{message}.*; name a batch"):
        load_cifar(path)
