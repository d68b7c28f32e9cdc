"""Rows that stay in files: which are sampled, held out and trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from socratic.estimators import streamed_rows
from socratic.estimators.streamed_rows import StreamedRows
from socratic.estimators.streaming import CALIBRATION, REFERENCE, TRAIN, VALIDATION, Plan, plan_sample, take_survey
from socratic.learning.settings import Rows
from socratic.tables.columns import fit_table
from socratic.tables.training_files import TrainingFiles
from tests.tables.test_parquet_files import write

pytest.importorskip("pyarrow")


def test_samples_hold_out_as_many_of_each_class() -> None:
    counts = np.array([70_000, 29_990, 9, 1])
    plan = plan_sample(counts, [1000, 3000], 5000, np.random.default_rng(0), reference=1 / 3)
    assert len(np.unique(plan.places)) == len(plan.places)
    sizes = np.bincount(plan.parts)
    assert sizes[TRAIN] == 5000
    assert sizes[[VALIDATION, REFERENCE, CALIBRATION]] == pytest.approx([1000, 1000, 2000], abs=5)
    labels = np.repeat(np.arange(4), counts)[plan.places]
    held_out = np.bincount(labels[plan.parts != TRAIN], minlength=4)
    assert held_out[:2] / 4000 == pytest.approx([0.7, 0.3], abs=0.01)
    assert held_out[2] <= 4
    assert held_out[3] == 0


def test_samples_are_uniform() -> None:
    rng = np.random.default_rng(0)
    held_out, sampled = np.zeros(200), np.zeros(200)
    for _ in range(400):
        plan = plan_sample(np.array([120, 80]), [20, 40], 50, rng, reference=0.5)
        held_out[plan.places[plan.parts != TRAIN]] += 1 / 400
        sampled[plan.places[plan.parts == TRAIN]] += 1 / 400
    assert held_out.mean() == pytest.approx(0.3, abs=0.01)
    assert held_out == pytest.approx(np.full(200, 0.3), abs=0.1)
    assert sampled == pytest.approx(np.full(200, 0.25), abs=0.1)


def test_small_data_are_sampled_whole() -> None:
    plan = plan_sample(np.array([30, 30]), [5, 0], 1000, np.random.default_rng(0), reference=0.0)
    assert plan.places.tolist() == list(range(60))
    assert (plan.parts == TRAIN).all()


def training_files(folder: Path, n_rows: int = 300) -> TrainingFiles:
    """Rows with their number as a column; every seventh has no class, every eleventh no weight."""
    numbers = np.arange(n_rows)
    labels = [None if number % 7 == 0 else ["no", "yes"][number % 2] for number in numbers]
    weight = np.where(numbers % 11 == 0, 0.0, 1.0 + numbers % 2)
    columns: dict[str, Any] = {"id": numbers.astype(float), "class": labels, "weight": weight}
    parts = [{name: values[start : start + 100] for name, values in columns.items()} for start in (0, 100, 200)]
    return TrainingFiles.of(
        write(folder, *parts, group=30),
        str(folder),
        target="class",
        weight="weight",
        drop=[],
        asked={},
        drop_missing_target=True,
    )


NUMBERS = {"no": 0, "yes": 1}


def surveyed(files: TrainingFiles, sizes: list[int]) -> tuple[StreamedRows, np.ndarray, Plan]:
    """The stream, whose rows are encoded as their number, and the numbers of the rows that are held out."""
    counts = np.array([files.count().by_text[name] for name in NUMBERS])
    plan = plan_sample(counts, sizes, 40, np.random.default_rng(3), reference=0.5)
    survey = take_survey(files, NUMBERS, counts, plan)
    ids = survey.sample.values[0]
    assert isinstance(ids, np.ndarray)
    assert ids.tolist() == survey.number.tolist()
    assert survey.labels.tolist() == [number % 2 for number in survey.number]
    held_out = np.sort(survey.number[survey.part != TRAIN])
    table = fit_table(survey.sample, np.ones(survey.sample.n_rows, dtype=bool), {"id": "gaussian"})
    n_rows = int(counts.sum()) - len(held_out)
    stream = StreamedRows(files, table, NUMBERS, held_out, survey.class_weight, n_rows, torch.device("cpu"))
    return stream, held_out, plan


def expected_ids(held_out: np.ndarray) -> list[int]:
    return [number for number in range(300) if number % 7 and number % 11 and number not in held_out]


def ids(rows: Rows) -> list[int]:
    return [round(value) for value in rows.x[:, 0].tolist()]


@pytest.mark.parametrize("pool", [2**23, 32])
def test_every_row_is_trained_on_once_and_none_that_is_held_out(
    tmp_path: Path, pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_rows, "_POOL_CELLS", pool)
    stream, held_out, _ = surveyed(training_files(tmp_path), [30, 50])
    assert len(held_out) == pytest.approx(80, abs=3)
    expected = expected_ids(held_out)
    assert len(stream) == len(expected)
    orders = []
    for seed in (0, 0, 1):
        batches = list(stream.batches(16, seed))
        assert [len(batch) for batch in batches[:-1]] == [16] * (len(batches) - 1)
        assert 0 < len(batches[-1]) <= 16
        rows = Rows.concatenate(batches)
        orders.append(ids(rows))
        assert sorted(orders[-1]) == expected
        assert rows.y.tolist() == [number % 2 for number in orders[-1]]
        assert rows.weight.tolist() == [1.0 + number % 2 for number in orders[-1]]
    assert orders[0] == orders[1] != orders[2]
    pieces = list(stream.pieces(20))
    assert max(map(len, pieces)) <= 20
    assert ids(Rows.concatenate(pieces)) == expected


def test_class_weights_are_those_of_the_rows_that_are_trained_on(tmp_path: Path) -> None:
    stream, held_out, _ = surveyed(training_files(tmp_path), [30, 50])
    own = [sum(1.0 + number % 2 for number in expected_ids(held_out) if number % 2 == y) for y in (0, 1)]
    assert stream.class_weights(2).tolist() == own
    assert stream.class_weights(3).tolist() == [*own, 0.0]


def test_neighbours_in_a_file_are_apart_in_training(tmp_path: Path) -> None:
    stream, _, _ = surveyed(training_files(tmp_path), [0, 0])
    order = np.array(ids(Rows.concatenate(list(stream.batches(16, 0)))))
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.2


def test_digests_tell_streams_apart(tmp_path: Path) -> None:
    files = training_files(tmp_path)
    stream, _, _ = surveyed(files, [30, 50])
    again, _, _ = surveyed(files, [30, 50])
    other, _, _ = surveyed(files, [30, 0])
    assert stream.digest() == again.digest() != other.digest()
    assert stream.digest() == stream.to(torch.device("meta")).digest()
