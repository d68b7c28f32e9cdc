"""``socratic predict``."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from socratic import load
from socratic.scoring import ANSWER_COLUMNS
from tests.cli.conftest import FIT, HEADER, Run, assert_one_line, read_csv, table, write_csv

ADDED = [*ANSWER_COLUMNS, "p(no)", "p(yes)", "reasons"]


def library_says(folder: Path) -> tuple[Any, Any, Any]:
    """Model, table and doubts, computed without the command line."""
    pd = pytest.importorskip("pandas")
    model = load(folder / "model")
    frame = pd.read_csv(folder / "test.csv")
    features = frame[HEADER[:-1]]
    return model, features, model.uncertainty(features)


def test_agrees_with_the_library(run: Run, folder: Path, tmp_path: Path) -> None:
    done = run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "out.csv")
    assert (done.code, done.err) == (0, "")
    header, rows = read_csv(tmp_path / "out.csv")
    assert header == [*HEADER, *ADDED]
    assert [row[:5] for row in rows] == read_csv(folder / "test.csv")[1]
    model, features, doubt = library_says(folder)
    shares = model.predict_proba(features)
    best = shares.argmax(1)
    label, probability, entropy, std, p_value, risk, verdict, no, yes, reasons = zip(
        *(row[5:] for row in rows), strict=True
    )
    assert list(label) == model.predict(features).tolist()
    assert list(verdict) == np.where(model.reject(features), "unfamiliar", "familiar").tolist()
    expected = [(probability, shares.max(1)), (entropy, doubt.entropy), (p_value, doubt.p_value)]
    expected += [(risk, model.risks(model.answer(features))), (no, shares[:, 0]), (yes, shares[:, 1])]
    assert [bool(text) for text in reasons] == [each != "familiar" for each in verdict]
    for found, values in [*expected, (std, doubt.std[np.arange(len(best)), best])]:
        np.testing.assert_allclose(np.array(found, dtype=float), values, rtol=1e-4, atol=1e-6)


def test_reasons_are_the_columns_that_speak_most(run: Run, folder: Path, tmp_path: Path) -> None:
    header, *rows = [HEADER, *table(20, 1)]
    for row in rows:
        row[1] = "50000"
    data = write_csv(tmp_path / "data.csv", rows)
    done = run("predict", folder / "model", data, "-o", tmp_path / "out.csv", "--prefix", "my_")
    assert (done.code, done.err) == (0, "")
    header, written = read_csv(tmp_path / "out.csv")
    assert header == [*HEADER, *(f"my_{name}" for name in ADDED)]
    reasons = [row[-1].split("; ") for row in written]
    assert {names[0] for names in reasons} == {"income"}
    assert {len(names) for names in reasons} == {3}
    assert {name for names in reasons for name in names} <= set(HEADER[:-1])
    taken = write_csv(tmp_path / "taken.csv", [[*row, ""] for row in rows], [*HEADER, "reasons"])
    assert run("predict", folder / "model", taken, "-o", tmp_path / "out.csv", "--no-explain").code == 0
    done = run("predict", folder / "model", taken, "-o", tmp_path / "out.csv")
    assert "has a column 'reasons' already" in assert_one_line(done)


def test_what_is_missing_is_no_reason_and_what_is_unseen_the_first(run: Run, folder: Path, tmp_path: Path) -> None:
    row = ["40.0", "50000", "red", "true", "yes"]  # nobody earned as much
    unseen = [*row[:2], "never seen", *row[3:]]
    data = write_csv(tmp_path / "data.csv", [[""] * len(row), ["", *row[1:]], unseen])
    done = run("predict", folder / "model", data, "-o", tmp_path / "out.csv")
    assert done.code == 0
    nothing, without_one, other = [row[-1].split("; ") for row in read_csv(tmp_path / "out.csv")[1]]
    assert nothing == [""]
    assert without_one[0] == HEADER[1]
    assert HEADER[0] not in without_one
    assert other[:2] == [HEADER[2], HEADER[1]]


def test_order_of_columns_and_extra_ones(run: Run, folder: Path, tmp_path: Path) -> None:
    run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "plain.csv")
    rows = [[*row[::-1], f'note "{i}", with comma', "", "007"] for i, row in enumerate(table(60, 1))]
    header = [*HEADER[::-1], "note", "empty", "code"]
    write_csv(tmp_path / "mixed.csv", rows, header)
    assert run("predict", folder / "model", tmp_path / "mixed.csv", "-o", tmp_path / "out.csv").code == 0
    found, written = read_csv(tmp_path / "out.csv")
    assert found == [*header, *ADDED]
    assert [row[:8] for row in written] == rows
    assert [row[8:] for row in written] == [row[5:] for row in read_csv(tmp_path / "plain.csv")[1]]


def test_cells_that_a_spreadsheet_would_run(run: Run, folder: Path, tmp_path: Path) -> None:
    risky = ["=1+1", "+1-2", "-2+3", "@SUM(A1)", "＝1", '=HYPERLINK("x,y")']  # noqa: RUF001
    separated = {"\t=1": "'\t'=1", "\n=1": "'\n'=1", "x;=1": "x;'=1"}
    fine = ["-5", "+1.5e-3", "a=b", "", "'=1"]
    notes = [*risky, *separated, *fine]
    rows = [[*row, note] for row, note in zip(table(len(notes), 1), notes, strict=True)]
    data = write_csv(tmp_path / "data.csv", rows, [*HEADER, "=note"])
    for name, options in (("plain", []), ("harmless", ["--harmless"])):
        assert run("predict", folder / "model", data, "-o", tmp_path / f"{name}.csv", *options).code == 0
    header, plain = read_csv(tmp_path / "plain.csv")
    assert header[5] == "=note"
    assert [row[5] for row in plain] == notes
    marked, harmless = read_csv(tmp_path / "harmless.csv")
    assert marked == [*HEADER, "'=note", *ADDED]
    assert [row[5] for row in harmless] == [*(f"'{note}" for note in risky), *separated.values(), *fine]
    assert [[*row[:5], *row[6:]] for row in harmless] == [[*row[:5], *row[6:]] for row in plain]
    packed = run("predict", folder / "model", data, "-o", tmp_path / "harmless.csv.gz", "--harmless")
    assert packed.code == 0
    assert gzip.decompress((tmp_path / "harmless.csv.gz").read_bytes()) == (tmp_path / "harmless.csv").read_bytes()
    line = assert_one_line(run("predict", folder / "model", data, "-o", tmp_path / "out.parquet", "--harmless"))
    assert "--harmless is for CSV files" in line


def test_pieces_do_not_matter(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # From piece to piece, a column may hold numbers, then text, then nothing at all.
    rows = [[*row[:4], ["1", "x", ""][i // 20]] for i, row in enumerate(table(60, 1))]
    data = write_csv(tmp_path / "data.csv", rows)
    run("predict", folder / "model", data, "-o", tmp_path / "whole.csv")
    monkeypatch.setattr("socratic.tables.reading.CHUNK_ROWS", 20)
    for name in ("pieces.csv", "pieces.parquet", "pieces.csv.gz"):
        assert run("predict", folder / "model", data, "-o", tmp_path / name).code == 0
    whole, pieces = read_csv(tmp_path / "whole.csv")[1], read_csv(tmp_path / "pieces.csv")[1]
    for one, other in zip(whole, pieces, strict=True):
        assert one[:6] == other[:6]
        np.testing.assert_allclose(np.array(one[6:10], float), np.array(other[6:10], float), rtol=1e-3, atol=1e-6)
    unpacked = gzip.decompress((tmp_path / "pieces.csv.gz").read_bytes())
    assert unpacked == (tmp_path / "pieces.csv").read_bytes()


def test_parquet(run: Run, folder: Path, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_csv(folder / "test.csv").assign(when=pd.Timestamp("2020-01-01"), group=pd.Categorical(["a"] * 60))
    frame["colour"] = frame["colour"].astype("category")
    frame.to_parquet(tmp_path / "data.parquet")
    run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "plain.csv")
    for name in ("out.parquet", "out.csv"):
        done = run("predict", folder / "model", tmp_path / "data.parquet", "-o", tmp_path / name)
        assert (done.code, done.err) == (0, "")
    out = pd.read_parquet(tmp_path / "out.parquet")
    assert out.columns.tolist() == [*frame.columns, *ADDED]
    pd.testing.assert_frame_equal(out[frame.columns.tolist()], frame)
    model, features, doubt = library_says(folder)
    assert out["label"].tolist() == model.predict(features).tolist()
    np.testing.assert_allclose(out["p_value"], doubt.p_value)
    plain = read_csv(tmp_path / "plain.csv")[1]
    assert [row[7:] for row in read_csv(tmp_path / "out.csv")[1]] == [row[5:] for row in plain]
    assert run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / "typed.parquet").code == 0
    typed = pd.read_parquet(tmp_path / "typed.parquet")
    assert typed["age"].dtype == np.float64
    assert typed["age"].isna().sum() == sum(row[0] == "" for row in table(60, 1))


def test_unknown_categories_give_one_warning(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = table(30, 4)
    changed = [[*row[:2], "mauve" if i % 3 == 0 else row[2], *row[3:]] for i, row in enumerate(rows)]
    emptied = [[*row[:2], "" if i % 3 == 0 else row[2], *row[3:]] for i, row in enumerate(rows)]
    write_csv(tmp_path / "changed.csv", changed)
    write_csv(tmp_path / "emptied.csv", emptied)
    monkeypatch.setattr("socratic.tables.reading.CHUNK_ROWS", 7)
    done = run("predict", folder / "model", tmp_path / "changed.csv", "-o", tmp_path / "a.csv")
    line = assert_one_line(done, code=0)
    assert "count against their rows: 10 in 1 column(s), such as 'mauve' in 'colour'" in line
    run("predict", folder / "model", tmp_path / "emptied.csv", "-o", tmp_path / "b.csv")
    for place, (strange, missing) in enumerate(
        zip(read_csv(tmp_path / "a.csv")[1], read_csv(tmp_path / "b.csv")[1], strict=True)
    ):
        assert strange[5:9] == missing[5:9]  # label, probability, entropy, std
        assert float(strange[9]) < float(missing[9]) if place % 3 == 0 else strange[9:] == missing[9:]


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_again_gives_the_same_bytes(run: Run, folder: Path, tmp_path: Path, name: str) -> None:
    contents = []
    for _ in range(2):
        # As a killed run would have left it.
        (tmp_path / f".{name}.0123abcd.partial").write_bytes(b"half")
        assert run("predict", folder / "model", folder / "test.csv", "-o", tmp_path / name).code == 0
        assert [path.name for path in tmp_path.iterdir()] == [name]
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_an_error_keeps_the_earlier_output(run: Run, folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data.csv", [*table(20, 5), ["x", "1", "red", "true", "no"]])
    out = tmp_path / "out.csv"
    out.write_text("earlier")
    line = assert_one_line(run("predict", folder / "model", data, "-o", out))
    assert "row 21, column 'age' must hold a number; got 'x'" in line
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "out.csv"]


def test_names_that_are_taken(run: Run, folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data.csv", table(5, 5), [*HEADER[:-1], "label"])
    out = tmp_path / "out.csv"
    assert "has a column 'label' already" in assert_one_line(run("predict", folder / "model", data, "-o", out))
    assert run("predict", folder / "model", data, "-o", out, "--prefix", "my_", "-q").out == ""
    assert read_csv(out)[0][5:] == [f"my_{name}" for name in ADDED]
    data = write_csv(tmp_path / "data.csv", table(5, 5), [*HEADER[:-1], "p(yes)"])  # as the class is called
    assert "has a column 'p(yes)' already" in assert_one_line(run("predict", folder / "model", data, "-o", out))
    assert run("predict", folder / "model", data, "-o", out, "--no-probabilities").code == 0
    assert read_csv(out)[0][5:] == [*ANSWER_COLUMNS, "reasons"]


def test_ambiguous_rows_are_counted_and_told_of(run: Run, hazy: Path, tmp_path: Path) -> None:
    assert "risk 0.1 on average over calibrations: " in " ".join(run("info", hazy / "model").out.split())
    done = run("predict", hazy / "model", hazy / "test.csv", "-o", tmp_path / "out.csv")
    assert (done.code, done.err) == (0, "")
    rows = [dict(zip(ADDED, row[3:], strict=True)) for row in read_csv(tmp_path / "out.csv")[1]]
    ambiguous = [row for row in rows if row["verdict"] == "ambiguous"]
    assert ambiguous
    assert {row["reasons"] for row in ambiguous} <= {"no or yes", "yes or no"}
    assert min(float(row["risk"]) for row in ambiguous) > 0.1
    assert max(float(row["risk"]) for row in rows if row["verdict"] == "familiar") <= 0.1
    assert f"{len(ambiguous)} ambiguous ({len(ambiguous) / 200:.1%})" in done.out


def test_a_risk_that_cannot_be_kept_is_told_of(run: Run, folder: Path, tmp_path: Path) -> None:
    fit = ["fit", folder / "train.csv", *FIT, "-o", tmp_path / "m", "-q"]
    assert "every row is ambiguous; fit more rows" in assert_one_line(run(*fit, "--risk", "0.001"), code=0)
    line = assert_one_line(run("predict", tmp_path / "m", folder / "test.csv", "-o", tmp_path / "o.csv", "-q"), code=0)
    assert "no row can be answered at the model's risk of 0.001" in line
    assert "every row is ambiguous" in run("info", tmp_path / "m").out
    assert "--risk must be above 0 and below 1; got 5" in assert_one_line(run(*fit, "--risk", "5"))
    for odd in ("5", "nan", "often"):
        message = f"--risk-confidence must be mean, or above 0 and below 1; got {odd}"
        assert message in assert_one_line(run(*fit, "--risk-confidence", odd))


def test_a_risk_is_kept_with_a_confidence_if_asked_for(run: Run, folder: Path, tmp_path: Path) -> None:
    fit = ["fit", folder / "train.csv", *FIT, "-o", tmp_path / "m", "--risk", "0.2", "--risk-confidence"]
    assert "0.2 with 0.8 confidence: " in " ".join(run(*fit, "0.8").out.split())
    assert load(tmp_path / "m").risk_confidence == 0.8


def test_booleans_in_any_case(run: Run, folder: Path, tmp_path: Path) -> None:
    for case in (str.lower, str.upper, str.capitalize):
        rows = [[*row[:3], case(row[3]), row[4]] for row in table(60, 1)]
        write_csv(tmp_path / "data.csv", rows)
        done = run("predict", folder / "model", tmp_path / "data.csv", "-o", tmp_path / f"{case.__name__}.csv")
        assert (done.code, done.err) == (0, "")
    found = [[row[5:] for row in read_csv(tmp_path / f"{name}.csv")[1]] for name in ("lower", "upper", "capitalize")]
    assert found[0] == found[1] == found[2]


def test_verdicts_that_promise_nothing_are_said_to(run: Run, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "few.csv", table(16, 0))
    assert run("fit", data, *FIT, "-o", tmp_path / "m", "-q").code == 0
    line = assert_one_line(run("predict", tmp_path / "m", data, "-o", tmp_path / "out.csv", "-q"), code=0)
    assert "too few rows were held out when the model was trained" in line
    done = run("evaluate", tmp_path / "m", data, "--target", "outcome")
    assert "verdicts may not keep its rejection rate of 0.05" in assert_one_line(done, code=0)
