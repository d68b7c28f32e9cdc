"""Reading SPFlow: modules as blocks, one for each feature and repetition of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from socratic.families import Bernoulli
from socratic.interop.blocks import (
    Block,
    Leaves,
    Sums,
    binomial_leaves,
    categorical_leaves,
    gaussian_leaves,
    joined,
    product,
)


@torch.no_grad()
def read_spflow(module: Any) -> Block:
    """The outputs of a module, and all below it, as blocks.

    Of a RAT-SPN or an Einet with several classes they are the classes, without the prior that mixes them.

    Raises
    ------
    TypeError
        If ``module`` is not a module of SPFlow.
    ValueError
        If a module has no counterpart; the message names it.
    """
    from spflow.modules.module import Module

    if not isinstance(module, Module):
        raise TypeError(f"module must be a module of SPFlow; got {type(module).__name__}")
    reader = _Reader(module)
    head = class_module(module)
    n_features, n_repetitions = head.out_shape.features, reader.repetitions(head)
    if (n_features, n_repetitions) != (1, 1):
        raise ValueError(
            f"{reader.name(head)} has {n_features} features and {n_repetitions} repetitions as outputs; "
            "put a product over the features and a RepetitionMixingLayer over the repetitions"
        )
    return reader.block(head, 0, 0)


def class_module(module: Any) -> Any:
    """The module whose channels are the classes: below the prior of a RAT-SPN or an Einet."""
    from spflow.zoo.einet import Einet
    from spflow.zoo.rat import RatSPN

    if isinstance(module, Einet):
        return module.root_node.inputs if module.num_classes > 1 else module.root_node
    if isinstance(module, RatSPN):
        return module.root_node.inputs if module.n_root_nodes > 1 else module.root_node
    return module


class _Reader:
    """Reads each feature and repetition of each module once, so that what is shared stays shared."""

    def __init__(self, top: Any) -> None:
        from spflow.modules import leaves, sums
        from spflow.modules.einsum import EinsumLayer, LinsumLayer
        from spflow.modules.ops.cat import Cat
        from spflow.modules.products import ElementwiseProduct, OuterProduct, Product
        from spflow.modules.rat import Factorize
        from spflow.zoo.einet import Einet
        from spflow.zoo.rat import RatSPN

        self._names = {id(module): name for name, module in top.named_modules()}
        self._known: dict[tuple[int, int, int], Block] = {}
        self._repetitions: dict[int, int] = {}
        self._weights: dict[int, Tensor] = {}
        self._readers: dict[type, Callable[[Any, int, int], Block]] = {
            leaves.Normal: self._normal,
            leaves.Bernoulli: self._bernoulli,
            leaves.Categorical: self._categorical,
            leaves.Binomial: self._binomial,
            sums.Sum: self._sum,
            sums.ElementwiseSum: self._elementwise_sum,
            sums.RepetitionMixingLayer: self._repetition_mixing,
            Product: self._product,
            ElementwiseProduct: self._elementwise_product,
            OuterProduct: self._outer_product,
            Factorize: self._factorize,
            EinsumLayer: self._einsum,
            LinsumLayer: self._linsum,
            Cat: self._cat,
            Einet: self._model,
            RatSPN: self._model,
        }

    def name(self, module: Any) -> str:
        """What errors call a module: its class and its path from the top."""
        path = self._names.get(id(module))
        return f"{type(module).__name__} ({path!r})" if path else f"{type(module).__name__} (the module itself)"

    def repetitions(self, module: Any) -> int:
        """Number of repetitions of a module's output.

        Parameters have their own number, which is broadcast with that of the inputs; ``out_shape`` tells neither what
        is broadcast nor that mixing leaves a single one.
        """
        if id(module) not in self._repetitions:
            reader = self._readers.get(type(module))
            if reader == self._repetition_mixing:
                found = 1
            else:
                inputs = _inputs(module)
                has_own = not inputs or hasattr(module, "logits") or reader == self._factorize
                own = module.out_shape.repetitions if has_own else 1
                found = max([own, *(self.repetitions(child) for child in inputs)])
            self._repetitions[id(module)] = found
        return self._repetitions[id(module)]

    def block(self, module: Any, feature: int, repetition: int) -> Block:
        """One feature and repetition of a module's output: its channels."""
        repetition = _at(repetition, self.repetitions(module))
        key = (id(module), feature, repetition)
        if key not in self._known:
            if type(module) not in self._readers:
                supported = ", ".join(kind.__name__ for kind in self._readers)
                raise ValueError(f"{self.name(module)} is not supported; supported are {supported}")
            self._known[key] = self._readers[type(module)](module, feature, repetition)
        return self._known[key]

    def _model(self, module: Any, feature: int, repetition: int) -> Block:
        return self.block(module.root_node, feature, repetition)

    # Leaves: parameters are (features, channels, repetitions, ...)

    def _leaf(self, module: Any, parameter: Tensor, feature: int, repetition: int) -> Tensor:
        if module.is_conditional:
            raise ValueError(f"{self.name(module)} computes its parameters from other variables: not supported")
        values = parameter[feature, :, _at(repetition, parameter.shape[2])]
        if bool(values.isnan().any()):
            raise ValueError(f"{self.name(module)} has parameters that are not numbers")
        return values

    def _normal(self, module: Any, feature: int, repetition: int) -> Leaves:
        mean, log_scale = (self._leaf(module, p, feature, repetition) for p in (module.loc, module.log_scale))
        return gaussian_leaves(module.scope.query[feature], mean, log_scale)

    def _bernoulli(self, module: Any, feature: int, repetition: int) -> Leaves:
        logit = self._leaf(module, module.logits, feature, repetition)
        return Leaves(module.scope.query[feature], Bernoulli(), {"logit": logit})

    def _categorical(self, module: Any, feature: int, repetition: int) -> Leaves:
        logits = self._leaf(module, module.logits, feature, repetition)
        return categorical_leaves(module.scope.query[feature], torch.log_softmax(logits, dim=-1))

    def _binomial(self, module: Any, feature: int, repetition: int) -> Leaves:
        logit = self._leaf(module, module.logits, feature, repetition)
        counts = self._leaf(module, module.total_count, feature, repetition).unique().tolist()
        if len(counts) != 1:
            raise ValueError(f"{self.name(module)} has different numbers of trials for one variable: not supported")
        return binomial_leaves(module.scope.query[feature], int(counts[0]), logit)

    # Sums

    def _log_weights(self, module: Any) -> Tensor:
        """The log-weights of all sums of a module, normalised once."""
        if id(module) not in self._weights:
            if bool(module.logits.isnan().any()):
                raise ValueError(f"{self.name(module)} has weights that are not numbers")
            self._weights[id(module)] = module.log_weights
        return self._weights[id(module)]

    def _sum(self, module: Any, feature: int, repetition: int) -> Sums:
        weights = self._log_weights(module)  # (features, in, out, repetitions)
        log_weights = weights[_at(feature, len(weights)), :, :, _at(repetition, weights.shape[3])]
        return Sums(self.block(module.inputs, feature, repetition), log_weights.t())

    def _repetition_mixing(self, module: Any, feature: int, _: int) -> Sums:
        log_weights = self._log_weights(module)[feature]  # (channels, repetitions)
        blocks = [self.block(module.inputs, feature, repetition) for repetition in range(log_weights.shape[1])]
        return Sums(joined(blocks), torch.cat([_diagonal(column) for column in log_weights.t()], dim=1))

    def _elementwise_sum(self, module: Any, feature: int, repetition: int) -> Sums:
        weights = self._log_weights(module)  # (features, in, out, inputs, repetitions)
        n_sums = weights.shape[2]
        parts = weights[feature, :, :, :, _at(repetition, weights.shape[4])].flatten(0, 1)  # (in * out, inputs)
        blocks = [self.block(child, feature, repetition) for child in module.inputs]
        columns = [
            # A child of one channel is part of every sum.
            part.unsqueeze(1) if block.width == 1 else _diagonal(part, n_sums)
            for block, part in zip(blocks, parts.t(), strict=True)
        ]
        return Sums(joined(blocks), torch.cat(columns, dim=1))

    # Products

    def _product(self, module: Any, _: int, repetition: int) -> Block:
        n_features = module.inputs.out_shape.features
        return product([self.block(module.inputs, feature, repetition) for feature in range(n_features)])

    def _factorize(self, module: Any, feature: int, repetition: int) -> Block:
        features = module.indices[:, feature, repetition].nonzero().flatten().tolist()
        return product([self.block(module.inputs[0], number, repetition) for number in features])

    def _elementwise_product(self, module: Any, feature: int, repetition: int) -> Block:
        return product(self._factors(module.inputs, feature, repetition))

    def _outer_product(self, module: Any, feature: int, repetition: int) -> Block:
        return product(self._factors(module.inputs, feature, repetition), all_pairs=True)

    def _einsum(self, module: Any, feature: int, repetition: int) -> Sums:
        pairs = product(self._factors(module.inputs, feature, repetition), all_pairs=True)
        weights = self._log_weights(module)  # (features, out, repetitions, left, right)
        return Sums(pairs, weights[feature, :, _at(repetition, weights.shape[2])].flatten(1))

    def _linsum(self, module: Any, feature: int, repetition: int) -> Sums:
        products = product(self._factors(module.inputs, feature, repetition))
        weights = self._log_weights(module)  # (features, out, repetitions, in)
        return Sums(products, weights[feature, :, _at(repetition, weights.shape[2])])

    def _factors(self, inputs: Any, feature: int, repetition: int) -> list[Block]:
        """The factors of a product: one feature of each input, or of each part of a split."""
        from spflow.modules.ops.split import Split

        modules = [inputs] if isinstance(inputs, Split) else list(inputs)
        if isinstance(modules[0], Split):
            split = modules[0]
            return [self.block(split.inputs, part[feature], repetition) for part in self._parts(split)]
        return [self.block(child, _at(feature, child.out_shape.features), repetition) for child in modules]

    def _parts(self, split: Any) -> list[list[int]]:
        """The features of the input in each part of a split."""
        n_features, n_parts = split.inputs.out_shape.features, split.num_splits
        kind = type(split).__name__
        if split.dim == 1 and kind == "SplitConsecutive":
            size = n_features // n_parts
            return [list(range(part * size, (part + 1) * size)) for part in range(n_parts)]
        if split.dim == 1 and kind == "SplitInterleaved":
            return [list(range(part, n_features, n_parts)) for part in range(n_parts)]
        if split.dim == 1 and kind == "SplitByIndex":
            return list(split.indices)
        raise ValueError(f"{self.name(split)} along dimension {split.dim} is not supported")

    # Wiring

    def _cat(self, module: Any, feature: int, repetition: int) -> Block:
        if module.dim == 2:
            return joined([self.block(child, feature, repetition) for child in module.inputs])
        for child in module.inputs:
            if feature < child.out_shape.features:
                return self.block(child, feature, repetition)
            feature -= child.out_shape.features
        raise IndexError(feature)


def _inputs(module: Any) -> list[Any]:
    """The modules a module reads."""
    inputs = getattr(module, "root_node", getattr(module, "inputs", None))
    if inputs is None:
        return []
    return list(inputs) if isinstance(inputs, torch.nn.ModuleList) else [inputs]


def _at(index: int, size: int) -> int:
    """The index along an axis that is broadcast if it has a single entry."""
    return 0 if size == 1 else index


def _diagonal(log_weights: Tensor, n_sums: int = 1) -> Tensor:
    """Log-weights (S, S / n_sums) with these (S,): node ``s`` has the one child ``s // n_sums``."""
    rows = torch.arange(len(log_weights), device=log_weights.device)
    full = log_weights.new_full((len(rows), len(rows) // n_sums), -torch.inf)
    full[rows, rows // n_sums] = log_weights
    return full
