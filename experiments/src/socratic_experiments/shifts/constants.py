"""What each severity means: one table for each style, five entries for each corruption, mildest first.

The numbers are those of D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations", ICLR 2019 (arXiv 1903.12261), as in the scripts published with CIFAR-10-C and
ImageNet-C (github.com/hendrycks/robustness). Lengths are in pixels unless a comment says otherwise.
"""

from __future__ import annotations

from typing import Any

# ImageNet-C states its elastic lengths as fractions of 244 pixels, but its images have 224.
_ELASTIC = 244 / 224

_CIFAR: dict[str, tuple[Any, ...]] = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),  # standard deviation, for values from 0 to 1
    "shot_noise": (500, 250, 100, 75, 50),  # photons of a white pixel
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),  # share of the values that are replaced
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),  # radius, smoothing of the disk
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),  # sigma, reach, rounds
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),  # radius, sigma
    "zoom_blur": ((0.01, 7), (0.01, 12), (0.01, 16), (0.01, 21), (0.01, 26)),  # step, number of zoom factors from 1 on
    "snow": (  # mean, deviation, zoom and threshold of the flakes, radius and sigma of their motion, share of the image
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    # Weights of image and frost; the grain of the texture is not published: the photographs, shrunk to a fifth.
    "frost": ((1, 0.2, 0.4), (1, 0.3, 0.4), (0.9, 0.4, 0.4), (0.85, 0.4, 0.4), (0.75, 0.45, 0.4)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),  # thickness, decay of the detail
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),  # added to the value of hue, saturation, value
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),  # factor
    "elastic_transform": (  # height and smoothness of the waves, shift of the corners: fractions of the side
        (0, 0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    ),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),  # side that is left, as a fraction
    "jpeg_compression": (80, 65, 58, 50, 40),  # quality
}

_IMAGENET: dict[str, tuple[Any, ...]] = {
    "gaussian_noise": (0.08, 0.12, 0.18, 0.26, 0.38),
    "shot_noise": (60, 25, 12, 5, 3),
    "impulse_noise": (0.03, 0.06, 0.09, 0.17, 0.27),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((0.01, 12), (0.01, 16), (0.02, 11), (0.02, 13), (0.03, 11)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
    "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
    "elastic_transform": (
        (2 * _ELASTIC, 0.7 * _ELASTIC, 0.1 * _ELASTIC),
        (2 * _ELASTIC, 0.08 * _ELASTIC, 0.2 * _ELASTIC),
        (0.05 * _ELASTIC, 0.01 * _ELASTIC, 0.02 * _ELASTIC),
        (0.07 * _ELASTIC, 0.01 * _ELASTIC, 0.02 * _ELASTIC),
        (0.12 * _ELASTIC, 0.01 * _ELASTIC, 0.02 * _ELASTIC),
    ),
    "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),
    "jpeg_compression": (25, 18, 15, 10, 7),
}

CONSTANTS = {"cifar": _CIFAR, "imagenet": _IMAGENET}
