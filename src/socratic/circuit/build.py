"""Builders: circuits of the usual shapes in one call."""

from __future__ import annotations

from socratic.circuit.circuit import Circuit, LeafSpec
from socratic.circuit.layers import ProductKind
from socratic.structure.image_grid import spatial_binary_trees
from socratic.structure.random_tree import random_binary_trees


def rat_spn(
    n_features: int,
    n_classes: int,
    *,
    n_sums: int = 20,
    n_leaves: int = 20,
    depth: int = 5,
    n_repetitions: int = 5,
    leaf: LeafSpec = "gaussian",
    product: ProductKind = "all-pairs",
    seed: int = 0,
) -> Circuit:
    """A random and tensorised sum-product network (RAT-SPN).

    Parameters
    ----------
    n_features, n_classes : int
        Number of variables (V) and of class roots (C).
    n_sums, n_leaves : int
        Sums per inner region (S) and leaves per leaf region (I).
    depth : int
        Number of random splits from the root to a leaf region (D).
    n_repetitions : int
        Number of independent random trees (R).
    leaf, product
        See :class:`~socratic.circuit.circuit.Circuit`.
    seed : int
        Seed of the structure and of the initial parameters.
    """
    graph = random_binary_trees(n_features, depth, n_repetitions, seed)
    return Circuit(graph, n_classes=n_classes, n_sums=n_sums, n_leaves=n_leaves, leaf=leaf, product=product, seed=seed)


def spatial_spn(
    height: int,
    width: int,
    n_classes: int,
    *,
    n_channels: int = 1,
    patch_size: int = 1,
    depth: int | None = None,
    n_repetitions: int = 1,
    n_sums: int = 20,
    n_leaves: int = 20,
    leaf: LeafSpec = "gaussian",
    product: ProductKind = "all-pairs",
    seed: int = 0,
) -> Circuit:
    """A circuit for images whose tree halves the image along its longer side.

    Parameters
    ----------
    height, width, n_channels, patch_size, depth, n_repetitions : int
        See :func:`~socratic.spatial_binary_trees`.
    n_classes, n_sums, n_leaves, leaf, product, seed
        See :func:`rat_spn`.
    """
    graph = spatial_binary_trees(
        height, width, n_channels, patch_size=patch_size, depth=depth, n_repetitions=n_repetitions
    )
    return Circuit(graph, n_classes=n_classes, n_sums=n_sums, n_leaves=n_leaves, leaf=leaf, product=product, seed=seed)
