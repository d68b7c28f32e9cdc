"""Folders of tables: every file once, whatever happens in between."""

from __future__ import annotations

import gzip
import itertools
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from socratic.scale import Columns, FileScorer, InputFile, ModelScorer, Place, score_files
from socratic.scale.run import Watch
from tests.scale.conftest import contents, table, write_tables


def stopping_after(n_files: int) -> Watch:
    return lambda _, outcomes: itertools.islice(outcomes, n_files)


def written_tables(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if not name.startswith("_manifest/")}


def test_every_table_has_the_rows_it_had_and_the_answers_of_predict(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data")
    (data / "_SUCCESS").touch()
    (data / ".hidden.parquet").write_bytes(b"nonsense")
    (data / "notes.txt").touch()
    summary = score_files(models / "model", data, tmp_path / "out")
    names = ["more/part1.parquet", "more/part3.csv", "part0.parquet", "part2.parquet"]
    assert [record.input.name for record in summary.records] == names
    assert (summary.verdicts.total(), summary.n_before, summary.problems, summary.gone) == (120, 0, [], [])
    assert sorted(written_tables(tmp_path / "out")) == names
    from socratic.cli.app import main

    for name in names:
        with pytest.raises(SystemExit):
            main(["predict", *map(str, (models / "model", data / name, "-o", tmp_path / Path(name).name)), "--jobs=1"])
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / Path(name).name).read_bytes()


