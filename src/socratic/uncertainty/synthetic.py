"""Rows that look natural and are not: made from known rows alone, to find out which scores notice.

The shifts of tables keep what every column looks like by itself and break how the columns go together. Noise and higher
contrast would not do: every density notices them, also one that knows nothing of real unknown data. Images can also be
smoother and emptier than any that was seen, which every density takes for usual, and be made of parts that are familiar
each.
"""

from __future__ import annotations

import math

import numpy as np

MAX_ROWS = 500
"""Rows made by each shift, at most: enough to tell scores apart, and they have to be scored."""
_SPLICED = (0.1, 0.5)
_CONTRAST = (0.1, 0.6)
_BLUR = (1.0, 2.5)  # pixels


def synthetic_shifts(x: np.ndarray, continuous: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Three shifts of some rows.

    - *splices*: a tenth to a half of the columns come from another row;
    - *shuffles*: every column comes from another row;
    - *mixtures* of two rows, rescaled so that means and covariances stay what they were; discrete columns come from
      either row.

    Parameters
    ----------
    x : np.ndarray (N, V)
        Encoded rows; NaN is missing, and moves like a value.
    continuous : np.ndarray (V,) of bool
        Which columns can be averaged; the others hold codes.
    rng : np.random.Generator

    Returns
    -------
    list of np.ndarray (N', V)
        In the type of ``x``, with N' = min(N, MAX_ROWS).
    """
    columns = np.asarray(continuous)
    if x.ndim != 2:
        raise ValueError(f"x must have the shape (N, V); got {x.shape}")
    if columns.shape != (x.shape[1],) or columns.dtype != np.bool_:
        raise ValueError(
            f"continuous must hold a boolean for each of {x.shape[1]} columns; got {columns.dtype} of shape "
            f"{columns.shape}"
        )
    rows = x[rng.permutation(len(x))[:MAX_ROWS]]
    return [_splices(rows, rng), _shuffles(rows, rng), _mixtures(rows, columns, rng)]


def image_shifts(images: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Seven shifts of images: those of :func:`synthetic_shifts`, pixel by pixel, and four more.

    - *blank*: the whole image has the colour of one of its pixels;
    - *flattened*: a tenth to six tenths of the contrast;
    - *blurred*, by a Gaussian of 1 to 2.5 pixels;
    - *halves* of two images, above each other or side by side.

    Parameters
    ----------
    images : np.ndarray (N, H, W, C) of uint8
    rng : np.random.Generator

    Returns
    -------
    list of np.ndarray (N', H, W, C) of uint8
        With N' = min(N, MAX_ROWS).
    """
    flat = images.reshape(len(images), math.prod(images.shape[1:])).astype(np.float32)
    shifts = synthetic_shifts(flat, np.ones(flat.shape[1], dtype=bool), rng)
    made = [shift.reshape(-1, *images.shape[1:]) for shift in shifts]
    for change in (_blank, _flattened, _blurred, _halves):
        made.append(change(images[rng.permutation(len(images))[:MAX_ROWS]].astype(np.float32), rng))
    return [shift.clip(0.0, 255.0).round().astype(np.uint8) for shift in made]


def _blank(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count, height, width, _ = images.shape
    colour = images[np.arange(count), rng.integers(height, size=count), rng.integers(width, size=count)]
    return np.broadcast_to(colour[:, None, None], images.shape)


def _flattened(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    mean = images.mean((1, 2), keepdims=True)
    return mean + rng.uniform(*_CONTRAST, size=(len(images), 1, 1, 1)) * (images - mean)


def _blurred(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    widths = rng.uniform(*_BLUR, size=len(images))
    parts = [gaussian_filter(image, (width, width, 0.0)) for image, width in zip(images, widths, strict=True)]
    return np.stack(parts) if parts else images


def _halves(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width = images.shape[1:3]
    rows, columns = np.indices((height, width))
    upper, left = rows < height // 2, columns < width // 2
    kept = np.where(rng.random((len(images), 1, 1)) < 0.5, upper, left)
    return np.where(kept[..., None], images, _others(images, rng))


def _others(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each row another one."""
    order = rng.permutation(len(rows))
    partner = np.empty_like(order)
    partner[order] = np.roll(order, 1)
    return rows[partner]


def _splices(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    share = rng.uniform(*_SPLICED, size=(len(rows), 1))
    return np.where(rng.random(rows.shape) < share, _others(rows, rng), rows)


def _shuffles(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.take_along_axis(rows, np.argsort(rng.random(rows.shape), axis=0), axis=0)


def _mixtures(rows: np.ndarray, continuous: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    others = _others(rows, rng)
    seen = ~np.isnan(rows)
    mean = np.where(seen, rows, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    # An average of two rows has half their variance: unscaled, it would stand out by that alone.
    mixed = (mean + np.sqrt(0.5) * ((rows - mean) + (others - mean))).astype(rows.dtype)
    either = np.where(rng.random(rows.shape) < 0.5, others, rows)
    # What cannot be averaged is taken from either row: codes, and values of which one is missing.
    return np.where(continuous & ~np.isnan(mixed), mixed, either)
