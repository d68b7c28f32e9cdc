from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from experiments.tests.shifts.pictures import digits, photographs

from socratic_experiments.shifts import CORRUPTIONS, corrupt, pixels
from socratic_experiments.shifts.constants import CONSTANTS

SEVERITIES = range(1, 6)
PICTURES = {"28 grey": digits(40), "32 colour": photographs(32, 40)}
# Where a higher severity changes the images less, because one of its published constants is the milder one: glass
# blur shuffles more often but blurs less, frost dims the image that it brightens, elastic transforms bend more but
# move the corners less. Pixelate averages as many pixels for each new one only where the sizes divide: 28 pixels
# shrunk to 16 suffer more than to 14.
NOT_MONOTONE = {"glass_blur", "frost", "elastic_transform", "pixelate"}


def change(images: np.ndarray, corruption: str, severity: int, constants: str) -> float:
    corrupted = corrupt(images, corruption, severity, constants=constants)
    assert corrupted.shape == images.shape
    assert corrupted.dtype == np.uint8
    assert (corrupted != images).any(axis=(1, 2, 3)).all(), "some images are as they were"
    return float(np.abs(corrupted.astype(float) - images).mean())


def test_names_are_the_published_ones_in_their_order() -> None:
    published = (
        *("gaussian_noise", "shot_noise", "impulse_noise"),
        *("defocus_blur", "glass_blur", "motion_blur", "zoom_blur"),
        *("snow", "frost", "fog", "brightness"),
        *("contrast", "elastic_transform", "pixelate", "jpeg_compression"),
    )
    assert published == CORRUPTIONS


@pytest.mark.parametrize("style", CONSTANTS)
def test_every_corruption_has_five_severities(style: str) -> None:
    assert {name: len(entries) for name, entries in CONSTANTS[style].items()} == dict.fromkeys(CORRUPTIONS, 5)


@pytest.mark.parametrize("style", CONSTANTS)
@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_severities_change_every_image_and_grow(corruption: str, kind: str, style: str) -> None:
    changes = np.array([change(PICTURES[kind], corruption, severity, style) for severity in SEVERITIES])
    assert changes.min() > 0.5
    assert changes.max() < 128
    if corruption not in NOT_MONOTONE:
        assert (changes[1:] > 0.97 * changes[:-1]).all()
    if corruption != "elastic_transform":
        assert changes[4] > 1.1 * changes[0]


