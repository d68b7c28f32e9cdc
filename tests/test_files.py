"""Files appear completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from socratic.files import replacing


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_appears_at_the_end(shared: bool, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with replacing(target, shared=shared) as draft:
        draft.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing(tmp_path / "file") as draft:
            draft.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as draft:
        draft.write_text("once")
        name = draft.name
    (tmp_path / name).write_text("half")
    with replacing(tmp_path / "file") as draft:
        assert draft.name == name
        draft.write_text("twice")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with replacing(tmp_path / "link") as draft:
        draft.write_text("content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "content"
