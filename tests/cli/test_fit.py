"""``socratic fit``."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from socratic import load
from tests.cli.conftest import FIT, HEADER, Run, assert_one_line, read_csv, table, write_csv


def test_output(run: Run, folder: Path, tmp_path: Path) -> None:
    done = run("fit", folder / "train.csv", *FIT, "-o", tmp_path / "model")
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert ["age", "gaussian"] in [line[:2] for line in lines]
    assert ["colour", "categorical", "blue,", "green,", "red"] in lines
    assert ["member", "bernoulli", "False,", "True"] in lines
    assert ["rows", "240"] in lines
    assert ["classes", "2"] in lines
    assert lines[-1][0] == "written"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    # The same command, quiet or not, gives the same bytes.
    assert (tmp_path / "model").read_bytes() == (folder / "model").read_bytes()


def test_checkpoint_leaves_no_trace(run: Run, folder: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "state"
    done = run("fit", folder / "train.csv", *FIT, "-o", tmp_path / "model", "--checkpoint", checkpoint, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == (folder / "model").read_bytes()


def test_several_circuits(run: Run, folder: Path, tmp_path: Path) -> None:
    command = ["fit", folder / "train.csv", *FIT, "-o", tmp_path / "model", "--checkpoint", tmp_path / "state"]
    done = run(*command, "--circuits", 2)
    assert (done.code, done.err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    model, single = load(tmp_path / "model"), load(folder / "model")
    assert model.circuit_.n_parameters == 2 * single.circuit_.n_parameters
    assert f"epochs       {model.n_iter_} in all" in done.out
    assert "random, 2 circuits" in run("info", tmp_path / "model").out


def test_a_file_that_is_no_checkpoint_is_kept(run: Run, folder: Path, tmp_path: Path) -> None:
    for name, content in (("notes.txt", b"precious"), ("other", (folder / "model").read_bytes())):
        precious = tmp_path / name
        precious.write_bytes(content)
        done = run("fit", folder / "train.csv", *FIT, "-o", tmp_path / "model", "--checkpoint", precious)
        assert "is no checkpoint" in assert_one_line(done)
        assert precious.read_bytes() == content


def test_options(run: Run, tmp_path: Path) -> None:
    rows = [[*row[:4], str(i % 3), "" if i == 5 else str(i % 2), "1.5"] for i, row in enumerate(table(60, 2))]
    data = write_csv(tmp_path / "train.csv", rows, ["age", "income", "colour", "id", "visits", "y", "w"])
    options = ["--leaf", "visits=binomial", "--leaf", "income=gaussian", "--drop", "id", "--drop", "colour"]
    options += ["--weight", "w", "--doubt", "dropout", "--dropout", "0.1", "--rejection-rate", "0.2"]
    options += ["--seed", "7", "--epochs", "1"]
    done = run("fit", data, "--target", "y", "-o", tmp_path / "m", *options, "--drop-missing-target", "--jobs", 1)
    assert done.code == 0, done.err
    assert "59 (1 without a class left out)" in done.out
    model = load(tmp_path / "m")
    assert [(column.name, column.kind) for column in model.table_.columns] == [
        ("age", "gaussian"),
        ("income", "gaussian"),
        ("visits", "binomial"),
    ]
    assert model.classes_.tolist() == [0, 1]
    assert (model.doubt, model.dropout_, model.rejection_rate, model.random_state) == ("dropout", 0.1, 0.2, 7)
    for told in (done, run("info", tmp_path / "m")):
        assert "dropout at a rate of 0.1" in told.out
    assert (model.verbose, model.checkpoint) == (False, None)


def test_numbers_as_categories(run: Run, tmp_path: Path) -> None:
    rows = [[str(i % 3) + (".0" if i % 2 else ""), "ab"[i % 3 > 0]] for i in range(150)]
    data = write_csv(tmp_path / "train.csv", rows, ["code", "y"])
    done = run(
        "fit", data, "--target", "y", "-o", tmp_path / "m", "--leaf", "code=categorical", "--epochs", 1, "--jobs", 1
    )
    assert (done.code, done.err) == (0, "")
    assert load(tmp_path / "m").table_.columns[0].categories == ("0", "1", "2")
    done = run("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv")
    assert (done.code, done.err) == (0, "")


def test_many_columns_are_shortened(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[*map(str, rng.normal(size=40).round(2)), "ab"[i % 2]] for i in range(30)]
    data = write_csv(tmp_path / "wide.csv", rows, [*(f"f{i}" for i in range(40)), "y"])
    done = run("fit", data, "--target", "y", "-o", tmp_path / "m", "--epochs", 1, "--jobs", 1)
    assert "and 10 more" in done.out
    assert "f29 " in done.out
    assert "f30 " not in done.out
    assert done.err == ""  # so few rows are enough to calibrate on
    assert "f39 " in run("info", tmp_path / "m", "--all").out


def test_missing_and_constant_columns_work(run: Run, tmp_path: Path) -> None:
    rows = [["", "NA" if i % 2 else " ", "7", str(i), "ab"[i % 2]] for i in range(30)]
    data = write_csv(tmp_path / "odd.csv", rows, ["nothing", "blank", "same", "x", "y"])
    done = run("fit", data, "--target", "y", "-o", tmp_path / "m", "--epochs", 1, "--jobs", 1)
    assert done.code == 0, done.err
    assert run("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv").code == 0


def test_parquet_trains_the_same(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(folder / "train.csv")
    frame.index = frame.index[::-1] + 5  # pandas keeps such an index as one more column
    frame.to_parquet(tmp_path / "train.parquet")
    assert run("fit", tmp_path / "train.parquet", *FIT, "-o", tmp_path / "model", "-q").code == 0
    assert (tmp_path / "model").read_bytes() == (folder / "model").read_bytes()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (datetime.time(1), r"holds time64\[us\], which no leaf can hold; convert it to numbers or text, or leave"),
        (datetime.timedelta(1), r"holds duration\[us\]"),
        (Decimal("1.5"), r"holds decimal128\(2, 1\), which no leaf can hold; convert it to floats, or leave it out"),
    ],
)
def test_columns_that_no_leaf_can_hold(run: Run, tmp_path: Path, value: object, message: str) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table({"x": [1.0, 2.0], "odd": [value, value], "outcome": ["a", "b"]})
    parquet.write_table(table, tmp_path / "train.parquet")
    line = assert_one_line(run("fit", tmp_path / "train.parquet", *FIT, "-o", tmp_path / "m"))
    assert re.search(f"column 'odd' {message}", line)


def test_names_of_any_kind(run: Run, tmp_path: Path) -> None:
    rows = [[*row[:2], *row] for row in table(40, 3)]
    header = ["[bold]", "ünïcode, name", *HEADER]
    data = write_csv(tmp_path / "train.csv", rows, header)
    done = run("fit", data, *FIT, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    assert "[bold]" in done.out
    assert "ünïcode, name" in done.out


def test_uncertain_columns(run: Run, folder: Path, tmp_path: Path) -> None:
    options = ["--leaf-variance", "age=0.5", "--leaf-variance", "income=0", "-q"]
    assert run("fit", folder / "train.csv", *FIT, "-o", tmp_path / "model", *options).code == 0
    model, certain = load(tmp_path / "model"), load(folder / "model")
    assert model.leaf_variance == {"age": 0.5, "income": 0.0}
    assert certain.leaf_variance == 0.0
    shown = run("info", tmp_path / "model").out.splitlines()
    assert ["leaf", "variance", "age", "0.5"] in [line.split() for line in shown]
    assert "leaf variance" not in run("info", folder / "model").out
    rows = {}
    for path in (tmp_path / "model", folder / "model"):
        assert run("predict", path, folder / "train.csv", "-o", tmp_path / "out.csv", "-q").code == 0
        header, cells = read_csv(tmp_path / "out.csv")
        rows[path] = [(row[header.index("label")], row[header.index("std")]) for row in cells]
    labels, deviations = zip(*rows[folder / "model"], strict=True)
    assert [label for label, _ in rows[tmp_path / "model"]] == list(labels)  # the circuit is the same
    assert [std for _, std in rows[tmp_path / "model"]] != list(deviations)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["age"],
            "--leaf-variance takes a number of at least 0 or COLUMN=NUMBER, such as --leaf-variance age=0.1; got",
        ),
        (["age=much"], "got 'age=much'"),
        (["age=-1"], "got 'age=-1'"),
        (["=1"], "got '=1'"),
        (["inf"], "got 'inf'"),
        (["0.1", "age=0.2"], "--leaf-variance 0.1 is for all columns and must be given once; name the columns"),
        (["height=0.1"], "no column 'height'"),
        (["outcome=0.1"], "--leaf-variance outcome: the column is not a feature"),
    ],
)
def test_variances_that_cannot_be(run: Run, folder: Path, tmp_path: Path, options: list[str], message: str) -> None:
    given = [part for value in options for part in ("--leaf-variance", value)]
    assert message in assert_one_line(run("fit", folder / "train.csv", *FIT, "-o", tmp_path / "model", *given))


def test_a_folder_of_parquet_files_trains_random_trees(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows = tmp_path / "rows"
    rows.mkdir()
    frame = pd.concat([pd.read_csv(folder / "train.csv")] * 3)
    for number, part in enumerate((frame[:100], frame[100:])):
        part.to_parquet(rows / f"part{number}.parquet", index=False)
    target = ["--target", "outcome", "--epochs", 1, "--jobs", 1]
    done = run("fit", rows, *target, "-o", tmp_path / "model")
    assert done.code == 0, done.err
    assert f"{len(frame):,} in 2 files" in done.out
    assert "random" in done.out
    assert run("predict", tmp_path / "model", rows / "part0.parquet", "-o", tmp_path / "out.csv").code == 0
    assert "a table needs --target" in assert_one_line(run("fit", rows, "-o", tmp_path / "m"))
    assert "no column 'nothing'" in assert_one_line(run("fit", rows, "--target", "nothing", "-o", tmp_path / "m"))
    refused = run("fit", rows, "--target", "outcome", "--structure", "forest", "-o", tmp_path / "m")
    assert "needs all rows in memory" in assert_one_line(refused)
    (rows / "more.csv").write_text("a\n1\n")
    assert "more.csv is no Parquet file" in assert_one_line(run("fit", rows, *target, "-o", tmp_path / "m"))