def test_severity_0_is_a_copy() -> None:
    images = PICTURES["28 grey"]
    copy = corrupt(images, "fog", 0)
    np.testing.assert_array_equal(copy, images)
    assert not np.shares_memory(copy, images)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_equal_seeds_give_equal_images(corruption: str) -> None:
    images = photographs(32, 4)
    before = images.copy()
    first = corrupt(images, corruption, 3, seed=7)
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(corrupt(images, corruption, 3, seed=7), first)
    fixed = {"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}
    assert np.array_equal(corrupt(images, corruption, 3, seed=8), first) == (corruption in fixed)


@pytest.mark.parametrize("style", CONSTANTS)
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_an_image_does_not_depend_on_those_after_it(
    corruption: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = photographs(32, 7)
    # Chunks of three images: the draws must go on from one chunk to the next as if there were none.
    monkeypatch.setattr(pixels, "_CHUNK_VALUES", 3 * 32 * 32 * 3)
    in_threes = corrupt(images, corruption, 4, constants=style, seed=1)
    monkeypatch.undo()
    np.testing.assert_array_equal(corrupt(images, corruption, 4, constants=style, seed=1), in_threes)
    for count in (1, 5):
        np.testing.assert_array_equal(
            corrupt(images[:count], corruption, 4, constants=style, seed=1), in_threes[:count]
        )


@pytest.mark.parametrize("corruption", ["gaussian_noise", "glass_blur", "snow", "frost", "fog", "elastic_transform"])
def test_images_of_a_batch_are_corrupted_each_in_its_way(corruption: str) -> None:
    same = np.repeat(photographs(32, 1), 3, axis=0)
    first, second, third = corrupt(same, corruption, 5)
    assert (first != second).any()
    assert (second != third).any()


@pytest.mark.parametrize("style", CONSTANTS)
@pytest.mark.parametrize("shape", [(8, 8, 1), (8, 8, 3), (9, 30, 3), (40, 21, 1), (256, 256, 3)], ids=str)
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_images_of_any_size(corruption: str, shape: tuple[int, ...], style: str) -> None:
    images = np.random.default_rng(0).integers(256, size=(1, *shape), dtype=np.uint8)
    corrupted = corrupt(images, corruption, 5, constants=style)
    assert corrupted.shape == images.shape
    assert corrupted.dtype == np.uint8
    assert (corrupted != images).any()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("severity", [0, 5])
def test_empty_batch(corruption: str, severity: int) -> None:
    corrupted = corrupt(np.zeros((0, 28, 28, 1), dtype=np.uint8), corruption, severity)
    assert corrupted.shape == (0, 28, 28, 1)
    assert corrupted.dtype == np.uint8


def test_images_need_not_be_contiguous() -> None:
    images = photographs(32, 3)
    turned = images.transpose(0, 2, 1, 3)[:, ::-1]
    np.testing.assert_array_equal(corrupt(turned, "fog", 3), corrupt(turned.copy(), "fog", 3))


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("level", [0, 255])
def test_flat_images_make_no_trouble(corruption: str, level: int) -> None:
    flat = np.full((2, 16, 16, 3), level, dtype=np.uint8)
    corrupted = corrupt(flat, corruption, 5)
    if "blur" in corruption or corruption in {"contrast", "elastic_transform", "pixelate", "jpeg_compression"}:
        np.testing.assert_allclose(corrupted, flat, atol=1)


IMAGES = np.zeros((2, 28, 28, 1), dtype=np.uint8)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"images": [[0]]}, TypeError, r"images must be a numpy array .* of uint8; got list"),
        ({"images": IMAGES[0]}, ValueError, r"images must have the shape \(N, H, W, C\); got \(28, 28, 1\): give"),
        ({"images": IMAGES / 255}, TypeError, r"images must be uint8, .*; got float64: rescale"),
        ({"images": IMAGES[:, :0]}, ValueError, r"images must have pixels; got the shape \(2, 0, 28, 1\)"),
        ({"images": IMAGES[:, :7]}, ValueError, r"images must have at least 8 x 8 pixels; got 7 x 28: pad"),
        ({"images": IMAGES.transpose(0, 3, 1, 2)}, ValueError, r"1 channel \(grey\) or 3 .*; got 28 in the shape"),
        ({"corruption": "rain"}, ValueError, r"corruption must be one of 'gaussian_noise', .*; got 'rain'"),
        ({"corruption": ["fog"]}, ValueError, r"corruption must be one of .*; got \['fog'\]"),
        ({"severity": 6}, ValueError, r"severity must be a whole number from 0 to 5; got 6"),
        ({"severity": -1}, ValueError, r"severity must be a whole number of at least 0; got -1"),
        ({"severity": 2.0}, ValueError, r"severity must be a whole number of at least 0; got 2.0"),
        ({"severity": True}, ValueError, r"severity must be a whole number of at least 0; got True"),
        ({"constants": "mnist"}, ValueError, r"constants must be one of 'cifar', 'imagenet'; got 'mnist'"),
        ({"seed": -1}, ValueError, r"seed must be a whole number of at least 0; got -1"),
        ({"seed": None}, ValueError, r"seed must be a whole number of at least 0; got None"),
    ],
)
def test_errors_name_the_argument_and_the_value(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"images": IMAGES, "corruption": "fog", "severity": 1, **changed}
    with pytest.raises(error, match=message):
        corrupt(**arguments)


def test_without_pillow_only_jpeg_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'needs Pillow.*pip install "socratic-circuits\[plots\]"'):
        corrupt(IMAGES, "jpeg_compression", 1)
    for corruption in CORRUPTIONS[:-1]:
        corrupt(IMAGES, corruption, 1)
