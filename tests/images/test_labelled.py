from __future__ import annotations

import numpy as np
import pytest

from socratic.images import Images

GREY = np.random.default_rng(0).integers(256, size=(5, 28, 28, 1), dtype=np.uint8)


@pytest.mark.parametrize(
    "index",
    [slice(1, 4), [3, 1], np.array([True, False, False, True, True]), np.array([-1]), [], slice(0, 0)],
    ids=["slice", "positions", "booleans", "negative", "empty", "empty slice"],
)
def test_take_keeps_images_and_labels_together(index: slice | list[int] | np.ndarray) -> None:
    found = Images(GREY, np.arange(5), "set").take(index)
    np.testing.assert_array_equal(found.labels, np.arange(5)[index])
    np.testing.assert_array_equal(found.images, GREY[found.labels])
    assert len(found) == len(found.labels)
    assert found.name == "set"


def test_take_of_a_single_position_is_refused() -> None:
    with pytest.raises(ValueError, match="index must be a slice or a list of positions or booleans; got 3"):
        Images(GREY, np.arange(5), "set").take(3)


def test_classes_by_name_where_there_are_names() -> None:
    images = Images(GREY, np.array([0, 1, 1, 0, 1]), "set", ("cat", "dog"))
    assert images.named_labels().tolist() == ["cat", "dog", "dog", "cat", "dog"]
    assert Images(GREY, np.arange(5), "set").named_labels().tolist() == [0, 1, 2, 3, 4]
