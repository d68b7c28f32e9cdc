"""Probabilistic circuits that know what they don't know.

Names are imported on first use: ``import socratic`` alone loads neither torch nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from socratic import families as families
    from socratic import images as images
    from socratic import interop as interop
    from socratic.circuit import Circuit as Circuit
    from socratic.circuit import Graph as Graph
    from socratic.circuit import Leaf as Leaf
    from socratic.circuit import Product as Product
    from socratic.circuit import Sum as Sum
    from socratic.circuit import join_circuits as join_circuits
    from socratic.circuit import rat_spn as rat_spn
    from socratic.circuit import spatial_spn as spatial_spn
    from socratic.drawing import Picture as Picture
    from socratic.drawing import Summary as Summary
    from socratic.drawing import draw as draw
    from socratic.drawing import summary as summary
    from socratic.errors import DataFileError as DataFileError
    from socratic.errors import ModelFileError as ModelFileError
    from socratic.estimators import CircuitClassifier as CircuitClassifier
    from socratic.estimators import CircuitDensity as CircuitDensity
    from socratic.estimators import CircuitGuard as CircuitGuard
    from socratic.estimators import CircuitImageClassifier as CircuitImageClassifier
    from socratic.estimators import CircuitImageDensity as CircuitImageDensity
    from socratic.estimators import CircuitOutlierDetector as CircuitOutlierDetector
    from socratic.estimators import ColumnDrift as ColumnDrift
    from socratic.estimators import DensityUncertainty as DensityUncertainty
    from socratic.estimators import DriftMonitor as DriftMonitor
    from socratic.estimators import DriftReport as DriftReport
    from socratic.estimators import ImageReasons as ImageReasons
    from socratic.estimators import Reason as Reason
    from socratic.estimators import Reasons as Reasons
    from socratic.estimators import Uncertainty as Uncertainty
    from socratic.inference import Dropout as Dropout
    from socratic.inference import Expectation as Expectation
    from socratic.inference import Explanation as Explanation
    from socratic.inference import LikelihoodBounds as LikelihoodBounds
    from socratic.inference import Moments as Moments
    from socratic.inference import NodeMoments as NodeMoments
    from socratic.inference import Posterior as Posterior
    from socratic.inference import PosteriorBounds as PosteriorBounds
    from socratic.inference import RegionValues as RegionValues
    from socratic.inference import Samples as Samples
    from socratic.inference import WeightIntervals as WeightIntervals
    from socratic.inference import WeightPosterior as WeightPosterior
    from socratic.inference import class_posterior as class_posterior
    from socratic.inference import column_surprise as column_surprise
    from socratic.inference import conditional_log_likelihood as conditional_log_likelihood
    from socratic.inference import conditional_sample as conditional_sample
    from socratic.inference import dropout_posterior as dropout_posterior
    from socratic.inference import expectation as expectation
    from socratic.inference import likelihood_bounds as likelihood_bounds
    from socratic.inference import log_likelihood as log_likelihood
    from socratic.inference import marginal_log_likelihood as marginal_log_likelihood
    from socratic.inference import moments as moments
    from socratic.inference import monte_carlo_dropout as monte_carlo_dropout
    from socratic.inference import mpe as mpe
    from socratic.inference import node_moments as node_moments
    from socratic.inference import passes as passes
    from socratic.inference import region_log_likelihood as region_log_likelihood
    from socratic.inference import region_surprise as region_surprise
    from socratic.inference import robustness as robustness
    from socratic.inference import sample as sample
    from socratic.inference import sample_log_likelihoods as sample_log_likelihoods
    from socratic.inference import tdi as tdi
    from socratic.inference import temper as temper
    from socratic.inference import training_log_likelihood as training_log_likelihood
    from socratic.inference import weight_posterior as weight_posterior
    from socratic.learning.structure import chow_liu_tree as chow_liu_tree
    from socratic.learning.structure import hidden_chow_liu as hidden_chow_liu
    from socratic.learning.structure import learn_class_spns as learn_class_spns
    from socratic.learning.structure import learn_spn as learn_spn
    from socratic.loading import load as load
    from socratic.shortcuts import acceleration as acceleration
    from socratic.structure import Partition as Partition
    from socratic.structure import Region as Region
    from socratic.structure import RegionGraph as RegionGraph
    from socratic.structure import random_binary_trees as random_binary_trees
    from socratic.structure import spatial_binary_trees as spatial_binary_trees

_HOMES = {
    "socratic.circuit": ("Circuit", "Graph", "Leaf", "Product", "Sum", "join_circuits", "rat_spn", "spatial_spn"),
    "socratic.inference": (
        "Dropout",
        "Expectation",
        "Explanation",
        "LikelihoodBounds",
        "Moments",
        "NodeMoments",
        "Posterior",
        "PosteriorBounds",
        "RegionValues",
        "Samples",
        "WeightIntervals",
        "WeightPosterior",
        "class_posterior",
        "column_surprise",
        "conditional_log_likelihood",
        "conditional_sample",
        "dropout_posterior",
        "expectation",
        "likelihood_bounds",
        "log_likelihood",
        "marginal_log_likelihood",
        "moments",
        "monte_carlo_dropout",
        "mpe",
        "node_moments",
        "passes",
        "region_log_likelihood",
        "region_surprise",
        "robustness",
        "sample",
        "sample_log_likelihoods",
        "tdi",
        "temper",
        "training_log_likelihood",
        "weight_posterior",
    ),
    "socratic.shortcuts": ("acceleration",),
    "socratic.drawing": ("Picture", "Summary", "draw", "summary"),
    "socratic.errors": ("CalibrationWarning", "DataFileError", "ModelFileError"),
    "socratic.estimators": (
        "Answer",
        "CircuitClassifier",
        "CircuitDensity",
        "CircuitGuard",
        "CircuitImageClassifier",
        "CircuitImageDensity",
        "CircuitOutlierDetector",
        "ColumnDrift",
        "DensityUncertainty",
        "DriftMonitor",
        "DriftReport",
        "ImageReasons",
        "Reason",
        "Reasons",
        "Uncertainty",
    ),
    "socratic.loading": ("load",),
    "socratic.learning.structure": ("chow_liu_tree", "hidden_chow_liu", "learn_class_spns", "learn_spn"),
    "socratic.structure": ("Partition", "Region", "RegionGraph", "random_binary_trees", "spatial_binary_trees"),
}
_MODULES = ("families", "images", "interop")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: PLE0604
    "__version__",
    *sorted([*_HOME_OF, *_MODULES]),
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"socratic.{name}")
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    else:
        raise AttributeError(f"module 'socratic' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
