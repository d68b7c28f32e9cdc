"""What an experiment does: its data, its models and how each of them is built and trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from typing import Any

from socratic import CircuitImageClassifier
from socratic.errors import check_choice, check_count, check_rate
from socratic_experiments.normalisation import NORMALISATIONS

NETWORKS = ("MLP", "LeNet-5")
_OURS = ("random_state", "device", "checkpoint", "verbose", "n_jobs", "rejected_label", "rejection_rate")
CIRCUIT_SETTINGS = tuple(name for name in CircuitImageClassifier().get_params() if name not in _OURS)
"""Settings of a classifier that say how its circuit is built, trained and asked."""


@dataclass(frozen=True)
class CircuitRecipe:
    """How a circuit is built and trained: settings of :class:`~socratic.CircuitImageClassifier`, by name."""

    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.settings:
            check_choice("a setting of a circuit", name, CIRCUIT_SETTINGS)

    def changed(self, changes: Mapping[str, Any]) -> CircuitRecipe:
        """The recipe with other values for some settings."""
        return CircuitRecipe({**self.settings, **changes})


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
        for name in ("n_members", "n_epochs", "batch_size"):
            check_count(name, getattr(self, name))
        check_count("max_shift", self.max_shift, minimum=0)
        check_rate("dropout", self.dropout)
        for name in ("learning_rate", "max_noise"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
                raise ValueError(f"{name} must be a number of at least 0; got {value!r}")

    def changed(self, changes: Mapping[str, Any]) -> NetworkRecipe:
        """The recipe with other values for some settings."""
        for name in changes:
            check_choice("a setting of a network", name, tuple(each.name for each in fields(self)))
        return replace(self, **changes)


Recipe = CircuitRecipe | NetworkRecipe


_PAPER: dict[str, Any] = {
    "structure": "random",
    "depth": 5,
    "n_repetitions": 5,
    "n_sums": 20,
    "n_epochs": 200,
    "batch_size": 200,
    "learning_rate": 0.001,
    "learning_rate_schedule": "constant",
    "cross_entropy_weight": 1.0,
    "training_dropout": 0.0,
    "leaf_dropout": 0.0,
    # The text leaves these open; the authors' code has them so.
    "min_variance": 0.1,
    "max_variance": 1.0,
    "leaves_from_data": False,
    "class_prior": "uniform",
    "wavelet_levels": 0,
    "max_shift": 0,
}
"""The circuit of the TDI paper as printed: structure and training of section 4 and appendix C."""
_SMALL = 16
"""Pixels of the longer side up to which the paper's circuit, made for 28 and more, gets smaller."""


def recipes_for(shape: tuple[int, int, int]) -> dict[str, Recipe]:
    """The models of an experiment on images of a shape (H, W, C), by name; the first is the main one."""
    height, width, channels = shape
    small = max(height, width) <= _SMALL
    paper_dropout = 0.2 if channels == 1 else 0.1
    trained_with = dict.fromkeys(("training_dropout", "leaf_dropout"), paper_dropout)
    sizes = {"depth": 3, "n_sums": 8, "batch_size": 100} if small else {}
    paper = CircuitRecipe({**_PAPER, "dropout": paper_dropout, **sizes})
    network = NetworkRecipe("LeNet-5", max_shift=0 if small else 2 if channels == 3 else 1)
    return {
        "circuit": CircuitRecipe(),
        "three circuits": CircuitRecipe({"n_circuits": 3}),
        "circuit without dropout": CircuitRecipe({"training_dropout": 0.0, "leaf_dropout": 0.0}),
        "circuit with noise": CircuitRecipe({"max_noise": 10.0}),
        "paper's circuit": paper,
        "paper's circuit with dropout": paper.changed(trained_with),
        "MLP": replace(network, kind="MLP"),
        "LeNet-5": network,
        "LeNet-5 ensemble": replace(network, n_members=5),
    }


MODELS = tuple(recipes_for((28, 28, 1)))
"""The names of all models, in the order of tables."""

ABLATIONS = ("three circuits", "circuit without dropout", "circuit with noise", "paper's circuit with dropout")
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
            found[name] = found[name].changed(changes)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "unknown": list(self.unknown)}
