"""What cells mean."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.cli.failures import UserError, close_names
from socratic.cli.values import MISSING, Categories, Tally, parse_numbers, parse_texts


def kind_of(cells: list[str]) -> str:
    tally = Tally()
    tally.add(cells, 0)
    return tally.kind("x")


def test_numbers() -> None:
    found = parse_numbers(["1", " 2.5 ", "-3e2", "", "NA", "  ", None], "x", 0)
    np.testing.assert_array_equal(found, [1.0, 2.5, -300.0, *[np.nan] * 4])
    with pytest.raises(UserError, match=r"row 12, column 'x' must hold a number; got 'b'"):
        parse_numbers(["1", "b"], "x", 10)


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
        tally.add([cell], row)
    assert tally.kind("x") == kind


def test_a_stray_text_among_numbers_is_an_error() -> None:
    with pytest.raises(UserError, match=r"row 3, column 'x' holds '1,5', which is no number \(write decimals"):
        kind_of(["1", "2", "1,5"])


def test_texts() -> None:
    assert parse_texts(["a ", "1.0", "1.50", "007", "", " NA", None]).tolist() == ["a", "1", "1.50", "007"] + [None] * 3
    assert all(text is None for text in parse_texts(sorted(MISSING)))


@pytest.mark.parametrize(
    ("known", "texts", "expected"),
    [
        (["a", "b"], ["a", "A", None], ["a", None, None]),
        ([False, True], ["true", "FALSE", "True", "1", "x"], [True, False, True, True, None]),
        ([1, 2], ["1", "2.00", "3"], [1, 2, None]),
        ([1.0, 1.5], ["1", "1.50", "1.5"], [1.0, 1.5, 1.5]),
        (["007", "7"], ["007", "7", "7.0"], ["007", "7", "7"]),
    ],
)
def test_categories(known: list[object], texts: list[str], expected: list[object]) -> None:
    values, unknown = Categories(known).match(np.array(texts, dtype=object))
    assert values.tolist() == expected
    assert unknown == [text for text, value in zip(texts, expected, strict=True) if value is None and text]


def test_false_is_a_known_value() -> None:
    _, unknown = Categories([False, 0, ""]).match(np.array(["false", "0"], dtype=object))
    assert not unknown


def test_close_names() -> None:
    assert close_names("Agee", ["age", "income"]) == ["age"]
    assert close_names("zzz", ["age", "income"]) == []
