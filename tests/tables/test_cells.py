"""What cells mean, and the columns they make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from socratic.errors import DataFileError
from socratic.tables.categories import Categories
from socratic.tables.cells import MISSING

pa = pytest.importorskip("pyarrow")

from socratic.tables.batches import numbers, texts  # noqa: E402
from socratic.tables.kinds import Tally  # noqa: E402


def kind_of(cells: list[str]) -> str:
    tally = Tally()
    tally.add(pa.array(cells), 0)
    return tally.kind("x")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", " 2.5 ", "-3e2", "", "NA", "  ", None], [1.0, 2.5, -300.0, *[np.nan] * 4]),
        (["1", "2.5", "-3e2", "", "NA", None], [1.0, 2.5, -300.0, *[np.nan] * 3]),
        (["1_000", "+2", "0x1p4"][:2], [1000.0, 2.0]),
        (["NAN", "-nan", "1e-999"], [np.nan, np.nan, 0.0]),
    ],
)
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_numbers(cells: list[str | None], expected: list[float], kind: str) -> None:
    array = pa.array(cells, pa.large_string() if kind == "large_string" else pa.string())
    array = array.dictionary_encode() if kind == "dictionary" else array
    np.testing.assert_array_equal(numbers(array, "x", 0), expected)


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(DataFileError, match="row 12, column 'x' must hold a number; got 'b'"):
        numbers(pa.array(["1", "b", "b"]), "x", 10)
    for cell in ("inf", " -Infinity", "1e999"):
        with pytest.raises(DataFileError, match="row 12, column 'x' holds an infinite number"):
            numbers(pa.array(["1", cell]), "x", 10)
    with pytest.raises(DataFileError, match="row 2, column 'x' holds an infinite number"):
        numbers(pa.array([1.0, np.inf]), "x", 0)
    with pytest.raises(DataFileError, match=r"column 'x' must hold numbers; it holds dictionary<values=int64"):
        numbers(pa.array([1, 2]).dictionary_encode(), "x", 0)


def test_typed_columns_are_numbers() -> None:
    np.testing.assert_array_equal(numbers(pa.array([1, None, 3]), "x", 0), [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(numbers(pa.array([True, None, False]), "x", 0), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(numbers(pa.nulls(2), "x", 0), [np.nan, np.nan])


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "", "nan", "NAN"], "number"),
        (["", "NA"], "number"),
        (["true", "FALSE", ""], "boolean"),
        (["true", "yes"], "text"),
        (["a", "1", "b"], "text"),
        (["1", "true", "no"], "text"),
    ],
)
def test_kinds(cells: list[str], kind: str) -> None:
    assert kind_of(cells) == kind
    # However the cells come.
    tally = Tally()
    for row, cell in enumerate(cells):
        tally.add(pa.array([cell]), row)
    assert tally.kind("x") == kind


def test_a_stray_text_among_numbers_is_an_error() -> None:
    with pytest.raises(DataFileError, match=r"row 3, column 'x' holds '1,5', which is no number \(write decimals"):
        kind_of(["1", "2", "1,5", "1,6", "3", "4"])


def as_texts(array: Any) -> list[str | None]:
    coded = texts(array)
    return [None if code < 0 else coded.values[code] for code in coded.codes]


def test_texts() -> None:
    cells = ["a ", "1.0", "1.50", "007", "1", "", " NA", None]
    assert as_texts(pa.array(cells)) == ["a", "1", "1.50", "007", "1", None, None, None]
    assert len(texts(pa.array(cells)).values) == 4
    assert as_texts(pa.array(sorted(MISSING))) == [None] * len(MISSING)
    assert as_texts(pa.array([1.0, 1.5, None, np.nan])) == ["1", "1.5", None, None]
    assert as_texts(pa.array([True, None])) == ["True", None]
    assert as_texts(pa.array(["b", "a", None]).dictionary_encode()[1:]) == ["a", None]


@pytest.mark.parametrize(
    ("known", "values", "expected"),
    [
        (["a", "b"], ["a", "A", "a "], [0, -1, 0]),
        ([False, True], ["true", "FALSE", "True", "1", "x", 0.0, True], [1, 0, 1, 1, -1, 0, 1]),
        ([1, 2], ["1", "2.00", "3", 2.0], [0, 1, -1, 1]),
        ([1.0, 1.5], ["1", "1.50", "1.5", 1], [0, 1, 1, 0]),
        (["007", "7"], ["007", "7", "7.0"], [0, 1, 1]),
        (["1", "1.0"], ["1", "1.0"], [0, 1]),
    ],
)
def test_categories(known: list[object], values: list[object], expected: list[int]) -> None:
    assert Categories(known).find_all(values).tolist() == expected
