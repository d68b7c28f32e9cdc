"""Sets made from other sets, named ``SET:CHANGE``, and images with nothing in them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from socratic.images import Images
from socratic_experiments.shifts.resample import gaussian_blur
from socratic_experiments.shifts.rotation import rotate

EMPTY = ("blank", "colours")
"""Sets that need no files."""
_N_COLOURS = 1000
_BLUR = 1.5  # pixels
_BLOCK = 1024  # images blurred at once
_PARITY = {"even": 0, "odd": 1}
_CLASSES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def derive(images: Images, change: str) -> Images:
    """A set under a change.

    Parameters
    ----------
    images : Images
    change : str
        ``"blurred"``, by a Gaussian of 1.5 pixels; ``"turned"``, by 90 degrees; or the numbers of classes to keep, such
        as ``"0-4"``, ``"1,3,5-7"``, ``"odd"`` or ``"even"``: these become classes 0, 1, ... of the new set.

    Returns
    -------
    Images
        Under the name ``SET:CHANGE``.
    """
    name = f"{images.name}:{change}"
    if change == "blurred":
        return replace(images, images=_blurred(images.images), name=name)
    if change == "turned":
        return replace(images, images=rotate(images.images, 90), name=name)
    kept = _classes(images, change)
    names = tuple(images.classes[number] if images.classes else str(number) for number in kept)
    some = images.take(np.isin(images.labels, kept).nonzero()[0])
    return replace(some, labels=np.searchsorted(kept, some.labels), name=name, classes=names)


def empty_images(kind: str, size: tuple[int, int] | None) -> Images:
    """One black image, ``"blank"``, or images of 1,000 colours, in a height and width (32 x 32 without any)."""
    height, width = size or (32, 32)
    colours = np.zeros((1, 3)) if kind == "blank" else np.random.default_rng(0).integers(0, 256, (_N_COLOURS, 3))
    pixels = np.broadcast_to(colours.astype(np.uint8)[:, None, None, :], (len(colours), height, width, 3))
    return Images(pixels.copy(), np.zeros(len(colours), dtype=np.int64), kind)


def _blurred(images: np.ndarray) -> np.ndarray:
    output = np.empty_like(images)
    for start in range(0, len(images), _BLOCK):
        block = images[start : start + _BLOCK].transpose(0, 3, 1, 2).astype(np.float32)
        output[start : start + _BLOCK] = np.rint(gaussian_blur(block, _BLUR)).clip(0, 255).transpose(0, 2, 3, 1)
    return output


def _classes(images: Images, change: str) -> np.ndarray:
    """The numbers of the classes that a change names, ascending."""
    present = np.unique(images.labels)
    if change in _PARITY:
        kept = present[present % 2 == _PARITY[change]]
    elif _CLASSES.fullmatch(change):
        ranges = [part.partition("-") for part in change.split(",")]
        kept = np.unique(np.concatenate([np.arange(int(low), int(high or low) + 1) for low, _, high in ranges]))
    else:
        raise ValueError(
            f"a set can be changed by ':blurred', ':turned', ':odd', ':even' or numbers of classes such as ':0-4'; got "
            f"{images.name}:{change}"
        )
    missing = np.setdiff1d(kept, present)
    if len(missing) or not len(kept):
        what = f"class {missing[0]}" if len(missing) else "such class"
        raise ValueError(f"{images.name}:{change}: the set has no {what}; it has {', '.join(map(str, present))}")
    return kept
