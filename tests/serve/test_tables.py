from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from socratic.scoring import Columns, scorer_of
from socratic.serve.model import ServedTable
from socratic.tables.reading import open_source
from socratic.tables.writing import open_sink
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Reply, Site, running

CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"


def send(site: Site, body: bytes, query: str = "model=fruit", kind: str = CSV) -> Reply:
    return site.ask(f"/v1/predict/batch?{query}", body, content_type=kind)


def predicted(path: Path) -> bytes:
    """What ``socratic predict`` writes for a table."""
    scorer, source = scorer_of(fitted("forest")), open_source(path)
    output = path.with_name(f"answers{path.suffix}")
    with open_sink(output, scorer.numeric) as sink:
        for chunk in source.chunks():
            sink.write(chunk.batch, scorer(chunk.batch, chunk.start, Columns()))
    return output.read_bytes()


def test_a_table_comes_back_as_predict_writes_it(site: Site, tmp_path: Path) -> None:
    frame, _ = make_fruit(60, seed=2)
    frame.loc[3, "colour"] = None
    frame.to_csv(tmp_path / "fruit.csv", index=False)
    reply = send(site, (tmp_path / "fruit.csv").read_bytes())
    assert (reply.status, reply.headers["content-type"].partition(";")[0]) == (200, CSV)
    assert reply.body == predicted(tmp_path / "fruit.csv")
    frame.to_parquet(tmp_path / "fruit.parquet")
    reply = send(site, (tmp_path / "fruit.parquet").read_bytes(), kind=PARQUET)
    expected = pd.read_parquet(io.BytesIO(predicted(tmp_path / "fruit.parquet")))
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(reply.body)), expected)


def test_what_is_asked_for_by_the_address(site: Site) -> None:
    frame, _ = make_fruit(30, seed=2)
    table = frame.to_csv(index=False).encode()
    query = "model=fruit&prefix=my_&probabilities=false&explain=false&rejection_rate=0.5"
    found = pd.read_csv(io.BytesIO(send(site, table, query).body))
    added = ["label", "probability", "entropy", "std", "p_value", "risk", "verdict"]
    assert list(found) == [*frame, *(f"my_{name}" for name in added)]
    assert ((found["my_verdict"] == "unfamiliar") == (found["my_p_value"] <= 0.5)).all()


def test_detectors_and_densities(site: Site) -> None:
    frame, _ = make_fruit(20, seed=2)
    table = frame.to_csv(index=False).encode()
    odd = pd.read_csv(io.BytesIO(send(site, table, "model=odd&prefix=a_").body))
    assert list(odd)[-5:] == ["a_log_likelihood", "a_log_std", "a_p_value", "a_verdict", "a_reasons"]
    assert odd["a_p_value"].to_numpy() == pytest.approx(fitted("detector").p_value(frame), rel=1e-4)
    density = pd.read_csv(io.BytesIO(send(site, table, "model=density").body))
    assert list(density)[-2:] == ["log_likelihood", "log_std"]


def test_cells_that_a_spreadsheet_would_run(site: Site) -> None:
    frame, _ = make_fruit(4, seed=2)
    frame["note"] = ["=1+1", "-5", '@SUM("a,b")', "fine"]
    frame["weight"] = [-1.5, 2.0, 3.0, 4.0]
    table = frame.to_csv(index=False).encode()
    harmless = pd.read_csv(io.BytesIO(send(site, table, "model=fruit&harmless=true").body))
    assert harmless["note"].tolist() == ["'=1+1", "-5", '\'@SUM("a,b")', "fine"]
    assert harmless["weight"].tolist() == frame["weight"].tolist()
    assert pd.read_csv(io.BytesIO(send(site, table).body))["note"].tolist() == frame["note"].tolist()


def table_with(**columns: Any) -> bytes:
    return make_fruit(3)[0].assign(**columns).to_csv(index=False).encode()


@pytest.mark.parametrize(
    ("body", "query", "kind", "status", "message"),
    [
        (b"weight\n1\n", "model=fruit", CSV, 422, "the table has no column 'length'; the model was trained on it"),
        (table_with(weight="heavy"), "model=fruit", CSV, 422, "row 1, column 'weight' must hold a number; got 'heavy'"),
        (table_with(label=1), "model=fruit", CSV, 422, "the table has a column 'label' already"),
        (b"", "model=fruit", CSV, 422, "the table is empty"),
        (b"PAR1" * 9, "model=fruit", PARQUET, 422, "the table is damaged or no Parquet file"),
        (b"\xff\xfe\x00" * 9, "model=fruit", CSV, 422, "the table is not UTF-8 text"),
        (b"{}", "model=fruit", "application/json", 415, "the content type must be text/csv or application/vnd.apache"),
        (table_with(), "model=digits", CSV, 422, "model 'digits' answers images; send them to /v1/predict"),
        (table_with(), "model=fruit&rejection_rate=2", CSV, 422, "rejection_rate: Input should be less than 1"),
        (table_with(), "model=fruit&dropout=0.1", CSV, 422, "dropout is for doubt='dropout'"),
        (
            b"PAR1",
            "model=fruit&harmless=true",
            PARQUET,
            422,
            "harmless is for CSV tables, whose cells spreadsheets run",
        ),
    ],
)
def test_tables_that_cannot_be_answered(
    site: Site, body: bytes, query: str, kind: str, status: int, message: str
) -> None:
    reply = send(site, body, query, kind)
    assert (reply.status, message in reply.error) == (status, True), reply.body
    assert "/tmp" not in reply.error


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("rejectionrate=0.5", "there is no option 'rejectionrate'; did you mean 'rejection_rate'?"),
        ("rejection_rate=0.5&rejection_rate=0.1", "option 'rejection_rate' must be there once; got it 2 times"),
    ],
)
def test_options_are_not_ignored(site: Site, query: str, message: str) -> None:
    reply = send(site, table_with(), f"model=fruit&{query}")
    assert (reply.status, reply.error) == (422, message)


def test_a_full_disk(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    resource = pytest.importorskip("resource", reason="limits of processes are not on every system")
    table = make_fruit(20_000)[0].to_csv(index=False).encode()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, before[1]))
        reply = send(site, table)
        assert (reply.status, reply.error) == (
            507,
            "the server has no room for the table; try again later, or send it in parts",
        )
        assert send(site, table_with()).status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "a table could not be kept" in caplog.text


def test_limits_of_tables(forest: ServedTable) -> None:
    with running([forest], max_table_bytes=2_000, max_table_rows=5) as small:
        assert send(small, b"x" * 2_001).status == 413
        assert send(small, make_fruit(6)[0].to_csv(index=False).encode()).error == (
            "the table has more than 5 rows; send it in parts"
        )
        assert send(small, make_fruit(5)[0].to_csv(index=False).encode()).status == 200
