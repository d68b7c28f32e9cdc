"""The layered circuit: leaves, sum-product layers and class roots over a region graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from socratic.circuit.base import CircuitModule
from socratic.circuit.layers import PRODUCT_KINDS, ProductKind, SumProductLayer, normalise, normalise_jointly
from socratic.circuit.layout import LayerPlan, plan_layout
from socratic.circuit.leaves import LeafLayer
from socratic.errors import check_choice, check_count
from socratic.families import Family, as_family, family_from_dict
from socratic.structure.region_graph import RegionGraph
from socratic.tracing import holds

if TYPE_CHECKING:
    from socratic.circuit.graph import Graph

LeafSpec = str | Family | Sequence[str | Family]


class Weights(NamedTuple):
    """Normalised weights: of each inner layer (F, S, K), bottom up, and of each root branch (F, C, K)."""

    layers: list[Tensor]
    roots: list[Tensor]
    ordinary: bool = True
    """Whether all weights are far above the smallest number of their type; presumed where that cannot be looked at."""


class Circuit(CircuitModule):
    """A smooth and decomposable circuit with one root per class.

    Queries (likelihood, moments, Monte Carlo dropout, ...) are functions over this small interface:
    ``leaves``, ``layers``, ``roots`` and :meth:`weights`.

    Parameters
    ----------
    region_graph : RegionGraph
        The structure.
    n_classes : int
        Number of class roots (C).
    n_sums : int or sequence of int
        Sums per inner region (S), for all layers or for each of ``layers``, bottom up.
    n_leaves : int
        Leaves per leaf region (I).
    leaf : str, Family, or a sequence of them
        The leaf family, or one for each variable: a name such as ``"gaussian"``, or an instance from
        ``socratic.families`` with its settings.
    product : {"all-pairs", "element-wise"}
        All products of a left with a right node, or only those of equal index.
    seed : int
        Seed of the initial parameters.
    """

    def __init__(
        self,
        region_graph: RegionGraph,
        *,
        n_classes: int,
        n_sums: int | Sequence[int],
        n_leaves: int,
        leaf: LeafSpec = "gaussian",
        product: ProductKind = "all-pairs",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.n_features = region_graph.n_features
        self.n_classes = check_count("n_classes", n_classes)
        check_choice("product", product, PRODUCT_KINDS)
        self.region_graph, self.product = region_graph, product
        layout = plan_layout(region_graph)
        sums_of_layer = _sums_of_layers(n_sums, len(layout.layers))
        self.n_sums = tuple(sums_of_layer) if isinstance(n_sums, Sequence) else check_count("n_sums", n_sums)
        scopes = [region_graph.regions[region].scope for region in layout.leaf_regions]
        self.leaves = LeafLayer(_families_of(leaf, self.n_features), scopes, check_count("n_leaves", n_leaves))
        self.column_families = tuple((family,) for family in self.leaves.families)
        widths = [self.leaves.n_nodes, *sums_of_layer]

        def layer(plan: LayerPlan, n_nodes: int) -> SumProductLayer:
            right = None if plan.right is None else widths[plan.right.layer]
            return SumProductLayer(plan.left, plan.right, (widths[plan.left.layer], right), n_nodes, product)

        self.layers = nn.ModuleList(layer(*pair) for pair in zip(layout.layers, sums_of_layer, strict=True))
        self.roots = nn.ModuleList(layer(plan, self.n_classes) for plan in layout.roots)
        seed = check_count("seed", seed, minimum=0)
        if not self.root_branches()[0].logits.is_meta:
            self.reset_parameters(seed)

    def inner_layers(self) -> list[SumProductLayer]:
        """The inner layers, bottom up; layer number i of a span is ``inner_layers()[i - 1]``."""
        return [layer for layer in self.layers if isinstance(layer, SumProductLayer)]

    def root_branches(self) -> list[SumProductLayer]:
        """The branches of the class roots: one layer for each shape of repetition."""
        return [layer for layer in self.roots if isinstance(layer, SumProductLayer)]

    @property
    def any_parameter(self) -> Tensor:
        """One of the parameters; ``parameters()`` takes a noticeable part of a small query's time to find the first."""
        return self.root_branches()[0].logits

    def weights(self, dtype: torch.dtype | None = None) -> Weights:
        """The normalised weights of all sums, in the circuit's type or in ``dtype``.

        A positive weight that the type does not hold, in float32 one below 1e-38, becomes 0, and a RuntimeWarning says
        where. Likelihoods are computed in float64 then; all other queries take it as 0.
        """
        layers, branches = self.inner_layers(), self.root_branches()
        inner = [normalise(layer.logits, dtype) for layer in layers]
        roots, smallest = normalise_jointly(branches, dtype)
        weights = Weights([part.weights for part in inner], roots)
        limits = torch.finfo(weights.roots[0].dtype)

        def ordinary() -> Tensor:  # one question to a GPU, not one a layer
            of_sums = torch.cat([smallest, *(part.smallest.flatten() for part in inner)])
            return of_sums.amin() >= limits.tiny / limits.eps

        if holds(weights.roots[0], ordinary):
            return weights
        _warn_of_lost_weights("layers", layers, weights.layers)
        _warn_of_lost_weights("roots", branches, weights.roots)
        return weights._replace(ordinary=False)

    @torch.no_grad()
    def reset_parameters(self, seed: int = 0) -> None:
        """Draw all parameters anew from ``seed``."""
        generator = torch.Generator(self.device).manual_seed(check_count("seed", seed, minimum=0))
        self.leaves.reset_parameters(generator)
        for layer in [*self.inner_layers(), *self.root_branches()]:
            layer.logits.normal_(generator=generator)

    def to_graph(self) -> Graph:
        """The same model as a graph of ``Leaf``, ``Product`` and ``Sum`` nodes that share what the circuit shares."""
        from socratic.circuit.graph import Graph
        from socratic.circuit.unroll import unroll

        return Graph(unroll(self), self.n_features, dtype=self.dtype).to(self.device)

    def to_config(self) -> dict[str, Any]:
        """Everything but the parameters, as plain data for a model file."""
        families = list(dict.fromkeys(self.leaves.families))
        return {
            "n_classes": self.n_classes,
            "n_sums": self.n_sums if isinstance(self.n_sums, int) else list(self.n_sums),
            "n_leaves": self.leaves.n_nodes,
            "product": self.product,
            "families": [family.to_dict() for family in families],
            "family_of": [families.index(family) for family in self.leaves.families],
            "region_graph": self.region_graph.to_dict(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Circuit:
        """Rebuild the circuit of :meth:`to_config`, with fresh parameters."""
        families = dict(enumerate(family_from_dict(data) for data in config["families"]))
        return cls(
            RegionGraph.from_dict(config["region_graph"]),
            n_classes=config["n_classes"],
            n_sums=config["n_sums"],
            n_leaves=config["n_leaves"],
            leaf=[families[index] for index in config["family_of"]],
            product=config["product"],
        )


def _warn_of_lost_weights(name: str, layers: list[SumProductLayer], weights: list[Tensor]) -> None:
    for number, (layer, values) in enumerate(zip(layers, weights, strict=True)):
        smallest = torch.finfo(values.dtype).tiny
        lost = (values < smallest) & (layer.logits > -torch.inf)  # a logit of minus infinity is meant to be no edge
        if lost.any():
            remedy = (
                "" if values.dtype == torch.float64 else " in all queries but likelihoods; circuit.double() keeps them"
            )
            warnings.warn(
                f"{int(lost.sum())} weights in {name}[{number}] are below {smallest:.1e}, the smallest that "
                f"{values.dtype} holds, and count as 0{remedy}",
                RuntimeWarning,
                stacklevel=3,
            )


def _sums_of_layers(n_sums: int | Sequence[int], n_layers: int) -> list[int]:
    if not isinstance(n_sums, Sequence):
        return [check_count("n_sums", n_sums)] * n_layers
    if len(n_sums) != n_layers:
        raise ValueError(f"n_sums must be one number or one for each of {n_layers} inner layers; got {len(n_sums)}")
    return [check_count("n_sums", number) for number in n_sums]


def _families_of(leaf: LeafSpec, n_features: int) -> list[Family]:
    if isinstance(leaf, str) or not isinstance(leaf, Sequence):
        return [as_family(leaf)] * n_features
    families = [as_family(value) for value in leaf]
    if len(families) != n_features:
        raise ValueError(f"leaf must name one family or one for each of {n_features} features; got {len(families)}")
    return families
