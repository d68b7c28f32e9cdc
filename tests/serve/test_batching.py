from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from socratic.serve.batching import Batcher
from socratic.serve.model import Options, Record, ServedModel
from tests.serve.running import Site

Rows = list[dict[str, Any]]


class Watched:
    """Doubles numbers, and remembers which came together; fails with those that are negative."""

    def __init__(self) -> None:
        self.together: list[list[int]] = []

    def __call__(self, parts: list[int]) -> Sequence[int]:
        self.together.append(parts)
        if min(parts) < 0:
            raise RuntimeError("negative")
        return [2 * part for part in parts]


def answers(batcher: Batcher, compute: Watched, asked: Sequence[tuple[str, int]]) -> list[Any]:
    async def ask() -> list[Any]:
        jobs = (batcher.answer(key, number, 1, compute) for key, number in asked)
        return await asyncio.gather(*jobs, return_exceptions=True)

    batcher.start()
    try:
        return asyncio.run(ask())
    finally:
        batcher.stop()


def test_requests_of_one_kind_are_answered_together() -> None:
    compute = Watched()
    found = answers(Batcher(200.0, 5), compute, [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)])
    assert found == [2, 4, 6, 8, 10]
    assert compute.together == [[1, 3, 4], [2, 5]]


def test_no_more_rows_than_allowed() -> None:
    compute = Watched()
    assert answers(Batcher(50.0, 2), compute, [("a", number) for number in range(5)]) == [0, 2, 4, 6, 8]
    assert [len(parts) for parts in compute.together] == [2, 2, 1]


class Chores:
    """Some things to do, each of which takes a moment; the first one fails."""

    def __init__(self, n_left: int) -> None:
        self.n_left, self.n_done = n_left, 0

    def are_left(self, *, enough: bool = False) -> bool:
        return self.n_left > 0

    def do_some(self) -> None:
        time.sleep(0.005)
        self.n_left -= 1
        self.n_done += 1
        if self.n_done == 1:
            raise RuntimeError("it went wrong")


def test_chores_are_done_when_nothing_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    chores = Chores(3)
    batcher = Batcher(0.0, 1, chores=chores)
    batcher.start()
    deadline = time.monotonic() + 20.0
    while chores.n_left and time.monotonic() < deadline:
        time.sleep(0.01)
    batcher.stop()
    assert chores.n_done == 3
    assert caplog.messages == ["what was to be done beside answers failed"]


def test_chores_take_little_time_while_requests_come() -> None:
    chores = Chores(1000)

    class Slow(Watched):
        def __call__(self, parts: list[int]) -> Sequence[int]:
            time.sleep(0.01)
            return super().__call__(parts)

    found = answers(Batcher(0.0, 1, chores=chores), Slow(), [(str(number), number) for number in range(40)])
    assert found == [2 * number for number in range(40)]
    assert 1 <= chores.n_done <= 6  # 3 % of 0.4 s, or somewhat more, is a few times 0.005 s


def test_one_that_fails_does_not_fail_others() -> None:
    compute = Watched()
    found = answers(Batcher(200.0, 3), compute, [("a", 1), ("a", -2), ("a", 3)])
    assert (found[0], found[2], str(found[1])) == (2, 6, "negative")
    assert compute.together == [[1, -2, 3], [1], [-2], [3]]


def test_those_who_left_are_not_answered() -> None:
    compute, begun, go_on = Watched(), threading.Event(), threading.Event()

    def held(parts: list[int]) -> list[int]:
        begun.set()
        go_on.wait(10)
        return parts

    async def ask() -> None:
        first = asyncio.ensure_future(batcher.answer("held", 0, 1, held))
        await asyncio.to_thread(begun.wait, 10)
        left = asyncio.ensure_future(batcher.answer("a", 1, 1, compute))
        await asyncio.sleep(0)
        left.cancel()
        go_on.set()
        assert await first == 0
        assert await batcher.answer("a", 2, 1, compute) == 4

    batcher = Batcher(0.0, 8)
    batcher.start()
    asyncio.run(ask())
    batcher.stop()
    assert compute.together == [[2]]


def test_the_end_answers_what_was_asked() -> None:
    async def ask() -> list[Any]:
        jobs = [asyncio.ensure_future(batcher.answer("a", number, 1, Watched())) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(batcher.stop)
        return await asyncio.gather(*jobs)

    batcher = Batcher(5.0, 4)
    batcher.start()
    assert asyncio.run(ask()) == [2 * number for number in range(20)]


def numbers(records: Sequence[Record]) -> np.ndarray:
    """All numbers of records (N, K)."""
    plain = [
        [value for value in record.values() if isinstance(value, float)]
        + [value for each in record["probabilities"] or () for value in (each["probability"], each["std"])]
        for record in records
    ]
    return np.array(plain, dtype=np.float64)


@pytest.mark.parametrize("name", ["fruit", "trees", "odd", "density"])
def test_answers_do_not_depend_on_the_company(everything: list[ServedModel], rows: Rows, name: str) -> None:
    """To 1e-9: sums over more rows at once are taken in another order."""
    (model,) = (model for model in everything if model.name == name)
    asked = [[row] for row in [*rows[:6], {**rows[0], "colour": "blue"}, {"weight": 3.0}]]
    together = model.answer_all(asked, Options())
    alone = [model.answer(part, Options()) for part in asked]
    assert [each[0]["verdict"] for each in together] == [each[0]["verdict"] for each in alone]
    for found, expected in zip(together, alone, strict=True):
        np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-9, atol=1e-9)


def test_requests_at_once_get_their_own_answers(site: Site, rows: Rows) -> None:
    asked = [{"model": "fruit", "rows": [row], "rejection_rate": rate} for row in rows[:6] for rate in (0.05, 0.5)]
    alone = [site.predict(**request).json["answers"] for request in asked]
    with ThreadPoolExecutor(len(asked)) as pool:
        together = list(pool.map(lambda request: site.predict(**request).json["answers"], asked))
    for found, expected in zip(together, alone, strict=True):
        assert found[0]["verdict"] == expected[0]["verdict"]
        np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-9, atol=1e-9)
