"""What an experiment does: its data, its models and how each of them is built and trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from typing import Any

from socratic.errors import check_choice, check_count, check_rate
from socratic_experiments.normalisation import NORMALISATIONS

STRUCTURES = ("spatial", "random")
NETWORKS = ("MLP", "LeNet-5")


@dataclass(frozen=True)
class CircuitRecipe:
    """How a circuit for images is built and trained.

    Attributes
    ----------
    structure : {"spatial", "random"}
        One binary tree that halves the image down to patches, or the random trees of RAT-SPNs.
    patch_size : int
        Side of the patches of a spatial tree, in pixels.
    depth, n_repetitions : int
        Splits and number of random trees.
    n_sums, n_leaves : int
        Sums and leaves per region.
    min_variance, max_variance : float
        Bounds of the leaves' variance, in units of the training set's.
    leaves_from_data : bool
        Whether leaves start at training images.
    wavelet_levels : int
        See :class:`~socratic.images.PixelEncoder`.
    max_shift, max_noise : int, float
        See :class:`~socratic.images.Augmentation`.
    n_epochs, batch_size, learning_rate, cross_entropy_weight, dropout, leaf_dropout
        See :class:`~socratic.learning.TrainingSettings`.
    inference_dropout : float or None
        The rate p of all dropout inference; None: the largest that does no harm on held-out images.
    """

    structure: str = "spatial"
    patch_size: int = 4
    depth: int = 5
    n_repetitions: int = 5
    n_sums: int = 32
    n_leaves: int = 32
    min_variance: float = 0.05
    max_variance: float = 2.0
    leaves_from_data: bool = True
    wavelet_levels: int = 0
    max_shift: int = 1
    max_noise: float = 0.0
    n_epochs: int = 50
    batch_size: int = 500
    learning_rate: float = 0.02
    cross_entropy_weight: float = 0.8
    dropout: float = 0.1
    leaf_dropout: float = 0.1
    inference_dropout: float | None = None

    def __post_init__(self) -> None:
        check_choice("structure", self.structure, STRUCTURES)
        for name in ("patch_size", "depth", "n_repetitions", "n_sums", "n_leaves"):
            check_count(name, getattr(self, name))
        check_count("wavelet_levels", self.wavelet_levels, minimum=0)
        if self.inference_dropout is not None:
            check_rate("inference_dropout", self.inference_dropout)
        _check_training(self)


@dataclass(frozen=True)
class NetworkRecipe:
    """How a network is trained: Adam with warm-up and cosine decay, on the same images as the circuits.

    Attributes
    ----------
    kind : {"MLP", "LeNet-5"}
    n_members : int
        Networks trained from different starts, whose answers are averaged.
    dropout : float
        In training, and in the passes of Monte Carlo dropout.
    max_shift, max_noise : int, float
        As for circuits.
    """

    kind: str
    n_members: int = 1
    dropout: float = 0.2
    n_epochs: int = 30
    batch_size: int = 500
    learning_rate: float = 0.002
    max_shift: int = 1
    max_noise: float = 0.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, NETWORKS)
        check_count("n_members", self.n_members)
        _check_training(self)


Recipe = CircuitRecipe | NetworkRecipe


def _check_training(recipe: Recipe) -> None:
    """What both kinds of recipes have."""
    check_count("n_epochs", recipe.n_epochs)
    check_count("batch_size", recipe.batch_size)
    check_count("max_shift", recipe.max_shift, minimum=0)
    check_rate("dropout", recipe.dropout)
    for name, value in (("learning_rate", recipe.learning_rate), ("max_noise", recipe.max_noise)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= value < math.inf:
            raise ValueError(f"{name} must be a number of at least 0; got {value!r}")


GREY = CircuitRecipe()
COLOUR = CircuitRecipe(
    patch_size=2, wavelet_levels=2, max_shift=2, n_epochs=45, cross_entropy_weight=0.5, leaf_dropout=0.0
)
SMALL = CircuitRecipe(patch_size=2, n_sums=10, n_leaves=10, n_epochs=40, batch_size=100, max_shift=0, leaf_dropout=0.0)
"""For images of at most 16 pixels, such as scikit-learn's digits."""

