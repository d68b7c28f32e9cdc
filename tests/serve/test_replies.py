from __future__ import annotations

import asyncio
from typing import Any

import pytest

from socratic.serve.replies import Json, json_of


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"a": [], "b": {}, "c": [[]], "d": [{}], "e": None},
        {"answers": [{"label": "a", "heat": [[0.5, None]] * 70, "ambiguous": True}] * 3},
        {"outputs": [{"name": "\u2028", "data": [number / 7 for number in range(2_345)]}, {"data": ["x"] * 1_000}]},
    ],
)
def test_long_replies_are_written_as_short_ones(content: Any) -> None:
    assert asyncio.run(json_of(content, 10**6)).body == asyncio.run(json_of(content, 1)).body == Json(content).body


def test_no_words_for_infinity() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        asyncio.run(json_of({"data": [float("inf")] * 2_000}, 10**6))
