"""Corruptions of processing and storage. Images are float32 (N, C, H, W) from 0 to 1."""

from __future__ import annotations

import io

import numpy as np

from socratic.errors import import_extra
from socratic_experiments.shifts.pixels import Draws
from socratic_experiments.shifts.resample import apply_pairs, box_matrix, gaussian_blur, sample


def contrast(x: np.ndarray, factor: float, draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Pull the values of each channel towards their mean."""
    mean = x.mean(axis=(2, 3), keepdims=True)
    return (x - mean) * np.float32(factor) + mean


def elastic_transform(x: np.ndarray, constants: tuple[float, float, float], draws: Draws) -> np.ndarray:
    """Map each image by a random affine transform, then shift its pixels by smooth random waves.

    All lengths are fractions of the shorter side, so that images of every size are bent alike.
    """
    height, width = x.shape[2:]
    side = min(height, width)
    wave, smoothness, shift = (side * fraction for fraction in constants)
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    x = sample(x, *_affine_look_up(len(x), rows, columns, shift, draws), border="mirror")
    waves = draws.fields.random((len(x), 2, height, width), dtype=np.float32) * 2 - 1
    waves = wave * gaussian_blur(waves, smoothness, mode="reflect", truncate=3.0)
    return sample(x, rows + waves[:, 0], columns + waves[:, 1], border="reflect")


def _affine_look_up(
    n_images: int, rows: np.ndarray, columns: np.ndarray, shift: float, draws: Draws
) -> tuple[np.ndarray, np.ndarray]:
    """Where each pixel comes from, as rows and columns (N, H, W), if three corners move by up to ``shift`` pixels.

    The corners are those of a square around the middle with two thirds of the image's side.
    """
    height, width = rows.shape
    corners = np.array([[1, 1], [1, -1], [-1, -1]]) * (min(height, width) // 3) + [width // 2, height // 2]
    moved = corners + draws.images.uniform(-shift, shift, size=(n_images, 3, 2))
    ones = np.ones((n_images, 3, 1))
    # Backwards: the affine transform that takes the moved corners to where they were.
    back = np.linalg.solve(np.concatenate([moved, ones], axis=2), np.broadcast_to(corners, moved.shape).astype(float))
    places = np.stack([columns, rows, np.ones_like(rows)], axis=-1)  # (H, W, 3)
    origin = np.einsum("hwi,nij->jnhw", places, back)
    return origin[1], origin[0]


def pixelate(x: np.ndarray, share: float, draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Shrink to a share of each side by averaging, and enlarge by repeating pixels."""
    levels = np.rint(x * 255)
    sizes = [(size, max(1, int(size * share))) for size in x.shape[2:]]
    for old, new in ((0, 1), (1, 0)):
        down, across = (box_matrix(pair[old], pair[new]) for pair in sizes)
        # Columns first, whole levels after each: so does Pillow, which made the published images.
        levels = _rounded(apply_pairs(levels, [(np.eye(levels.shape[2]), across)]))
        levels = _rounded(apply_pairs(levels, [(down, np.eye(levels.shape[3]))]))
    return levels / np.float32(255)


def _rounded(levels: np.ndarray) -> np.ndarray:
    """Whole levels, halves up; the small term keeps halves from falling by the rounding of float32."""
    return np.floor(levels + np.float32(0.5 + 1e-4))


def jpeg_compression(x: np.ndarray, quality: int, draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Store as JPEG and read again, by Pillow; grey images as grey JPEG."""
    image_module = import_extra("PIL.Image", "plots", 'the corruption "jpeg_compression"')
    pixels = np.ascontiguousarray(np.rint(x * 255).astype(np.uint8).transpose(0, 2, 3, 1))
    result = np.empty_like(pixels)
    for i, image in enumerate(pixels):
        file = io.BytesIO()
        image_module.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "JPEG", quality=quality)
        with image_module.open(file) as stored:
            result[i] = np.asarray(stored).reshape(image.shape)
    return result.transpose(0, 3, 1, 2) / np.float32(255)
