"""Damaged inputs and other mistakes: one line that names the problem, exit code 2, nothing written."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import socratic
from tests.cli.conftest import FIT, HEADER, Outcome, Run, assert_one_line, read_csv, table, write_csv

GOOD = "".join(",".join(row) + "\n" for row in table(40, 6))
TITLES = ",".join(HEADER) + "\n"
_PACKED = gzip.compress((TITLES + GOOD * 20).encode(), mtime=0)

# Name of the file, its content, and what the message says of it.
DAMAGED: list[tuple[str, bytes, str]] = [
    ("empty.csv", b"", "is empty"),
    ("blank.csv", b"\n\n\n", "is empty"),
    ("header.csv", TITLES.encode(), "holds a header but no rows"),
    ("latin.csv", (TITLES + GOOD).replace("green", "gr\u00fcn").encode("latin-1"), "is not UTF-8 text (near line"),
    ("utf16.csv", (TITLES + GOOD).encode("utf-16"), "iconv"),
    ("ragged.csv", (TITLES + GOOD + "1,2,red\n").encode(), "line 42 has 3 fields where the header has 5"),
    ("wide.csv", (TITLES + "1,2,red,true,no,extra\n" + GOOD).encode(), "line 2 has 6 fields"),
    ("twice.csv", (TITLES.replace("income", "age") + GOOD).encode(), "more than one column 'age'"),
    ("infinite.csv", (TITLES + GOOD + "inf,2,red,true,no\n").encode(), "row 41, column 'age' holds an infinite"),
    ("huge.csv", (TITLES + GOOD + "1,1e999,red,true,no\n").encode(), "row 41, column 'income' holds an infinite"),
    ("text.csv", (TITLES + GOOD + "1,two,red,true,no\n").encode(), "row 41, column 'income'"),
    ("comma.csv", (TITLES + GOOD + '1,"2,5",red,true,no\n').encode(), "decimals with a point"),
    ("quote.csv", (TITLES + GOOD + '1,2,"red,true,no\n').encode(), "check the quotes"),
    ("semicolons.csv", (TITLES + GOOD).replace(",", ";").encode(), "separated by ';'"),
    ("packed.csv.gz", _PACKED[:-50], "is damaged or not compressed"),
    ("bitten.csv.gz", _PACKED[:200] + bytes(20) + _PACKED[220:], "is damaged or not compressed"),
    ("plain.csv.gz", (TITLES + GOOD).encode(), "is damaged or not compressed"),
    ("wrong.parquet", (TITLES + GOOD).encode(), "is damaged or no Parquet file"),
    ("table.xlsx", b"PK", "must end in one of .csv, .csv.gz, .parquet"),
]
ONLY_TRAINING: list[tuple[str, bytes, str]] = [
    ("single.csv", (TITLES + GOOD).replace("yes", "no").encode(), "one class only ('no')"),
    ("holes.csv", (TITLES + GOOD + "1,2,red,true,\n" * 3).encode(), "missing in 3 rows, first in row 41"),
    ("nameless.csv", (TITLES.replace("age", "") + GOOD).encode(), "column 1 has no name"),
    (
        "other.csv",
        (TITLES.replace("outcome", "Outcomes") + GOOD).encode(),
        "no column 'outcome'; did you mean 'Outcomes'?",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), [*DAMAGED, *ONLY_TRAINING], ids=lambda value: str(value)[:20])
def test_fit_refuses(run: Run, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in assert_one_line(run("fit", tmp_path / name, *FIT, "-o", tmp_path / "model"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(("name", "content", "message"), DAMAGED, ids=lambda value: str(value)[:20])
def test_predict_refuses(run: Run, folder: Path, tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in assert_one_line(run("predict", folder / "model", tmp_path / name, "-o", tmp_path / "out.csv"))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", *FIT, "-o", "m"], "there is no file"),
        ([".", *FIT, "-o", "m"], "is no Parquet file, and training reads no others from a folder; convert it"),
        (["train.csv", "--target", "outcom", "-o", "m"], "did you mean 'outcome'?"),
        (["train.csv", "--target", "zzz", "-o", "m"], "it has 'age', 'income'"),
        (["train.csv", *FIT, "-o", "m", "--leaf", "age"], "--leaf takes COLUMN=FAMILY"),
        (["train.csv", *FIT, "-o", "m", "--leaf", "age=gausian"], "did you mean 'gaussian'?"),
        (["train.csv", *FIT, "-o", "m", "--leaf", "Age=gaussian"], "did you mean 'age'?"),
        (["train.csv", *FIT, "-o", "m", "--leaf", "colour=gaussian"], "row 1, column 'colour' must hold a number"),
        (["train.csv", *FIT, "-o", "m", "--leaf", "colour=bernoulli"], "takes 2 different values; got 3"),
        (
            ["train.csv", *FIT, "-o", "m", "--leaf", "income=binomial"],
            "takes whole numbers from 0 to",
        ),
        (["train.csv", *FIT, "-o", "m", "--leaf", "outcome=categorical"], "is not a feature"),
        (["train.csv", *FIT, "-o", "m", "--drop", "outcome"], "cannot be dropped"),
        (["train.csv", *FIT, "-o", "m", "--weight", "income"], "a weight must be a number of at least 0"),
        (["train.csv", *FIT, "-o", "m", "--weight", "colour"], "must hold a number; got"),
        (["train.csv", *FIT, "-o", "m", "--doubt", "all"], "--doubt must be one of weights, dropout; got 'all'"),
        (["train.csv", *FIT, "-o", "m", "--dropout", "much"], "--dropout must be auto or a rate"),
        (["train.csv", *FIT, "-o", "m", "--doubt", "dropout", "--dropout", "1"], "--dropout must be at least 0 and be"),
        (
            ["train.csv", *FIT, "-o", "m", "--dropout", "0.3"],
            "--dropout 0.3 is for --doubt dropout; add that",
        ),
        (["train.csv", *FIT, "-o", "m", "--rejection-rate", "nan"], "--rejection-rate must be at least 0"),
        (["train.csv", *FIT, "-o", "m", "--device", "abacus"], "--device abacus is not available"),
        (["train.csv", *FIT, "-o", "m", "--checkpoint", "m"], "--checkpoint and --output are both"),
        (["train.csv", *FIT, "-o", "nowhere/m"], "there is no folder nowhere"),
        (["train.csv", *FIT, "-o", "/proc/m"], "cannot write"),
        (["train.csv", *FIT, "-o", "train.csv"], "would overwrite the input"),
        (["train.csv", "--target", "income", "-o", "m"], "which are no classes"),
    ],
)
def test_options_of_fit(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert message in assert_one_line(run("fit", *arguments))
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "test.csv", "-o", "o.csv"], "there is no model file none"),
        ([".", "test.csv", "-o", "o.csv"], "is a folder"),
        (["test.csv", "test.csv", "-o", "o.csv"], "a model file is what socratic fit writes"),
        (["model", "none.csv", "-o", "o.csv"], "there is no file none.csv"),
        (["model", "test.csv", "-o", "o.txt"], "must end in one of"),
        (["model", "test.csv", "-o", "test.csv"], "would overwrite the input"),
        (["model", "test.csv", "-o", "nowhere/o.csv"], "there is no folder nowhere"),
    ],
)
def test_options_of_predict(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert message in assert_one_line(run("predict", *arguments))
    assert sorted(folder.iterdir()) == before


def test_missing_columns_are_named(run: Run, folder: Path, tmp_path: Path) -> None:
    _, rows = read_csv(folder / "test.csv")
    data = write_csv(tmp_path / "data.csv", rows, ["Age", "income", "color", "x", "y"])
    line = assert_one_line(run("predict", folder / "model", data, "-o", tmp_path / "out.csv"))
    assert "has no columns 'age', 'colour', 'member'; did you mean 'Age' for 'age'?" in line


def test_damaged_models(run: Run, folder: Path, tmp_path: Path) -> None:
    content = (folder / "model").read_bytes()
    for damaged in (
        b"",
        content[:100],
        content[:-100],
        b"\xff" * 64,
        content.replace(b"socratic.estimator", b"x" * 18),
    ):
        (tmp_path / "model").write_bytes(damaged)
        assert_one_line(run("info", tmp_path / "model"))


def test_other_models_are_named(run: Run, tmp_path: Path) -> None:
    socratic.rat_spn(4, 2, depth=1).save(tmp_path / "model")
    assert "model holds a Circuit; name a classifier" in assert_one_line(run("info", tmp_path / "model"))
    rows = write_csv(tmp_path / "rows.csv", table(5, 0))
    done = run("predict", tmp_path / "model", rows, "-o", tmp_path / "out.csv")
    assert "model holds a Circuit; name a classifier, an outlier detector or a density" in assert_one_line(done)


def test_guards_are_nothing_alone(run: Run, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 2))
    guard = socratic.CircuitGuard(_halves, density=socratic.CircuitDensity(n_epochs=1), random_state=0)
    guard.fit(x, unseen=True)
    guard.save(tmp_path / "guard")
    rows = write_csv(tmp_path / "rows.csv", table(5, 0))
    for arguments in (["predict", tmp_path / "guard", rows, "-o", tmp_path / "out.csv"], ["info", tmp_path / "guard"]):
        assert "guard holds a guard without its model" in assert_one_line(run(*arguments))


def _halves(x: np.ndarray) -> np.ndarray:
    return np.full((len(x), 2), 0.5)


def test_models_without_classes_cannot_be_evaluated(run: Run, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "rows.csv", table(50, 0))
    socratic.CircuitDensity(n_epochs=1).fit(pd.read_csv(data)[["income"]]).save(tmp_path / "density")
    line = assert_one_line(run("evaluate", tmp_path / "density", data, "--target", "outcome"))
    assert "density holds a CircuitDensity, which has no classes; name a classifier" in line


@contextmanager
def full_disk() -> Iterator[None]:
    """Files cannot grow beyond a few bytes: no fixture, as a file to which tests report has to."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_a_full_disk_stops_predict(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    with full_disk():
        done = run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / name)
    line = assert_one_line(done)
    assert line.startswith(f"socratic: {tmp_path / name}: ")
    assert "File too large" in line
    assert not list(tmp_path.iterdir())


