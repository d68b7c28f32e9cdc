"""Against an implementation of ImageNet-C by others: pixel by pixel, or by statistics where chance plays a part."""

from __future__ import annotations

from importlib.resources import files

import imagecorruptions
import numpy as np
import pytest
from experiments.tests.shifts.pictures import photographs
from imagecorruptions import corruptions as oracle
from PIL import Image

from socratic_experiments.shifts import blur, corrupt, digital, weather
from socratic_experiments.shifts.pixels import Draws, to_bytes, to_unit
from socratic_experiments.shifts.resample import smear

SEVERITIES = range(1, 6)
LARGE = photographs(204, 2)
SMALL = photographs(64, 24)


def published(images: np.ndarray, corruption: str, severity: int, **options: int) -> np.ndarray:
    np.random.seed(0)  # noqa: NPY002 (the oracle draws from the global generator)
    return np.stack([imagecorruptions.corrupt(image, severity, corruption, **options) for image in images])


def correlation(planes: np.ndarray, lag: int) -> float:
    """Correlation of pixels ``lag`` columns apart, within a plane (N, H, W)."""
    centred = planes - planes.mean(axis=(1, 2), keepdims=True)
    return float((centred[:, :, lag:] * centred[:, :, :-lag]).mean() / (centred**2).mean())


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("corruption", "tolerance", "mean_tolerance"),
    [
        ("defocus_blur", 1, 0.1),
        ("zoom_blur", 1, 0.1),
        ("brightness", 1, 0.1),
        ("contrast", 1, 0.01),
        ("pixelate", 0, 0),
        ("jpeg_compression", 0, 0),
    ],
)
def test_pixels_agree(corruption: str, tolerance: int, mean_tolerance: float, severity: int) -> None:
    # Both round down: a hair's breadth decides between two levels.
    found = corrupt(LARGE, corruption, severity, constants="imagenet").astype(int)
    difference = np.abs(found - published(LARGE, corruption, severity))
    assert difference.max() <= tolerance
    assert difference.mean() <= mean_tolerance


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(
    ("corruption", "tolerance"),
    [
        ("gaussian_noise", 0.03),
        ("shot_noise", 0.03),
        ("impulse_noise", 0.05),
        ("glass_blur", 0.05),
        ("motion_blur", 0.15),
        ("snow", 0.06),
        ("fog", 0.15),
    ],
)
def test_mean_and_spread_of_the_change_agree(corruption: str, tolerance: float, severity: int) -> None:
    options = {"seed": 0} if corruption in {"impulse_noise", "glass_blur"} else {}
    expected = published(SMALL, corruption, severity, **options).astype(float) - SMALL
    found = corrupt(SMALL, corruption, severity, constants="imagenet").astype(float) - SMALL
    assert found.std() == pytest.approx(expected.std(), rel=tolerance)
    assert found.mean() == pytest.approx(expected.mean(), abs=tolerance * expected.std())
    assert np.abs(found).mean() == pytest.approx(np.abs(expected).mean(), rel=tolerance)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_waves_agree(severity: int) -> None:
    # The oracle has constants of its own here, and no affine part; the waves follow the same recipe.
    height = 250 * (0.05, 0.065, 0.085, 0.1, 0.12)[severity - 1] * 0.005
    found = to_bytes(digital.elastic_transform(to_unit(SMALL), (height, 0.01, 0), Draws.seeded(0, 0)))
    expected = published(SMALL, "elastic_transform", severity)
    spread = (found.astype(float) - SMALL).std()
    assert spread == pytest.approx((expected.astype(float) - SMALL).std(), rel=0.03)