_PAPER = CircuitRecipe(
    structure="random",
    n_sums=20,
    n_leaves=20,
    min_variance=0.1,
    max_variance=1.0,
    leaves_from_data=False,
    max_shift=0,
    batch_size=200,
    learning_rate=0.01,
    cross_entropy_weight=1.0,
)
"""Structure, objective, dropout and batches of the TDI paper (section 4 and appendix C), at ten times its learning
rate and a quarter of its epochs, with decay: a rate of 0.001 would need its 200 epochs."""


def recipes_for(shape: tuple[int, int, int]) -> dict[str, Recipe]:
    """The models of an experiment on images of a shape (H, W, C), by name; the first is the main one."""
    height, width, channels = shape
    main = SMALL if max(height, width) <= 16 else GREY if channels == 1 else COLOUR
    # Wavelets need sides that can be halved as often.
    halved = next(levels for levels in (2, 1, 0) if height % 2**levels == 0 == width % 2**levels)
    main = replace(main, wavelet_levels=min(main.wavelet_levels, halved))
    paper_dropout = 0.2 if channels == 1 else 0.1
    paper = replace(_PAPER, dropout=paper_dropout, leaf_dropout=paper_dropout, inference_dropout=paper_dropout, depth=5)
    if max(height, width) <= 16:
        paper = replace(paper, n_sums=8, n_leaves=8, depth=3, n_epochs=main.n_epochs, batch_size=main.batch_size)
    network = NetworkRecipe("LeNet-5", max_shift=main.max_shift)
    return {
        "circuit": main,
        "circuit without dropout": replace(main, dropout=0.0, leaf_dropout=0.0),
        "circuit with noise": replace(main, max_noise=10.0, n_epochs=50),
        "paper's circuit": paper,
        "MLP": replace(network, kind="MLP"),
        "LeNet-5": network,
        "LeNet-5 ensemble": replace(network, n_members=5),
    }


MODELS = tuple(recipes_for((28, 28, 1)))
"""The names of all models, in the order of tables."""

ABLATIONS = ("circuit without dropout", "circuit with noise", "paper's circuit")
"""Models that are trained with the first seed only, unless they are asked for by name."""


@dataclass(frozen=True)
class ExperimentSettings:
    """What decides the figures of an experiment, besides the seeds.

    Attributes
    ----------
    train : str
        The training set, by a name or path that ``socratic_experiments.data.load_images`` takes.
    unknown : tuple of str
        Sets of unknown images.
    normalise : {"train", "own"}
        Whether all sets are normalised by the training set's statistics, or each by its own.
    n_images : int or None
        Test images of each set that are used, at most.
    n_train : int or None
        Training images that are used, at most.
    n_passes : int
        Passes of Monte Carlo dropout.
    constants : {"cifar", "imagenet"}
        Constants of the corruptions.
    overrides : dict
        Changes to the recipes, for each model by its name: ``{"circuit": {"n_epochs": 10}}``.
    """

    train: str
    unknown: tuple[str, ...] = ()
    normalise: str = "train"
    n_images: int | None = None
    n_train: int | None = None
    n_passes: int = 100
    constants: str = "cifar"
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("normalise", self.normalise, NORMALISATIONS)
        check_choice("constants", self.constants, ("cifar", "imagenet"))
        for name in ("n_images", "n_train", "n_passes"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if not isinstance(self.train, str) or not all(isinstance(name, str) for name in self.unknown):
            raise ValueError(f"train and unknown must be names of image sets; got {self.train!r} and {self.unknown!r}")
        if not isinstance(self.overrides, Mapping) or not all(isinstance(x, Mapping) for x in self.overrides.values()):
            raise ValueError(
                f"overrides must hold settings by model, such as circuit: n_epochs: 3; got {self.overrides!r}"
            )

    def recipes(self, shape: tuple[int, int, int]) -> dict[str, Recipe]:
        """The models by name, for training images of a shape (H, W, C)."""
        found = recipes_for(shape)
        for name, changes in self.overrides.items():
            check_choice("overrides", name, tuple(found))
            recipe = found[name]
            known = [each.name for each in fields(recipe)]
            for key in changes:
                check_choice(f"overrides[{name!r}]", key, tuple(known))
            found[name] = replace(recipe, **changes)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "unknown": list(self.unknown)}
