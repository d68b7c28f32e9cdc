"""``socratic score``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import HEADER, Run, assert_one_line, read_csv, table, write_csv


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for place in range(3):
        write_csv(tmp_path / "data" / f"{place}.csv", table(20, place))
    return tmp_path / "data"


def test_a_folder_is_scored_and_not_again(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("score", folder / "model", data, "-o", out)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("3 files, 60 rows, ")
    assert done.out.endswith(f", written to {out}\n")
    run("predict", folder / "model", data / "1.csv", "-o", tmp_path / "1.csv", "--jobs", 1)
    assert (out / "1.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()
    again = run("score", folder / "model", data, "-o", out)
    assert again.out == done.out.replace("3 files", "3 files (3 before)")
    assert run("score", folder / "model", data, "-o", out, "-q").out == ""


def test_shards_and_columns(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--prefix", "my_", "--no-probabilities", "--no-explain"]
    assert run("score", folder / "model", data, "-o", out, "--shard", "2/2", *options).out.startswith("1 file, 20")
    assert [path.name for path in out.glob("*.csv")] == ["1.csv"]
    assert read_csv(out / "1.csv")[0][-1] == "my_verdict"
    line = assert_one_line(run("score", folder / "model", data, "-o", out))
    assert "1.csv in" in line
    assert "was scored with other columns" in line
    assert run("score", folder / "model", data, "-o", out, "--rescore").out.startswith("3 files, 60 rows")
    assert read_csv(out / "1.csv")[0][-1] == "reasons"


def test_cells_that_a_spreadsheet_would_run(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    write_csv(data / "0.csv", [[*row, "=1+1"] for row in table(20, 0)], [*HEADER, "note"])
    out = tmp_path / "out"
    assert run("score", folder / "model", data, "-o", out).code == 0
    assert {row[5] for row in read_csv(out / "0.csv")[1]} == {"=1+1"}
    line = assert_one_line(run("score", folder / "model", data, "-o", out, "--harmless"))
    assert "was scored with other columns or cells" in line
    assert run("score", folder / "model", data, "-o", out, "--harmless", "--rescore").code == 0
    assert {row[5] for row in read_csv(out / "0.csv")[1]} == {"'=1+1"}
    run("predict", folder / "model", data / "0.csv", "-o", tmp_path / "0.csv", "--harmless", "--jobs", 1)
    assert (out / "0.csv").read_bytes() == (tmp_path / "0.csv").read_bytes()


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_shards_that_cannot_be(run: Run, folder: Path, data: Path, tmp_path: Path, shard: str) -> None:
    line = assert_one_line(run("score", folder / "model", data, "-o", tmp_path / "out", f"--shard={shard}"))
    assert f"--shard takes I/N with I from 1 to N, such as 2/8; got '{shard}'" in line


def test_problems_come_last(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    for place in range(7):
        write_csv(data / f"bad{place}.csv", [["x", "1", "red", "true", "no"]])
    done = run("score", folder / "model", data, "-o", tmp_path / "out")
    assert done.code == 2
    lines = done.err.splitlines()
    assert len(lines) == 6
    assert "bad0.csv: row 1, column 'age' must hold a number; got 'x'" in lines[0]
    names = ", ".join(f"bad{place}.csv" for place in range(7))
    assert lines[-1].endswith(f"7 file(s) cannot be scored; correct them or take them away, and start again: {names}")
    assert done.out.startswith("3 files, 60 rows")


def test_warnings(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_csv(data / "strange.csv", [[*row[:2], "mauve", *row[3:]] for row in table(5, 9)])
    done = run("score", folder / "model", data, "-o", out, "-q")
    assert "count against their rows: 5 in 1 column(s), such as 'mauve' in 'colour'" in assert_one_line(done, 0)
    shutil.move(data / "strange.csv", data / "0.csv")
    done = run("score", folder / "model", data, "-o", out, "-q", "--rescore")
    assert f"{out} holds answers to 1 file(s) that are not in the dataset any more, such as strange.csv" in done.err


def test_other_mistakes_are_one_line(run: Run, folder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "there is no model file" in assert_one_line(run("score", tmp_path / "none", data, "-o", out))
    assert "0.csv is damaged or no model file" in assert_one_line(run("score", data / "0.csv", data, "-o", out))
    assert "there are no tables" in assert_one_line(run("score", folder / "model", tmp_path / "none", "-o", out))
    assert "lie within each other" in assert_one_line(run("score", folder / "model", data, "-o", data / "out"))
    line = assert_one_line(run("score", folder / "model", data, "-o", out, "--engine", "slurm"))
    assert "engine must be one of 'local', 'dask', 'ray', 'spark'; got 'slurm'" in line
    line = assert_one_line(run("score", folder / "model", data, "-o", out, "--device", "warp"))
    assert "--device warp is not available here" in line


def test_a_run_that_nobody_watches_says_how_far_it_is(
    run: Run, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socratic.cli.score.REPORT_SECONDS", 0)
    done = run("score", folder / "model", data, "-o", tmp_path / "out")
    assert done.code == 0
    assert [line.partition(" rows")[0].rpartition(",")[0] for line in done.err.splitlines()][-1].startswith(
        "socratic: 3 of 3 files, 100%"
    )
