from __future__ import annotations

import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from experiments.tests.data.databases import colours, picture, write_database
from PIL import Image

from socratic.errors import DataFileError, MissingExtraError
from socratic.images import load_image_folder
from socratic_experiments.data import load_lsun

RED, GREEN, BLUE = picture((200, 0, 0)), picture((0, 200, 0), "WEBP", (40, 64)), picture((0, 0, 200), "PNG")
# Of the main database's description in a database file: where its number of entries stands, in each of two meta pages.
ENTRIES = 16 + 24 + 48 + 32


def keyed(*images: bytes) -> dict[bytes, bytes]:
    """Under keys in their order."""
    return {b"%04d" % place: image for place, image in enumerate(images)}


def test_categories_are_read_together(tmp_path: Path) -> None:
    write_database(tmp_path / "LSUN" / "church_outdoor_val_lmdb", keyed(RED, GREEN))
    write_database(tmp_path / "LSUN" / "bedroom_val_lmdb", [BLUE])
    write_database(tmp_path / "LSUN" / "bridge_train_lmdb", [picture((9, 9, 9))])
    (tmp_path / "LSUN" / "church_outdoor_val_lmdb.zip").write_bytes(b"as downloaded")
    found = load_lsun(tmp_path / "LSUN")
    assert found.images.shape == (3, 32, 32, 3)
    assert found.images.dtype == np.uint8
    assert found.labels.dtype == np.int64
    assert found.labels.tolist() == [0, 1, 1]
    assert found.classes == ("bedroom", "church_outdoor")
    assert found.name == "LSUN"
    assert colours(found.images) == [[0, 0, 20], [20, 0, 0], [0, 20, 0]]
    assert load_lsun(str(tmp_path / "LSUN"), "train").classes == ("bridge",)


def test_test_images_go_before_those_to_validate(tmp_path: Path) -> None:
    write_database(tmp_path / "bedroom_val_lmdb", [BLUE])
    write_database(tmp_path / "test_lmdb", [RED, GREEN])
    found = load_lsun(tmp_path, "test")
    assert len(found) == 2
    assert found.classes == ("test",)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("name", ["church_outdoor_train_lmdb", "churches"])
def test_one_database_is_read_whatever_its_name(tmp_path: Path, split: str, name: str) -> None:
    found = load_lsun(write_database(tmp_path / name, [RED]), split)
    assert colours(found.images) == [[20, 0, 0]]
    assert found.classes == (name.removesuffix("_train_lmdb"),)


