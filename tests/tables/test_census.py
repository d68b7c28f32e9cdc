"""What all rows hold, and a sample may lack."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.tables.census import Census
from socratic.tables.columns import fit_table
from socratic.tables.raw import RawTable, raw_table

pd = pytest.importorskip("pandas")


def pieces_of(raw: RawTable, size: int = 7) -> list[RawTable]:
    return [raw.take(np.arange(start, min(start + size, raw.n_rows))) for start in range(0, raw.n_rows, size)]


def frame(n_rows: int) -> RawTable:
    rng = np.random.default_rng(0)
    two = np.where(rng.random(n_rows) < 0.3, 2.0, 5.0)
    rare = np.where(np.arange(n_rows) == 50, 9.0, 1.0)
    text = rng.choice(["a", "b"], n_rows).astype(object)
    text[60], text[61] = "only here", None
    number = rng.normal(size=n_rows)
    number[70], number[71] = 1e3, np.nan
    flag = (rng.random(n_rows) < 0.5).astype(object)
    flag[72] = None
    columns = {"two": two, "rare": rare, "text": text, "number": number, "flag": flag, "none": np.full(n_rows, np.nan)}
    return raw_table(pd.DataFrame(columns))


def test_witnesses_hold_what_a_sample_lacks() -> None:
    raw = frame(100)
    census = Census(6)
    for piece in pieces_of(raw):
        census.add(piece, np.ones(piece.n_rows))
    sample = raw.take(np.arange(40))
    witnesses = census.witnesses(sample)
    found = [values.values if hasattr(values, "values") else values[~np.isnan(values)] for values in witnesses.values]
    assert list(found[0]) == []
    assert list(found[1]) == [9.0]
    assert found[2] == ("only here",)
    numbers = raw.values[3]
    assert isinstance(numbers, np.ndarray)
    assert set(found[3]) >= {1e3}
    assert set(found[3]) <= {1e3, *numbers}
    assert list(found[4]) == []
    assert list(found[5]) == []


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_those_of_a_table_in_memory(weighted: bool) -> None:
    raw = frame(100)
    weight = np.random.default_rng(1).random(100) + 0.5 if weighted else np.ones(100)
    census = Census(6)
    for start, piece in enumerate(pieces_of(raw)):
        census.add(piece, weight[7 * start : 7 * start + piece.n_rows])
    sample = raw.take(np.arange(40))
    every = RawTable.joined([sample, census.witnesses(sample)])
    columns = fit_table(every, np.ones(every.n_rows, dtype=bool), None)
    found = census.applied(columns.standardised(columns.read(every).codes, np.ones(every.n_rows)))
    whole = fit_table(raw, np.ones(100, dtype=bool), None)
    expected = whole.standardised(whole.read(raw).codes, weight)
    for own, other in zip(found.columns, expected.columns, strict=True):
        assert (own.family, own.categories, own.constant) == (other.family, other.categories, other.constant)
        assert own.unseen == pytest.approx(other.unseen)
        assert (own.counts is None) == (other.counts is None)
        if own.counts is not None:
            assert own.counts == pytest.approx(other.counts)


def test_a_column_of_many_texts_takes_bounded_memory() -> None:
    census = Census(1)
    for start in range(0, 50_000, 5_000):
        names = pd.DataFrame({"name": [f"n{number}" for number in range(start, start + 5_000)]})
        census.add(raw_table(names), np.ones(5_000))
    assert len(census.columns[0].weights) <= 6_000
    assert census.columns[0].n_rows == 50_000
