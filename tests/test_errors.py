from __future__ import annotations

import numpy as np
import pytest

from socratic.errors import check_choice, check_count, check_rate


@pytest.mark.parametrize("value", [0, 0.0, 0.5, np.float32(0.25)])
def test_rates_are_returned_as_floats(value: float) -> None:
    assert check_rate("dropout", value) == float(value)


@pytest.mark.parametrize("value", [-0.1, 1.0, 1, float("nan"), "many", "0.2", None, True])
def test_other_rates_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\); got "):
        check_rate("dropout", value)


def test_counts() -> None:
    assert check_count("n", np.int64(3)) == 3
    with pytest.raises(ValueError, match="n must be a whole number of at least 2; got 1"):
        check_count("n", 1, minimum=2)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1; got True"):
        check_count("n", True)


def test_choices() -> None:
    check_choice("kind", "a", ("a", "b"))
    with pytest.raises(ValueError, match="kind must be one of 'a', 'b'; got 'c'"):
        check_choice("kind", "c", ("a", "b"))
    with pytest.raises(ValueError, match="got None"):
        check_choice("kind", None, ("a", "b"))
