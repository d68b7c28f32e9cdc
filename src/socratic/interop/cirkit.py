"""Reading cirkit: compiled circuits, folded and optimised or not, as blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions.utils import probs_to_logits

from socratic.interop.blocks import (
    Block,
    Products,
    Sums,
    binomial_leaves,
    categorical_leaves,
    gaussian_leaves,
    joined,
)

_TOLERANCE = 1e-4


@torch.no_grad()
def read_cirkit(circuit: Any) -> Block:
    """The output layer of a compiled circuit, and all below it, as blocks.

    Raises
    ------
    TypeError
        If ``circuit`` is not a compiled circuit.
    ValueError
        If a layer or its parametrisation has no counterpart; the message names the layer.
    """
    from cirkit.backend.torch.circuits import TorchCircuit

    if not isinstance(circuit, TorchCircuit):
        raise TypeError(
            f"circuit must be a compiled cirkit circuit; got {type(circuit).__name__} "
            "(compile a symbolic one by cirkit.pipeline.compile)"
        )
    if not (circuit.properties.smooth and circuit.properties.decomposable):
        raise ValueError("the circuit must be smooth and decomposable: only then is it a distribution")
    layers: list[list[Block]] = []  # the blocks of each layer, one for each fold
    for place, entry in enumerate(circuit.address_book):
        sources = [block for number in _numbers(entry) for block in layers[number]]
        if entry.module is None:
            return _output(sources, entry)
        inputs: list[list[Block]] = []
        if entry.in_module_ids:
            inputs = [[sources[i] for i in row] for row in _gather(sources, entry).tolist()]
        layers.append(_Layer(entry.module, f"{type(entry.module).__name__} (layer {place})").blocks(inputs))
    raise AssertionError("an address book ends with the output")


def _numbers(entry: Any) -> list[int]:
    return entry.in_module_ids[0] if entry.in_module_ids else []


def _gather(sources: list[Block], entry: Any) -> Tensor:
    """Which of the sources each fold reads, (F, H); (outputs,) for the output."""
    return torch.arange(len(sources))[entry.in_fold_idx[0]]


def _output(sources: list[Block], entry: Any) -> Block:
    outputs = _gather(sources, entry).flatten().tolist()
    if len(outputs) != 1:
        raise ValueError(f"the circuit must have one output layer, with a unit for each class; got {len(outputs)}")
    return sources[outputs[0]]


class _Layer:
    """One layer of a compiled circuit; ``name`` is what errors call it."""

    def __init__(self, layer: Any, name: str) -> None:
        self.layer, self.name = layer, name

    def blocks(self, inputs: list[list[Block]]) -> list[Block]:
        """The blocks of the layer's folds, given those of each fold's inputs."""
        from cirkit.backend.torch.layers.inner import TorchHadamardLayer, TorchKroneckerLayer, TorchSumLayer
        from cirkit.backend.torch.layers.input import TorchBinomialLayer, TorchCategoricalLayer, TorchGaussianLayer
        from cirkit.backend.torch.layers.optimized import TorchCPTLayer, TorchTuckerLayer

        readers: dict[type, Callable[[], list[Block]]] = {
            TorchGaussianLayer: self._gaussian,
            TorchCategoricalLayer: self._categorical,
            TorchBinomialLayer: self._binomial,
            TorchHadamardLayer: lambda: self._products(inputs, all_pairs=False),
            TorchKroneckerLayer: lambda: self._products(inputs, all_pairs=True),
            TorchSumLayer: lambda: self._sums([joined(fold) for fold in inputs]),
            TorchCPTLayer: lambda: self._sums(self._products(inputs, all_pairs=False)),
            TorchTuckerLayer: lambda: self._sums(self._products(inputs, all_pairs=True)),
        }
        kind = type(self.layer)
        if kind not in readers:
            supported = ", ".join(known.__name__ for known in readers)
            raise ValueError(f"{self.name} is not supported; supported are {supported}")
        return readers[kind]()

    def _products(self, folds: list[list[Block]], *, all_pairs: bool) -> list[Block]:
        return [Products(tuple(fold), all_pairs) for fold in folds]

    def _sums(self, folds: list[Block]) -> list[Block]:
        weights = self._parameter("weight")
        if bool((weights < 0).any()) or not self._is_one(weights.sum(-1)):
            raise ValueError(
                f"{self.name} has weights that are negative or do not add up to 1; "
                "give its sums the softmax parametrisation"
            )
        return [Sums(fold, torch.log(part)) for fold, part in zip(folds, weights, strict=True)]

    def _gaussian(self) -> list[Block]:
        if self.layer.log_partition is not None:
            raise ValueError(f"{self.name} has a log-partition of its own; only normalised Gaussians are supported")
        mean, deviation = self._parameter("mean"), self._parameter("stddev")
        if bool((deviation <= 0).any()):
            raise ValueError(f"{self.name} has standard deviations that are not positive")
        folds = zip(self._variables(), mean, torch.log(deviation), strict=True)
        return [gaussian_leaves(*fold) for fold in folds]

    def _categorical(self) -> list[Block]:
        if self.layer.logits is None:
            log_probabilities = torch.log(self._parameter("probs"))
        else:
            log_probabilities = self._parameter("logits")
        if not self._is_one(torch.exp(log_probabilities).sum(-1)):
            raise ValueError(
                f"{self.name} has probabilities that do not add up to 1; give its 'probs' the softmax parametrisation"
            )
        return [categorical_leaves(*fold) for fold in zip(self._variables(), log_probabilities, strict=True)]

    def _binomial(self) -> list[Block]:
        if self.layer.logits is None:
            # Probabilities of 0 and 1 are moved inwards, as by the distribution that cirkit evaluates.
            logits = probs_to_logits(self._parameter("probs"), is_binary=True)
        else:
            logits = self._parameter("logits")
        folds = zip(self._variables(), logits, strict=True)
        return [binomial_leaves(variable, self.layer.total_count, logit) for variable, logit in folds]

    def _variables(self) -> list[int]:
        return [int(variable) for (variable,) in self.layer.scope_idx.tolist()]

    def _parameter(self, name: str) -> Tensor:
        """The values of a parameter, fold by fold."""
        values: Tensor = getattr(self.layer, name)()
        if not values.is_floating_point() or bool(values.isnan().any()):
            raise ValueError(f"{self.name} has a parameter {name!r} that does not hold real numbers")
        return values

    @staticmethod
    def _is_one(totals: Tensor) -> bool:
        return bool(((totals - 1.0).abs() < _TOLERANCE).all())
