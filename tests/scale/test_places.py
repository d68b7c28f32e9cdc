"""Files on any file system."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest

from socratic.files import replacing
from socratic.scale import Place, score_files
from tests.scale.conftest import contents, table, write_tables

fs = pytest.importorskip("pyarrow.fs")


def staged(folder: Path) -> Place:
    """A folder on a file system that is not the machine's own: files are copied from it and to it."""
    folder.mkdir(exist_ok=True)
    return Place(fs.SubTreeFileSystem(folder.as_posix(), fs.LocalFileSystem()), "")


def test_uris_and_other_file_systems_give_the_same(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data")
    score_files(models / "model", data, tmp_path / "plain")
    score_files((models / "model").as_uri(), data.as_uri(), (tmp_path / "uri").as_uri())
    score_files(staged(models) / "model", staged(data), staged(tmp_path / "staged") / "deep/out")
    expected = contents(tmp_path / "plain")
    assert contents(tmp_path / "uri") == expected
    assert contents(tmp_path / "staged" / "deep" / "out") == expected
    again = score_files(staged(models) / "model", staged(data), staged(tmp_path / "staged") / "deep/out")
    assert again.n_before == 4


def test_messages_name_the_file_and_not_its_copy(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data", 1)
    table(3, 0).drop(columns="age").to_csv(data / "ageless.csv", index=False)
    summary = score_files(models / "model", staged(data), staged(tmp_path / "out") / "answers")
    assert summary.problems == ["subtree://ageless.csv has no column 'age'; the model was trained on it"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    place = staged(tmp_path / "folder") / "file"
    for where in (place, Place.of(tmp_path / "folder" / "file")):
        where.write(b"before")
        with suppress(RuntimeError), where.for_writing() as path, replacing(path) as draft:
            draft.write_bytes(b"half")
            raise RuntimeError
        assert contents(tmp_path / "folder") == {"file": b"before"}
        assert where.read() == b"before"


def test_places_within_each_other(tmp_path: Path) -> None:
    place = Place.of(tmp_path)
    assert place.holds(place)
    assert place.holds(place / "in")
    assert not (place / "in").holds(place)
    assert not (place / "in").holds(place / "inside")
    assert not place.holds(staged(tmp_path))
    assert (place / "in").parent == place


def test_places_travel(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    for place in (Place.of(tmp_path) / "file", staged(tmp_path) / "file"):
        assert pickle.loads(pickle.dumps(place)).read() == b"content"
