from __future__ import annotations

import codecs
import gzip
import os
import pickle
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.tests.data.batches import (
    LABELS,
    PIXELS,
    Pickle,
    batch_of,
    cifar10,
    python2,
    python3,
    write,
    write_archive,
    write_folder,
)

from socratic.errors import DataFileError
from socratic_experiments.data import load_cifar
from socratic_experiments.data.pickles import read_pickle


class Calls:
    """Pickled, a call of ``function``."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


CALLS = {
    "os.system": Calls(os.system, "echo run > run"),
    "eval": Calls(eval, "open('run', 'w')"),
    "exec": Calls(exec, "open('run', 'w')"),
    "open": Calls(open, "run", "w"),
    "getattr": Calls(getattr, np.ndarray, "tofile"),
    "numpy.load": Calls(np.load, "run", None, True),
    "numpy.zeros": Calls(np.zeros, (2**20, 2**20)),
    "numpy scalar": np.float64(1.0),
    "object": object(),
    "type": Calls(type, "run", (), {}),
    "encode": Calls(codecs.encode, "text", "zip"),
    "import": Calls(__import__, "antigravity"),
}


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, protocol: int) -> None:
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps({"data": PIXELS, "labels": LABELS, "more": CALLS[name]}, protocol=protocol)
    path = write(tmp_path / "batch", content)
    with pytest.raises(DataFileError, match=r"batch is damaged or no CIFAR batch \(it (asks for|encodes a text)"):
        load_cifar(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["batch"]


FORGED = {
    "f2py": Pickle().name("numpy.f2py", "compile").raw(b")R").end(),
    "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x11ndarray.__class__\x93.",
    "dotted module": Pickle().name("numpy.core.multiarray._reconstruct", "__globals__").end(),
    "codecs decode": Pickle().name("_codecs", "decode").end(),
    "names that are no texts": b"\x80\x04]}\x93.",
    "persistent id": b"\x80\x02K\1Q.",
    "persistent text": b"Pid\n.",
    "instance": b"(ios\nsystem\n.",
    "object": b"\x80\x02(cnumpy\nndarray\no.",
    "new object": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "new object with keywords": b"\x80\x04cnumpy\nndarray\n)}\x92.",
    "extension": b"\x80\x02\x82\x01.",
    "out-of-band buffer": b"\x80\x05\x97.",
    "array called": b"\x80\x02cnumpy\nndarray\n((J\xff\xff\xff\x7ftR.",
    "array called twice": b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)R)R.",
    "state of a list": b"\x80\x02]}b.",
    "state of a name": b"\x80\x02cnumpy\nndarray\n}b.",
    "items of a name": b"\x80\x02cnumpy\nndarray\nK\1K\2s.",
    "appended to a name": b"\x80\x02cnumpy\nndarray\nK\1a.",
    "repeated from nowhere": b"\x80\x02h\5.",
    "memo of nothing": b"\x80\x02q\0.",
    "mark missing": b"\x80\x02t.",
    "nothing on the stack": b"\x80\x02.",
    "too much on the stack": b"\x80\x02NN.",
    "mark left": b"\x80\x02(N.",
    "key without value": b"\x80\x02}(K\1u.",
    "key that is no text": b"\x80\x02})K\1s.",
    "data after the end": python2() + b"N.",
    "endless": b"\x80\x02" + b"0" * 100,
    "bytes of 2**60": b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"x.",
    "bytes of 2**64": b"\x80\x04\x8e" + b"\xff" * 8 + b"x.",
    "text of 2**60": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"x.",
    "bytes of 2**32": b"\x80\x04B\xff\xff\xff\xffx.",
    "text of -1": b"\x80\x02T\xff\xff\xff\xffx.",
    "byte array of 2**60": b"\x80\x05\x96" + struct.pack("<Q", 2**60) + b"x.",
    "frame of 2**60": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
    "number of 2**31 bytes": b"\x80\x02\x8b\xff\xff\xff\x7fx.",
    "memo of 2**32": b"\x80\x02Nr\xff\xff\xff\xff.",
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_pickles_are_refused_without_memory(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "batch", FORGED[name])
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match=r"batch is (damaged or )?no CIFAR batch"):
            load_cifar(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "shape",
    [
        (2**31 - 1, 3072),
        (2**31 - 1,) * 3,
        (2**31 - 1,) * 33,
        (-4, 3072),
        (4, -1),
        (0, 2**31 - 1, 2**31 - 1),
        (4, 3072, 2),
    ],
    ids=lambda shape: "x".join(map(str, shape[:3])),
)
@pytest.mark.parametrize("kind", [b"u1", b"i8", b"O8", b"V9", b"S999999999"], ids=bytes.decode)
def test_forged_shapes_and_types_take_no_memory(tmp_path: Path, shape: tuple[int, ...], kind: bytes) -> None:
    batch = (
        Pickle().raw(b"}(").text(b"labels").raw(b"](K\1K\1K\1K\1e").text(b"data").array(shape, PIXELS.tobytes(), kind)
    )
    path = write(tmp_path / "batch", batch.raw(b"u").end())
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match="batch is no CIFAR batch: "):
            load_cifar(path)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()


def test_the_number_of_operations_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One byte each in the file, a list each in memory.
    path = write(tmp_path / "batch", b"\x80\x02(" + b"]" * 1000 + b"t.")
    with pytest.raises(DataFileError, match="no entry 'data'"):
        load_cifar(path)
    monkeypatch.setattr("socratic_experiments.data.pickles._MAX_OPERATIONS", 1000)
    with pytest.raises(DataFileError, match="it has more than 1000 operations"):
        load_cifar(path)


def test_an_array_never_filled_is_refused(tmp_path: Path) -> None:
    start = Pickle().raw(b"}").text(b"data").name("numpy.core.multiarray", "_reconstruct").name("numpy", "ndarray")
    content = start.raw(b"(J\xff\xff\xff\x7fJ\xff\xff\xff\x7ft").text(b"b").raw(b"\x87Rs").end()
    with pytest.raises(DataFileError, match="an array in it has no content"):
        load_cifar(write(tmp_path / "batch", content))


def test_values_repeated_without_end_take_no_memory(tmp_path: Path) -> None:
    # Each tuple holds the one before twice: 2**200 leaves, if anything walked through them.
    nested = Pickle().raw(b"}").text(b"more").raw(b")q\0", b"h\0\x86q\0" * 200, b"s").end()
    with pytest.raises(DataFileError, match="no entry 'data'"):
        load_cifar(write(tmp_path / "batch", nested))
    key = Pickle().raw(b"}", b")q\0", b"h\0\x86q\0" * 200, b"Ns").end()
    with pytest.raises(DataFileError, match="a key must be a short text; found tuple"):
        load_cifar(write(tmp_path / "batch", key))
    # One text, encoded a thousand times over.
    encode = Pickle().raw(b"X\x40\x42\x0f\x00" + b"x" * 1_000_000 + b"q\1X\6\0\0\0latin1q\2").name("_codecs", "encode")
    many = encode.raw(b"q\3(", b"h\3h\1h\2\x86R" * 1000, b"tt").end().replace(b"\x80\x02", b"\x80\x02(", 1)
    tracemalloc.start()
    try:
        read_pickle(many)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["train", "x" * 30], ids=["batch", "other"])
def test_an_archive_that_unpacks_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("socratic_experiments.data.cifar._MAX_BYTES", 4 << 20)
    path = write_archive(tmp_path / "file.tar.gz", {name: bytes(32 << 20)})
    tracemalloc.start()
    try:
        with pytest.raises(DataFileError, match=r"is no CIFAR file: it holds more than 4194304 bytes"):
            load_cifar(path, "train")
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_a_long_name_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic_experiments.data.cifar._MAX_BYTES", 4 << 20)
    member = tarfile.TarInfo("x")
    member.size, member.type = 32 << 20, tarfile.GNUTYPE_LONGNAME
    path = write(tmp_path / "file.tar.gz", gzip.compress(member.tobuf() + bytes(32 << 20)))
    with pytest.raises(DataFileError, match="it holds more than 4194304 bytes"):
        load_cifar(path, "train")


def test_a_file_larger_than_any_batch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic_experiments.data.cifar._MAX_BYTES", 1000)
    with pytest.raises(DataFileError, match="it holds more than 1000 bytes"):
        load_cifar(write(tmp_path / "batch", python2()))
    with pytest.raises(DataFileError, match="test_batch is no CIFAR file: it holds more than 1000 bytes"):
        load_cifar(write_folder(tmp_path / "folder", cifar10()), "test")


def test_links_and_folders_in_an_archive_are_passed_by(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "file.tar.gz", "w:gz") as archive:
        for name, kind in (("test", tarfile.DIRTYPE), ("a/test_batch", tarfile.SYMTYPE), ("../test", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    with pytest.raises(FileNotFoundError, match="no test batches of CIFAR"):
        load_cifar(tmp_path / "file.tar.gz", "test")


@pytest.mark.parametrize("name", ["cifar-100-python.tar.gz", "test", "test.bin"])
def test_what_may_not_be_read_is_named(ordinary_folder: Path, name: str) -> None:
    path = write(ordinary_folder / name, b"some content")
    path.chmod(0)
    with pytest.raises(PermissionError, match=rf"Permission denied: .*{name}"):
        load_cifar(path, "test")


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n", b"text " * 100, b"PK\x03\x04", b"\0\0\x08\x03", b"MATLAB 5.0"], ids=repr
)
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataFileError, match=r"batch is damaged or no CIFAR batch \(.*\); download it again"):
        load_cifar(write(tmp_path / "batch", content))


@pytest.mark.parametrize("content", [python2(), python3(2), python3(4)], ids=["python 2", "2", "4"])
def test_a_batch_cut_short_anywhere_is_refused(tmp_path: Path, content: bytes) -> None:
    for keep in (*range(300), *range(300, len(content) - 100, 397), *range(len(content) - 100, len(content))):
        path = write(tmp_path / "batch", content[:keep])
        with pytest.raises(DataFileError, match="batch is damaged or no CIFAR batch"):
            load_cifar(path)


@pytest.mark.parametrize("content", [python2(), python3(4)], ids=["python 2", "4"])
def test_a_batch_with_a_byte_wrong_gives_an_error_or_images(tmp_path: Path, content: bytes) -> None:
    refused = 0
    for place in (*range(250), *range(len(content) - 120, len(content))):
        for change in (0x01, 0xFF):
            damaged = content[:place] + bytes([content[place] ^ change]) + content[place + 1 :]
            try:
                assert load_cifar(write(tmp_path / "batch", damaged)).images.shape == (4, 32, 32, 3)
            except DataFileError:
                refused += 1
    assert refused > 300


def test_an_archive_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    content = write_archive(tmp_path / "whole", {"test": b"other", "test_batch": batch_of(0)}).read_bytes()
    for keep in (*range(0, 100), *range(100, len(content), 211)):
        path = write(tmp_path / "file.tar.gz", content[:keep])
        with pytest.raises(DataFileError, match=r"file\.tar\.gz(/test_batch)? is "):
            load_cifar(path, "test")