def test_what_is_done_is_not_done_again(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tables(tmp_path / "data")
    score_files(models / "model", data, tmp_path / "whole")
    first = score_files(models / "model", data, tmp_path / "out", watch=stopping_after(2))
    assert len(first.records) == 2
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.parquet")}
    second = score_files(models / "model", data, tmp_path / "out")
    assert (len(second.records), second.n_before) == (4, 2)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    monkeypatch.setattr(FileScorer, "__call__", None)
    third = score_files(models / "model", data, tmp_path / "out")
    assert (third.n_before, third.verdicts.total()) == (4, 120)


@pytest.mark.parametrize("lost", ["record", "table", "half"])
def test_what_is_lost_is_done_again(models: Path, tmp_path: Path, lost: str) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    score_files(models / "model", data, out)
    before = contents(out)
    if lost == "record":
        next(out.rglob("part2.parquet.json")).unlink()
    elif lost == "table":
        (out / "part2.parquet").unlink()
    else:
        (out / "part2.parquet").write_bytes(b"half")
    assert score_files(models / "model", data, out).n_before == 3
    assert contents(out) == before


def test_shards_divide_the_files(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data", 5)
    score_files(models / "model", data, tmp_path / "whole")
    parts = [score_files(models / "model", data, tmp_path / "out", shard=(part, 3)) for part in (3, 1, 2)]
    assert sorted(len(part.records) for part in parts) == [1, 2, 2]
    assert [part.gone for part in parts] == [[], [], []]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    empty = score_files(models / "model", data, tmp_path / "out", shard=(9, 9))
    assert empty.records == []


def test_a_changed_table_is_named(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    score_files(models / "model", data, out)
    before = contents(out)
    table(50, 7).to_parquet(data / "part2.parquet", index=False)
    with pytest.raises(ValueError, match=r"part2.parquet has changed since it was scored \([\d,]+ bytes then, .* now"):
        score_files(models / "model", data, out)
    assert contents(out) == before
    assert score_files(models / "model", data, out, rescore=True).n_before == 3
    score_files(models / "model", data, tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")
    os.utime(data / "part2.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match=r"part2.parquet has changed since it was scored \(it was written again\)"):
        score_files(models / "model", data, out)


def test_another_model_is_named(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    score_files(models / "model", data, out, shard=(1, 2))
    before = contents(out)
    for shard in ((1, 2), (2, 2)):
        with pytest.raises(ValueError, match=r"part1.parquet in .*out was scored by another model .*--rescore"):
            score_files(models / "other", data, out, shard=shard)
    with pytest.raises(ValueError, match=r"part1.parquet in .*out was scored with other columns"):
        score_files(ModelScorer.of(models / "model", Columns("my_")), data, out)
    assert contents(out) == before
    replaced = score_files(models / "other", data, out, rescore=True, watch=stopping_after(1))
    assert replaced.n_before == 0
    assert score_files(models / "other", data, out).n_before == 1
    score_files(models / "other", data, tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")


def test_tables_that_were_taken_away_are_named(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    score_files(models / "model", data, out)
    (data / "part0.parquet").rename(data / "renamed.parquet")
    summary = score_files(models / "model", data, out)
    assert (summary.gone, summary.n_before, len(summary.records)) == (["part0.parquet"], 3, 4)


def test_problems_of_a_table_do_not_stop_the_others(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    (data / "damaged.parquet").write_bytes(b"nonsense")
    table(5, 0).drop(columns="age").to_csv(data / "ageless.csv", index=False)
    table(5, 0).assign(label="x").to_csv(data / "labelled.csv", index=False)
    table(5, 0).assign(age="old").to_csv(data / "wordy.csv", index=False)
    summary = score_files(models / "model", data, out)
    assert len(summary.records) == 4
    ageless, damaged, labelled, wordy = summary.problems
    assert ageless == f"{data / 'ageless.csv'} has no column 'age'; the model was trained on it"
    assert damaged.startswith(f"{data / 'damaged.parquet'} is damaged or no Parquet file")
    assert labelled.startswith(f"{data / 'labelled.csv'} has a column 'label' already")
    assert wordy.startswith(f"{data / 'wordy.csv'}: row 1, column 'age' must hold a number; got 'old'")
    assert len(written_tables(out)) == 4
    table(5, 0).to_csv(data / "wordy.csv", index=False)
    again = score_files(models / "model", data, out)
    assert (again.n_before, len(again.records), len(again.problems)) == (4, 5, 3)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_without_rows_are_done_and_leave_nothing(models: Path, tmp_path: Path, suffix: str) -> None:
    data, out = write_tables(tmp_path / "data", 1), tmp_path / "out"
    empty = data / f"empty.{suffix}"
    frame = table(3, 0)
    for rows in (frame, frame.head(0)):
        rows.to_csv(empty, index=False) if suffix == "csv" else rows.to_parquet(empty, index=False)
        summary = score_files(models / "model", data, out, rescore=True)
        assert (len(summary.records), summary.verdicts.total(), summary.problems) == (2, 30 + len(rows), [])
        assert (out / empty.name).exists() == (len(rows) > 0)
    assert score_files(models / "model", data, out).n_before == 2


def test_a_table_that_changes_while_it_is_scored_is_not_done(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data", 1), tmp_path / "out"
    scorer = FileScorer(ModelScorer.of(models / "model"), Place.of(data), Place.of(out))
    size = (data / "part0.parquet").stat().st_size
    outcome = scorer(InputFile("part0.parquet", size, 1))
    assert outcome.record is None
    assert "part0.parquet changed while it was scored; start again" in outcome.problem
    assert not (out / "_manifest").exists()


def test_unknown_values_are_summed(models: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for place in range(2):
        table(6, place).assign(colour=["mauve", "red"] * 3).to_csv(data / f"{place}.csv", index=False)
    for _ in range(2):  # also where all is done already
        assert score_files(models / "model", data, tmp_path / "out").unknown == {"colour": (6, "mauve")}


def test_places_that_cannot_be(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data", 1)
    for out in (data, data / "out", tmp_path):
        with pytest.raises(ValueError, match="lie within each other; write to a folder apart from the dataset"):
            score_files(models / "model", data, out)
    with pytest.raises(ValueError, match=r"there are no tables \(.csv, .csv.gz, .parquet\) in .*nowhere"):
        score_files(models / "model", tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ValueError, match=r"there is no model file .*nothing"):
        score_files(models / "nothing", data, tmp_path / "out")
    (data / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"notes.txt: the name must end in one of .csv"):
        score_files(models / "model", data / "notes.txt", tmp_path / "out")
    with pytest.raises(ValueError, match="nowhere://data leads nowhere"):
        score_files(models / "model", "nowhere://data", tmp_path / "out")


def test_one_table_is_a_dataset(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data", 2)
    for out in (tmp_path / "out", data / "out", tmp_path):
        score_files(models / "model", data / "part0.parquet", out)
        assert (out / "part0.parquet").is_file()
    assert list(written_tables(tmp_path / "out")) == ["part0.parquet"]
    with pytest.raises(ValueError, match="lie within each other"):
        score_files(models / "model", data / "part0.parquet", data)


def test_columns_can_be_read_as_one_dataset(models: Path, tmp_path: Path) -> None:
    dataset: Any = pytest.importorskip("pyarrow.dataset")
    data = tmp_path / "data"
    for place in range(3):
        (data / f"year={place}").mkdir(parents=True)
        table(10, place).to_parquet(data / f"year={place}" / "part.parquet", index=False)
    score_files(models / "model", data, tmp_path / "out")
    frame: pd.DataFrame = dataset.dataset(tmp_path / "out", partitioning="hive").to_table().to_pandas()
    assert sorted(frame["row"]) == sorted(range(10)) + sorted(range(1000, 1010)) + sorted(range(2000, 2010))
    assert set(frame["year"]) == {0, 1, 2}


ODD = ["two\nlines", "-o", "re\u0301sume\u0301", "résumé", "a b;c,d", '"quoted"', "\ttab", "\udcff\udcfe"]
"""Names that need not be text: line breaks, dashes, accents in two ways of writing, and bytes that are no UTF-8."""


@pytest.mark.skipif(os.name == "nt", reason="this system has no such names")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_odd_names_are_scored_like_others(models: Path, tmp_path: Path, n_jobs: int) -> None:
    data, out = write_tables(tmp_path / "data", 1), tmp_path / "out"
    for name in ODD:
        for suffix in ("csv", "parquet"):
            path = data / f"{name}.{suffix}"
            content = (
                table(3, 0).to_csv(index=False).encode() if suffix == "csv" else (data / "part0.parquet").read_bytes()
            )
            path.write_bytes(content)
    (data / "bro\nken\udcff.csv").write_text("age,colour\n1,red,3\n")
    summary = score_files(models / "model", data, out, n_jobs=n_jobs)
    assert summary.failed == ["bro\nken\udcff.csv"]
    assert f"{data}/bro\\nken\\udcff.csv, line 2 has 3 fields where the header has 2" in summary.problems[0]
    assert len(summary.records) == 1 + 2 * len(ODD)
    for name in ODD:
        assert (out / f"{name}.csv").is_file()
    again = score_files(models / "model", data, out, n_jobs=n_jobs)
    assert (again.n_before, again.failed) == (1 + 2 * len(ODD), ["bro\nken\udcff.csv"])


def broken_tables(data: Path) -> list[str]:
    """Files that are broken in ways of their own, some of them far from their beginning."""
    pa: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    rows = table(9_000, 0).to_csv(index=False).encode()
    whole = gzip.compress(rows)
    columns = table(9_000, 0)
    colours = pa.array([text.encode() for text in columns["colour"][:-1]] + [b"\xff"]).view(pa.string())
    parquet.write_table(pa.table({"age": columns["age"], "colour": colours}), data / "bytes.parquet")
    columns.to_parquet(data / "part9.parquet")
    stored = (data / "part9.parquet").read_bytes()
    contents = {
        "wide.csv": rows + b"1,2,red,yes,5,6\n",
        "undecodable.csv": rows + b"1,2,\xff,yes\n",
        "truncated.csv.gz": whole[: len(whole) // 2],
        "corrupt.csv.gz": whole[:-8] + b"\0" * 8,
        "truncated.parquet": stored[: len(stored) // 2],
        "overwritten.parquet": stored[:2000] + b"\xaa" * 2000 + stored[4000:],
        "nul.csv": rows + b"1,\0,red,yes\n",
        "quotes.csv": rows + b'1,2,"red,yes\n',
        "empty.csv": b"",
        "colon.csv": b"a;b\n1;2\n",
        "twice.csv": b"age,age,colour\n1,2,red\n",
    }
    for name, content in contents.items():
        (data / name).write_bytes(content)
    (data / "part9.parquet").unlink()
    return sorted([*contents, "bytes.parquet"])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_broken_tables_are_named_and_the_others_done(models: Path, tmp_path: Path, n_jobs: int) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    broken = broken_tables(data)
    summary = score_files(models / "model", data, out, n_jobs=n_jobs)
    assert sorted(summary.failed) == broken
    assert len(summary.records) == 4
    for name, problem in zip(summary.failed, summary.problems, strict=True):
        assert str(data / name) in problem
    assert len(written_tables(out)) == 4
    (data / "wide.csv").write_text(table(5, 0).to_csv(index=False))
    again = score_files(models / "model", data, out, n_jobs=n_jobs)
    assert (again.n_before, sorted(again.failed)) == (4, sorted(set(broken) - {"wide.csv"}))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everybody may read")
def test_a_table_that_may_not_be_read_is_named(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data")
    (data / "part0.parquet").chmod(0)
    assert score_files(models / "model", data, tmp_path / "out").failed == ["part0.parquet"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_lead_to_files_once(models: Path, tmp_path: Path) -> None:
    data, elsewhere = write_tables(tmp_path / "data", 2), write_tables(tmp_path / "elsewhere", 2)
    (data / "here").symlink_to(data)
    (data / "up").symlink_to(tmp_path)
    (data / "more" / "back").symlink_to("../more")
    (data / "again.parquet").symlink_to("part0.parquet")
    (data / "loop.parquet").symlink_to("loop.parquet")
    (data / "nowhere.parquet").symlink_to("nothing.parquet")
    (elsewhere / "more" / "data").symlink_to(data)
    for name in ("aside", "beside"):
        (data / name).symlink_to(elsewhere)
    (data / "zero.parquet").symlink_to(elsewhere / "part0.parquet")
    summary = score_files(models / "model", data, tmp_path / "out" / "answers")
    names = ["aside/more/part1.parquet", "aside/part0.parquet", "more/part1.parquet", "part0.parquet"]
    assert [record.input.name for record in summary.records] == names
    assert summary.verdicts.total() == 120


def test_a_link_is_a_dataset_too(models: Path, tmp_path: Path) -> None:
    write_tables(tmp_path / "data", 2)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert score_files(models / "model", tmp_path / "link", tmp_path / "out").verdicts.total() == 60
