"""What estimators take as a table, and what they refuse by the name of the column."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from socratic.estimators import CircuitClassifier, CircuitDensity
from socratic.tables.raw import Coded, raw_table

QUICK: dict[str, Any] = {"n_epochs": 2, "n_sums": 2, "n_repetitions": 1, "random_state": 0, "n_jobs": 1}
DAYS = [datetime.date(2020, 1, 1 + i) for i in range(20)]
REFUSED = {
    "times": ([datetime.time(i) for i in range(20)], "times; convert them to numbers, such as seconds since midnight"),
    "waits": (pd.to_timedelta(range(20), unit="h"), "durations; convert them to numbers, such as seconds"),
    "keys": ([bytes([65 + i]) for i in range(20)], "bytes; decode them to text"),
    "prices": ([Decimal(i) / 10 for i in range(20)], "decimals; convert them to floats"),
    "waves": (np.arange(20) * 1j, "complex numbers; make two columns of their real and imaginary parts"),
}


def labels(n: int) -> list[str]:
    return ["no", "yes"] * (n // 2)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 5, 60),
            "visits": rng.integers(0, 9, 60),
            "member": rng.random(60) < 0.5,
            "colour": rng.choice(["red", "green"], 60),
        }
    )


@pytest.mark.parametrize("name", REFUSED)
def test_columns_that_no_leaf_can_hold_are_named(name: str) -> None:
    values, message = REFUSED[name]
    table = pd.DataFrame({"age": np.arange(20.0), name: values})
    for estimator in (CircuitClassifier(**QUICK), CircuitDensity(**QUICK)):
        with pytest.raises(ValueError, match=f"column '{name}' holds {message}.*, or leave the column out"):
            estimator.fit(table, labels(20))


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_in_arrays(name: str) -> None:
    values, message = REFUSED[name]
    array = np.column_stack([values, values])
    with pytest.raises(ValueError, match=f"column 'x0' holds {message}"):
        raw_table(array)
    mixed = np.column_stack([np.arange(20), np.array(values, dtype=object)])
    with pytest.raises(ValueError, match=f"column 'x1' holds {message}"):
        raw_table(mixed)


def test_arrays_hold_no_dates() -> None:
    with pytest.raises(ValueError, match=r"column 'x0' holds dates; convert them to numbers, .* or give a data frame"):
        CircuitDensity(**QUICK).fit(np.array(DAYS, dtype="datetime64[D]")[:, None])


@pytest.mark.parametrize("name", ["waits", "keys", "prices"])
def test_the_same_in_arrow_tables(name: str) -> None:
    pa = pytest.importorskip("pyarrow")
    values, message = REFUSED[name]
    table = pa.table({"age": np.arange(20.0), name: pa.array(values)})
    with pytest.raises(ValueError, match=f"column '{name}' holds {message}"):
        CircuitClassifier(**QUICK).fit(table, labels(20))


@pytest.mark.parametrize("kind", ["large_binary", "binary_view", "binary"])
def test_bytes_of_every_arrow_type_are_refused(kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    kinds = {"large_binary": pa.large_binary(), "binary_view": pa.binary_view(), "binary": pa.binary(2)}
    with pytest.raises(ValueError, match="column 'keys' holds bytes; decode them to text"):
        raw_table(pa.table({"keys": pa.array([b"ab", b"cd"], kinds[kind])}))


def test_categories_of_polars_are_categories() -> None:
    (column,) = raw_table(pl.DataFrame({"c": ["u", None, "v"]}, schema={"c": pl.Categorical})).values
    assert isinstance(column, Coded)
    assert column.codes.tolist() == [0, -1, 1]
    assert column.values == ("u", "v")


def test_tensors_are_arrays() -> None:
    for array in (np.arange(6.0).reshape(3, 2), np.eye(3) > 0):
        found, expected = raw_table(torch.as_tensor(array)), raw_table(array)
        assert found.names == expected.names
        np.testing.assert_array_equal(found.values, expected.values)
        assert np.asarray(found.values[0]).dtype == np.asarray(expected.values[0]).dtype


def test_nested_columns_are_named() -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"column 'tags' holds list.*neither numbers nor text"):
        raw_table(pa.table({"tags": [["a"], ["b"]]}))


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_arrays_of_booleans_have_bernoulli_leaves(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((80, 3)) < [0.2, 0.5, 0.8]
    x[:, 2] = True
    model = CircuitClassifier(**QUICK).fit(x, x[:, 1])
    assert [(column.kind, column.categories) for column in model.table_.columns] == [("bernoulli", (False, True))] * 3
    answers = model.predict_proba(x)
    assert np.array_equal(model.predict_proba(x.astype(float)), answers)
    assert np.array_equal(model.predict_proba(x.astype(int)), answers)
    assert np.isfinite(model.predict_proba(~x)).all()
    rows, _ = model.sample(5, random_state=0)
    assert rows.dtype == bool
    holes = x.astype(float)
    holes[0, 0] = np.nan
    assert set(np.unique(model.impute(holes))) == {0.0, 1.0}


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_arrow_tables_are_data_frames(frame: pd.DataFrame) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(frame)
    model = CircuitClassifier(**QUICK).fit(table, labels(60))
    expected = CircuitClassifier(**QUICK).fit(frame, labels(60))
    assert list(model.feature_names_in_) == list(frame.columns)
    assert np.array_equal(model.predict_proba(table), expected.predict_proba(frame))
    assert np.array_equal(model.predict_proba(frame), expected.predict_proba(table.combine_chunks().to_batches()[0]))
    # What is missing there is missing here.
    holes = frame.astype({"member": object, "visits": float}).mask(np.arange(60)[:, None] % 4 == np.arange(4))
    assert np.array_equal(model.predict_proba(pa.Table.from_pandas(holes)), expected.predict_proba(holes))
    with pytest.raises(ValueError, match="X must be an array or a pandas data frame to be filled in; got Table"):
        model.impute(table)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_polars_frames_are_data_frames(frame: pd.DataFrame) -> None:
    model = CircuitClassifier(**QUICK).fit(pl.DataFrame(frame.to_dict("list")), pl.Series(labels(60)))
    expected = CircuitClassifier(**QUICK).fit(frame, labels(60))
    assert np.array_equal(model.predict_proba(pl.DataFrame(frame.to_dict("list"))), expected.predict_proba(frame))
    dated = pl.DataFrame({"age": range(20), "day": DAYS})
    assert "day: left out (dates" in CircuitClassifier(**QUICK).fit(dated, labels(20)).describe_columns()[1]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT], ids=["None", "NaN", "NA", "NaT"])
def test_missing_labels_are_counted(missing: Any) -> None:
    y = pd.Series(labels(20), dtype=object)
    y[[3, 5]] = missing
    with pytest.raises(ValueError, match="y must hold a label for each row; 2 of 20 are missing, the first in row 3"):
        CircuitClassifier(**QUICK).fit(np.arange(20.0)[:, None], y)
    numbers = np.array([0.0, 1.0] * 10)
    numbers[7] = np.nan
    with pytest.raises(ValueError, match="1 of 20 are missing, the first in row 7"):
        CircuitClassifier(**QUICK).fit(np.arange(20.0)[:, None], numbers)


def test_labels_are_of_one_kind() -> None:
    with pytest.raises(ValueError, match="y must hold labels of one kind; it holds int and str"):
        CircuitClassifier(**QUICK).fit(np.arange(4.0)[:, None], np.array(["a", 1, "a", 1], dtype=object))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (["many"] * 20, "sample_weight must hold a number for each row; got"),
        (np.ones(19), r"sample_weight must hold a number for each of 20 rows; got the shape \(19,\)"),
        (np.full(20, np.nan), "sample_weight must hold numbers of at least 0"),
        ({"age": 1}, "sample_weight must hold a number for each row"),
    ],
)
def test_weights_that_are_none_are_named(weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CircuitClassifier(**QUICK).fit(np.arange(20.0)[:, None], labels(20), sample_weight=weight)


def test_other_things_are_no_tables() -> None:
    with pytest.raises(ValueError, match="X must be an array of numbers or a data frame; got dict"):
        CircuitClassifier(**QUICK).fit({"age": [1, 2]}, labels(2))
    mixed = pd.DataFrame({"age": [1.0, 2.0], 7: [1.0, 2.0]})
    with pytest.raises(ValueError, match="Feature names are only supported if all input features have string names"):
        CircuitClassifier(**QUICK).fit(mixed, labels(2))
    with pytest.raises(ValueError, match=r"leaf must map names of columns to families.*got 'gaussian'"):
        CircuitClassifier(**QUICK, leaf="gaussian").fit(np.arange(4.0)[:, None], labels(4))


@pytest.mark.parametrize("dtype", [object, str])
def test_arrays_of_text_name_the_remedy(dtype: type) -> None:
    text: np.ndarray = np.array([["a"], ["b"]], dtype=dtype)
    with pytest.raises(ValueError, match=r"arrays hold numbers: pass columns of text as pandas\.DataFrame"):
        raw_table(text)
    assert raw_table(pd.DataFrame(text)).n_rows == 2


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool", "object"])
def test_masked_cells_are_missing(dtype: str) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2 if dtype == "bool" else 9, (60, 3)).astype(dtype)
    mask = rng.random((60, 3)) < 0.2
    table = raw_table(np.ma.array(numbers, mask=mask))
    assert np.array_equal(table.missing, mask)
    for place, column in enumerate(table.values):
        found = column.numbers("x") if isinstance(column, Coded) else column
        assert np.array_equal(found[~mask[:, place]], numbers[~mask[:, place], place].astype(float))
    whole = raw_table(np.ma.array(numbers))
    assert all(np.array_equal(a, b) for a, b in zip(whole.values, raw_table(numbers).values, strict=True))
    assert np.array_equal(raw_table(list(np.ma.array(numbers, mask=mask))).missing, mask)


def test_what_lies_under_a_mask_does_not_count() -> None:
    rng = np.random.default_rng(0)
    numbers, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    mask = rng.random((60, 3)) < 0.2
    missing = np.where(mask, np.nan, numbers)
    hidden = np.where(mask, rng.choice([np.inf, 1e300, -999.0], (60, 3)), numbers)
    model, same = (CircuitClassifier(**QUICK).fit(x, y) for x in (np.ma.array(hidden, mask=mask), missing))
    assert np.array_equal(model.predict_proba(np.ma.array(hidden, mask=mask)), same.predict_proba(missing))
    assert np.array_equal(
        CircuitDensity(**QUICK).fit(np.ma.array(hidden, mask=mask)).score_samples(missing),
        CircuitDensity(**QUICK).fit(missing).score_samples(missing),
    )


@pytest.mark.parametrize("values", [np.arange(20) % 2, np.array(["no", "yes"] * 10)])
def test_masked_labels_and_weights_are_refused(values: np.ndarray) -> None:
    x, hidden = np.arange(40.0).reshape(20, 2), np.isin(np.arange(20), [3, 7])
    with pytest.raises(ValueError, match=r"y must hold a label .*; 2 of 20 are missing, the first in row 3: leave"):
        CircuitClassifier(**QUICK).fit(x, np.ma.array(values, mask=hidden))
    CircuitClassifier(**QUICK).fit(x, np.ma.array(values))
    with pytest.raises(ValueError, match=r"sample_weight must hold a number .*; 2 are masked, the first in row 3"):
        CircuitClassifier(**QUICK).fit(x, values, sample_weight=np.ma.array(np.ones(20), mask=hidden))
