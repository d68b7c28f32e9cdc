"""The constructor arguments of the classifier of images, beside those that all estimators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from socratic.errors import check_rate
from socratic.estimators.parameters import (
    PARAMETERS,
    Check,
    Parameter,
    check_not_negative,
    check_positive,
    check_share,
    check_switch,
    one_of,
    or_auto,
    whole,
)

IMAGE_STRUCTURES = ("spatial", "random")


def _by_images(name: str, check: Check) -> Parameter:
    """An argument that all estimators share, and that may be "auto" here."""
    return replace(PARAMETERS[name], kind='float or "auto"', check=or_auto(check))


IMAGE_PARAMETERS: Mapping[str, Parameter] = {
    **PARAMETERS,
    "structure": Parameter(
        '{"spatial", "random"}',
        "One tree that halves the image down to patches, or the random trees of RAT-SPNs.",
        one_of(*IMAGE_STRUCTURES),
    ),
    "patch_size": Parameter('int or "auto"', "Side of the patches of a spatial tree, in pixels.", or_auto(whole(1))),
    "n_sums": Parameter('int or "auto"', "Sums, and leaves, of each region of the circuit.", or_auto(whole(1))),
    "min_variance": Parameter(
        "float", "Smallest variance of a leaf, in units of the training images' variance.", check_positive
    ),
    "max_variance": Parameter("float", "Largest variance of a leaf, in the same units.", check_positive),
    "leaves_from_data": Parameter("bool", "Whether leaves start at training images, or at random.", check_switch),
    "wavelet_levels": Parameter(
        'int or "auto"',
        "Levels of the wavelet that pixels are read by, with opponent colours: see "
        ':class:`~socratic.images.PixelEncoder`. "auto" is none for grey images; for coloured ones it is as many, '
        "up to two, as their sides can be halved by.",
        or_auto(whole(0)),
    ),
    "max_shift": Parameter(
        'int or "auto"', "Pixels by which training images are moved at random, each way, at most.", or_auto(whole(0))
    ),
    "max_noise": Parameter(
        "float",
        "Half of the training images get noise, of a deviation of up to so many grey levels.",
        check_not_negative,
    ),
    "leaf_variance": Parameter(
        "float",
        "Prior doubt about the densities of single pixels, as the circuit reads them: their relative variance "
        "(variance divided by the squared mean), beside that of dropout.",
        check_not_negative,
    ),
    "cross_entropy_weight": _by_images("cross_entropy_weight", check_share),
    "learning_rate": _by_images("learning_rate", check_positive),
    "leaf_dropout": _by_images("leaf_dropout", check_rate),
    "calibration_fraction": Parameter(
        'float or "auto"',
        'Share of images held out to calibrate rejection; "auto" is a fifth, and at most 4,000 images.',
        or_auto(check_rate),
    ),
}