@pytest.mark.parametrize("degrees", [-135.0, -90.0, -60.3, -17.0, 0.0, 30.0, 44.9])
@pytest.mark.parametrize(("radius", "sigma"), [(6, 1.5), (10, 3), (20, 15)])
def test_motion_agrees_away_from_the_border(radius: int, sigma: float, degrees: float) -> None:
    x = to_unit(LARGE)
    found = smear(x, radius, sigma, np.full(len(x), degrees))
    reach = 2 * radius + 1
    inner = (slice(reach, -reach), slice(reach, -reach))
    for image, blurred in zip(x, found, strict=True):
        for channel, plane in zip(image, blurred, strict=True):
            expected = oracle._motion_blur(channel, radius, sigma, degrees)
            np.testing.assert_allclose(plane[inner], expected[inner], atol=1e-4)


@pytest.mark.parametrize(("radius", "smoothing"), [(0.3, 0.4), (1, 0.2), (1.5, 0.1), (3, 0.1), (8, 0.5), (10, 0.5)])
def test_disk_agrees(radius: float, smoothing: float) -> None:
    np.testing.assert_allclose(blur._disk(radius, smoothing), oracle.disk(radius, smoothing), atol=1e-6)


@pytest.mark.parametrize("decay", [1.4, 2.0, 3.0])
def test_clouds_agree(decay: float) -> None:
    np.random.seed(0)  # noqa: NPY002
    expected = np.stack([oracle.plasma_fractal(32, decay) for _ in range(500)])
    found = weather._plasma(500, 32, decay, np.random.default_rng(0))
    assert (found.min(axis=(1, 2)) == 0).all()
    assert (found.max(axis=(1, 2)) == 1).all()
    assert found.mean() == pytest.approx(expected.mean(), abs=0.03)
    assert found.std() == pytest.approx(expected.std(), rel=0.05)
    for lag in (1, 4, 8):
        assert correlation(found, lag) == pytest.approx(correlation(expected, lag), abs=0.04)


def test_glass_equals_a_plain_loop() -> None:
    x = to_unit(SMALL[:2, :12, :14])
    sigma, reach, n_rounds = 0.05, 2, 3  # so little blur that it is none
    moves = Draws.seeded(5, 0).fields.integers(-reach, reach, size=(2, n_rounds, 9 - 1, 11 - 1, 2))
    expected = x.copy()
    for i in range(2):
        for turn in range(n_rounds):
            for h in range(12 - reach, reach, -1):
                for w in range(14 - reach, reach, -1):
                    down, right = moves[i, turn, 12 - reach - h, 14 - reach - w]
                    expected[i, :, h, w] = expected[i, :, h + down, w + right]
    found = blur.glass_blur(x, (sigma, reach, n_rounds), Draws.seeded(5, 0))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("style", "side", "weight", "shrink"),
    [("cifar", 32, 0.45, 5), ("imagenet", 160, 0.75, 1)],
    ids=["cifar", "imagenet"],
)
def test_frost_resembles_the_photographs(style: str, side: int, weight: float, shrink: int) -> None:
    pieces = []
    for name in ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg"):
        with (files("imagecorruptions") / "frost" / name).open("rb") as file:
            picture = Image.open(file).convert("RGB")
        # The middle pixel of each block: the published images were shrunk without smoothing.
        pixels = np.asarray(picture)[shrink // 2 :: shrink, shrink // 2 :: shrink]
        rng = np.random.default_rng(0)
        for _ in range(8):
            i, j = (rng.integers(n - side + 1) for n in pixels.shape[:2])
            pieces.append(pixels[i : i + side, j : j + side])
    expected = np.stack(pieces).astype(float)
    black = np.zeros((200 if side == 32 else 40, side, side, 3), dtype=np.uint8)
    found = corrupt(black, "frost", 5, constants=style).astype(float) / weight
    np.testing.assert_allclose(found.mean(axis=(0, 1, 2)), expected.mean(axis=(0, 1, 2)), atol=12)
    grey_found, grey_expected = found.mean(axis=3), expected.mean(axis=3)
    assert grey_found.std(axis=(1, 2)).mean() == pytest.approx(grey_expected.std(axis=(1, 2)).mean(), rel=0.25)
    assert correlation(grey_found, 1) == pytest.approx(correlation(grey_expected, 1), abs=0.2)