def test_images_are_those_of_a_folder_with_the_same_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "files").mkdir()
    for place, kind in enumerate(("jpg", "webp", "png")):
        pixels = rng.integers(256, size=(50 + place, 70, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "files" / f"{place}.{kind}")
    contents = [path.read_bytes() for path in sorted((tmp_path / "files").iterdir())]
    database = write_database(tmp_path / "x_val_lmdb", keyed(*contents))
    for size in ((32, 32), (28, 20)):
        np.testing.assert_array_equal(
            load_lsun(database, size=size).images, load_image_folder(tmp_path / "files", size=size).images
        )


def test_grey_and_transparent_images_become_coloured(tmp_path: Path) -> None:
    database = write_database(
        tmp_path / "x_val_lmdb", keyed(picture((90, 90, 90), mode="L"), picture((90, 0, 0), "PNG", mode="RGBA"))
    )
    assert colours(load_lsun(database).images) == [[9, 9, 9], [9, 0, 0]]


@pytest.mark.parametrize(("limit", "shares"), [(None, [6, 3]), (100, [6, 3]), (6, [4, 2]), (3, [2, 1]), (1, [1, 0])])
def test_a_limit_is_shared_by_the_categories(tmp_path: Path, limit: int | None, shares: list[int]) -> None:
    write_database(tmp_path / "a_val_lmdb", keyed(*[RED] * 6))
    write_database(tmp_path / "b_val_lmdb", keyed(*[BLUE] * 3))
    found = load_lsun(tmp_path, limit=limit)
    assert np.bincount(found.labels, minlength=2).tolist() == shares
    assert colours(found.images) == [[20, 0, 0]] * shares[0] + [[0, 0, 20]] * shares[1]
    assert found.classes == ("a", "b")


def test_no_more_is_read_than_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Behind the first three no image could be read.
    database = write_database(tmp_path / "x_val_lmdb", keyed(RED, GREEN, BLUE, *[b"no image"] * 300))
    assert colours(load_lsun(database, limit=3).images) == [[20, 0, 0], [0, 20, 0], [0, 0, 20]]
    monkeypatch.setattr("socratic_experiments.data.lsun._LIMIT", 2)
    assert len(load_lsun(database)) == 2


def test_memory_is_that_of_the_result_and_of_a_few_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic_experiments.data.lsun._CHUNK", 4)
    noise = np.random.default_rng(0).integers(256, size=(40, 100, 100, 3), dtype=np.uint8)
    files = []
    for place, pixels in enumerate(noise):
        path = tmp_path / f"{place}.png"
        Image.fromarray(pixels).save(path)
        files.append(path.read_bytes())
    database = write_database(tmp_path / "x_val_lmdb", files)
    n_bytes = sum(map(len, files))
    load_lsun(database, limit=1)  # what imports take is taken
    tracemalloc.start()
    try:
        assert len(load_lsun(database)) == 40
        assert tracemalloc.get_traced_memory()[1] < n_bytes / 2
    finally:
        tracemalloc.stop()


def test_nothing_is_written(tmp_path: Path) -> None:
    database = write_database(tmp_path / "x_val_lmdb", [RED])
    (database / "lock.mdb").unlink()
    before = (database / "data.mdb").read_bytes()
    load_lsun(database)
    assert [path.name for path in database.iterdir()] == ["data.mdb"]
    assert (database / "data.mdb").read_bytes() == before


def test_arguments_are_checked(tmp_path: Path) -> None:
    database = write_database(tmp_path / "x_val_lmdb", [RED])
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'val'"):
        load_lsun(database, "val")
    with pytest.raises(ValueError, match="limit must be"):
        load_lsun(database, limit=0)
    with pytest.raises(ValueError, match="height must be"):
        load_lsun(database, size=(0, 3))


def test_a_folder_without_the_split_is_explained(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"an LMDB database of LSUN or a folder of them; there is none at .*LSU"
    ):
        load_lsun(tmp_path / "LSUN")
    (tmp_path / "LSUN" / "holiday").mkdir(parents=True)
    (tmp_path / "LSUN" / "church_outdoor_val_lmdb.zip").write_bytes(b"not unpacked")
    message = "no test images of LSUN in .*LSUN: looked for folders whose names end in test_lmdb or val_lmdb; found {}"
    with pytest.raises(FileNotFoundError, match=message.format("none .unpack archives first")):
        load_lsun(tmp_path / "LSUN")
    write_database(tmp_path / "LSUN" / "tower_train_lmdb", [RED])
    with pytest.raises(FileNotFoundError, match=message.format("tower_train_lmdb")):
        load_lsun(tmp_path / "LSUN")


def test_a_category_without_its_file_or_its_images_is_not_passed_by(tmp_path: Path) -> None:
    write_database(tmp_path / "a_val_lmdb", [RED])
    (tmp_path / "b_val_lmdb").mkdir()
    with pytest.raises(FileNotFoundError, match=r"b_val_lmdb is no LMDB database: there is no data\.mdb in it; unpack"):
        load_lsun(tmp_path)
    (tmp_path / "b_val_lmdb").rmdir()
    write_database(tmp_path / "b_val_lmdb", [])
    with pytest.raises(DataFileError, match="b_val_lmdb holds no images; download it again, or remove it"):
        load_lsun(tmp_path)


@pytest.mark.parametrize("content", [b"", b"text " * 5000, bytes(20_000), b"PK\x03\x04" + bytes(9000)], ids=len)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    with pytest.raises(DataFileError, match=r"data\.mdb is damaged or no LMDB database \(.*\); download it again"):
        load_lsun(tmp_path)


def test_a_database_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    # LMDB itself would end the process: it reads a file as if it were memory.
    database = write_database(tmp_path / "x_val_lmdb", keyed(*[picture((9, 9, 9), "BMP")] * 5))
    file = database / "data.mdb"
    content = file.read_bytes()
    for keep in (100, 4096, 8191, 8192, 8200, len(content) // 2, len(content) - 4096, len(content) - 1):
        file.write_bytes(content[:keep])
        with pytest.raises(DataFileError, match=r"data\.mdb is (cut short: it has \d+ of \d+|damaged or no LMDB)"):
            load_lsun(database)
    with pytest.raises(
        DataFileError, match=rf"is cut short: it has {len(content) - 1} of {len(content)} bytes; download"
    ):
        load_lsun(database)


def test_a_database_with_fewer_entries_than_it_says_is_refused(tmp_path: Path) -> None:
    file = write_database(tmp_path / "x_val_lmdb", [RED, BLUE]) / "data.mdb"
    content = bytearray(file.read_bytes())
    n_changed = 0
    for page in (0, 4096):
        if struct.unpack_from("<Q", content, page + ENTRIES) == (2,):
            struct.pack_into("<Q", content, page + ENTRIES, 5)
            n_changed += 1
    assert n_changed == 1
    file.write_bytes(content)
    with pytest.raises(DataFileError, match=r"data\.mdb is damaged: it has fewer entries than it says; download it"):
        load_lsun(file.parent)


@pytest.mark.parametrize("content", [RED[:300], b"", b"no image", RED[: len(RED) // 2]], ids=len)
def test_an_entry_that_is_no_image_is_named(tmp_path: Path, content: bytes) -> None:
    database = write_database(tmp_path / "x_val_lmdb", {b"0a": BLUE, b"1b": content, b"\xff\x00": RED})
    for _ in range(2):  # the database was closed after the first
        with pytest.raises(DataFileError, match=r"x_val_lmdb, image 1b, is damaged or no image \(.*\); replace or rem"):
            load_lsun(database)


def test_what_may_not_be_read_is_named(ordinary_folder: Path) -> None:
    database = write_database(ordinary_folder / "LSUN" / "x_val_lmdb", [RED])
    (database / "data.mdb").chmod(0)
    with pytest.raises(PermissionError, match=r"Permission denied: .*x_val_lmdb.data\.mdb"):
        load_lsun(ordinary_folder / "LSUN")
    database.chmod(0)
    with pytest.raises(PermissionError, match=r"Permission denied: .*x_val_lmdb"):
        load_lsun(ordinary_folder / "LSUN")
    database.parent.chmod(0)
    with pytest.raises(PermissionError, match=r"Permission denied: .*LSUN"):
        load_lsun(ordinary_folder / "LSUN")


def test_lmdb_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = write_database(tmp_path / "x_val_lmdb", [RED])
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(
        MissingExtraError,
        match=r'^reading LSUN needs lmdb; install it with: pip install "socratic-experiments\[lsun\]"$',
    ):
        load_lsun(database)
