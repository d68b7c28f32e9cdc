"""Parts of sets, changed sets, and images with nothing in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from socratic_experiments.data import load_images


def test_some_classes_are_numbered_anew() -> None:
    whole, part = load_images("digits", split="test"), load_images("digits:5-9", split="test")
    chosen = whole.labels >= 5
    np.testing.assert_array_equal(part.images, whole.images[chosen])
    np.testing.assert_array_equal(part.labels, whole.labels[chosen] - 5)
    assert part.classes == ("5", "6", "7", "8", "9")
    assert part.name == "digits:5-9"


@pytest.mark.parametrize(
    ("change", "classes"),
    [("odd", "13579"), ("even", "02468"), ("3", "3"), ("1,7-8,7", "178")],
)
def test_ways_to_name_classes(change: str, classes: str) -> None:
    part = load_images(f"digits:{change}")
    assert "".join(part.classes) == classes
    assert set(part.labels) == set(range(len(classes)))


def test_changed_images_keep_their_labels() -> None:
    whole = load_images("digits", split="test")
    turned, blurred = (load_images(f"digits:{change}", split="test") for change in ("turned", "blurred"))
    np.testing.assert_array_equal(turned.images, np.rot90(whole.images, axes=(1, 2)))
    expected = gaussian_filter(whole.images[7, ..., 0].astype(float), 1.5, mode="nearest")
    assert np.abs(blurred.images[7, ..., 0] - expected).max() <= 0.51
    np.testing.assert_array_equal(blurred.labels, whole.labels)
    assert len(load_images("digits:turned", split="test", limit=9)) == 9


def test_nothing_in_them(tmp_path: Path) -> None:
    blank = load_images("blank", tmp_path, "test", size=(28, 28))
    assert blank.images.shape == (1, 28, 28, 3)
    assert not blank.images.any()
    colours = load_images("colours", split="test")
    assert colours.images.shape == (1000, 32, 32, 3)
    assert (colours.images == colours.images[:, :1, :1]).all()
    assert len(np.unique(colours.images[:, 0, 0], axis=0)) > 900


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits:5-12", "digits:5-12: the set has no class 10; it has 0, 1, 2"),
        ("digits:4-2", "digits:4-2: the set has no such class"),
        ("digits:upside", r"a set can be changed by ':blurred', .*; got digits:upside"),
        ("digits:", r"a set can be changed by .*; got digits:$"),
    ],
)
def test_what_is_not_possible(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_images(name)
