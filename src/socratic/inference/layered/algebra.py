"""The algebra of log-values: a sum-product step for every layer."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from socratic.circuit.layers import SumProductLayer
from socratic.inference.layered.sum_product import log_sums
from socratic.inference.layered.values import LogValues, Products, sum_repetitions
from socratic.kernels.sums import log_sums_of_pairs, takes_sums

Step = Callable[[Tensor, Products], Tensor]
"""One of the steps of :mod:`~socratic.inference.layered.sum_product`: weights (F, S, K) and products to (F, S, N)."""


class LogAlgebra:
    """Passes log-values through layers.

    Parameters
    ----------
    step : callable
        How the sums of a layer are taken.
    root_step : callable, optional
        How those of the class roots are; like the others by default.
    join : callable
        How the values of all repetitions come together in the class roots.
    """

    def __init__(
        self,
        step: Step = log_sums,
        root_step: Step | None = None,
        join: Callable[[list[LogValues]], LogValues] = sum_repetitions,
    ) -> None:
        self.step, self.root_step, self.join = step, root_step or step, join

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogValues, right: LogValues | None, *, root: bool
    ) -> LogValues:
        """Log-values of the sums of one layer."""
        step = self.root_step if root else self.step
        pairs = step is log_sums and layer.all_pairs
        if pairs and right is not None and takes_sums(weights, left.log_value, right.log_value):
            return LogValues(*log_sums_of_pairs(weights, *left, *right))
        products = Products.of(layer, left, right)
        return LogValues.rescale(step(weights, products), products.log_scale)