def test_a_full_disk_stops_fit(run: Run, folder: Path, tmp_path: Path) -> None:
    fit = ["fit", folder / "train.csv", *FIT, "-o", tmp_path / "m", "-q"]
    with full_disk():
        plain, kept = run(*fit), run(*fit, "--checkpoint", tmp_path / "state")
    assert f"cannot write the model ({tmp_path / 'm'}: File too large), nor to" in assert_one_line(plain)
    assert f"{tmp_path / 'state'}: File too large" in assert_one_line(kept)
    assert not list(tmp_path.iterdir())


WITHOUT = """
import contextlib
import io
import json
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hidden())
from socratic.cli.app import main

outcomes = []
for arguments in json.loads(sys.argv[1]):
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = stop.code or 0
    outcomes.append((code, out.getvalue(), err.getvalue()))
json.dump(outcomes, sys.stdout)
"""
TABLES = 'reading tables needs pyarrow; install it with: pip install "socratic-circuits[tables]"'
EXTRAS = ("PIL", "cirkit", "graphviz", "matplotlib", "pandas", "polars", "pyarrow", "spflow", "yaml")
PLAIN: list[tuple[list[str], str | None]] = [
    (["--help"], None),
    (["fit", "train.csv", *FIT, "-o", "{out}/m"], TABLES),
    (["predict", "model", "test.csv", "-o", "{out}/o.csv"], TABLES),
    (["predict", "model", "test.csv", "-o", "{out}/o.parquet"], "needs pyarrow"),
    (["evaluate", "model", "test.csv", "--target", "outcome"], TABLES),
    (["evaluate", "model", "test.csv", "--target", "outcome", "--plots", "{out}/p"], "needs matplotlib"),
    (["demo", "-o", "{out}"], 'the demo needs matplotlib; install it with: pip install "socratic-circuits[plots]"'),
    (["info", "model"], None),
]


@pytest.mark.slow
def test_the_plain_install_works_or_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    """All in one process: to import torch and scikit-learn anew for each takes seconds."""
    commands = [[argument.format(out=tmp_path) for argument in arguments] for arguments, _ in PLAIN]
    program = [sys.executable, "-c", WITHOUT.format(names=EXTRAS), json.dumps(commands)]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True)
    assert not done.stderr
    outcomes = [Outcome(*found) for found in json.loads(done.stdout)]
    for (_, message), outcome in zip(PLAIN, outcomes, strict=True):
        if message is None:
            assert (outcome.code, outcome.err) == (0, ""), outcome
            assert outcome.out
        else:
            assert message in assert_one_line(outcome)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ten_thousand_columns(run: Run, tmp_path: Path) -> None:
    rows = [[*(str((i * j) % 7) for j in range(10_000)), "ab"[i % 2]] for i in range(1, 31)]
    data = write_csv(tmp_path / "wide.csv", rows, [*(f"f{j}" for j in range(10_000)), "y"])
    done = run("fit", data, "--target", "y", "-o", tmp_path / "m")
    assert done.code == 0, done.err
    assert "and 9,970 more" in done.out
    assert run("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv").code == 0
