"""Files appear completely or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import socratic.files
from socratic import rat_spn
from socratic.files import replacing


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write_text(path: Path) -> None:
    with replacing(path) as draft:
        draft.write_text("content")


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with replacing(target) as draft:
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


class InterruptAt:
    """Raises KeyboardInterrupt once so many instructions of ``replacing`` and its helpers have run."""

    def __init__(self, instruction: int) -> None:
        self.left = instruction
        self.raised = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> InterruptAt:
        frame.f_trace_opcodes = frame.f_code.co_filename in (socratic.files.__file__, contextlib.__file__)
        if frame.f_trace_opcodes and event == "opcode":
            self.left -= 1
            if not self.left:
                self.raised = True
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file just opened, not yet in `with`
def test_an_interrupt_at_any_moment_leaves_all_or_nothing(tmp_path: Path) -> None:
    target = tmp_path / "file"
    finished, instruction = 0, 0
    while finished < 2:  # the whole of it, twice: the last instructions come after the file is there
        instruction += 1
        interrupt = InterruptAt(instruction)
        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            write_text(target)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        finished += not interrupt.raised
        assert list(tmp_path.iterdir()) in ([], [target]), f"interrupted at instruction {instruction}"
        if target.exists():
            assert target.read_text() == "content"
            target.unlink()
    assert instruction > 100


def test_every_writer_has_a_draft_of_its_own(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with replacing(target) as first:
        first.write_text("first, ")
        with replacing(target) as second:
            second.write_text("second")
        assert target.read_text() == "second"
        with first.open("a") as file:
            file.write("and last")
    assert target.read_text() == "first, and last"
    assert list(tmp_path.iterdir()) == [target]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    code = """
import os, pathlib, sys
from socratic.files import replacing
with replacing(pathlib.Path(sys.argv[1])) as draft:
    draft.write_text("half")
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "file")], check=False)
    (left,) = tmp_path.iterdir()
    precious = tmp_path / ".file.notes.partial"
    precious.write_text("no draft")
    with replacing(tmp_path / "file") as draft:
        assert not left.exists()
        draft.write_text("whole")
    assert sorted(tmp_path.iterdir()) == [precious, tmp_path / "file"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with replacing(tmp_path / "link") as draft:
        draft.write_text("content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "content"


@pytest.mark.parametrize(
    "write",
    [lambda path: rat_spn(2, n_classes=2, seed=0).save(path), write_text],
    ids=["model", "text"],
)
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_new_files_follow_the_umask(write: Callable[[Path], None], mask: int, mode: int, tmp_path: Path) -> None:
    with umask(mask):
        write(tmp_path / "file")
    assert mode_of(tmp_path / "file") == mode


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    secret = tmp_path / "file"
    secret.touch(0o600)
    with umask(0o022):
        write_text(secret)
    assert mode_of(secret) == 0o600


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    code = """
import pathlib, resource, sys
from socratic.files import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    with replacing(pathlib.Path(sys.argv[1])) as draft:
        draft.write_bytes(bytes(100))
except OSError as error:
    print(error.filename)
"""
    target = tmp_path / "file"
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(target)
    assert list(tmp_path.iterdir()) == []
