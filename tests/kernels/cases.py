"""What the kernels are checked on: sizes of many kinds, against PyTorch in float64.

``TRITON_INTERPRET=1 python -m tests.kernels.cases`` checks the small ones on a CPU. Triton decides when it is imported
whether it interprets, so that takes a process of its own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

import socratic
from socratic.circuit import layers, leaves
from socratic.inference.dropout import Dropout
from socratic.inference.layered import algebra, covariance, values
from socratic.inference.layered.covariance import Children, _propagated
from socratic.inference.layered.log_moments import algebra as log_algebra
from socratic.inference.layered.log_moments import masks
from socratic.inference.layered.log_moments.algebra import LogMomentAlgebra, LogMoments
from socratic.inference.layered.log_moments.sums import Children as LogChildren
from socratic.inference.layered.sum_product import log_sums, sum_products
from socratic.inference.layered.values import LogValues, Products, sum_repetitions
from socratic.kernels import processor
from socratic.kernels.covariance import MaskOdds, pair_covariance
from socratic.kernels.leaves import picked_product, power_product, rescale
from socratic.kernels.roots import join
from socratic.kernels.sums import log_sums_of_pairs, sums_of_pairs
from socratic.kernels.weights import softmax
from socratic.memory import Scratch

RTOL = 5e-6
"""Of float32: as good as PyTorch's own."""


class Layer(NamedTuple):
    """The size of a layer, and what is particular about its values."""

    n_folds: int
    n_sums: int
    n_left: int
    n_right: int
    n_rows: int
    spread: float = 3.0
    dead: bool = False


LAYERS = [
    Layer(1, 1, 1, 1, 1),
    Layer(3, 5, 4, 3, 37),
    Layer(1, 20, 6, 5, 70),
    Layer(2, 10, 3, 8, 33),
    Layer(5, 33, 2, 2, 64),
    Layer(3, 4, 3, 3, 40, spread=40.0),
    Layer(3, 4, 3, 3, 40, dead=True),
]
LARGE_LAYERS = [Layer(80, 20, 20, 20, 1000), Layer(7, 64, 8, 16, 300), Layer(300, 20, 20, 20, 129)]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def weights_of(n_folds: int, n_sums: int, n_children: int) -> Tensor:
    return torch.softmax(numbers(n_folds, n_sums, n_children, seed=1), -1)


def children(layer: Layer, device: str) -> tuple[Tensor, LogValues, LogValues]:
    """Weights, and both sides as views of one earlier layer, as a circuit has them."""

    def side(n_nodes: int, seed: int) -> LogValues:
        values = layer.spread * numbers(layer.n_folds + 2, n_nodes, layer.n_rows, seed=seed)
        if layer.dead:
            values[1, :, 3], values[2, 0] = -math.inf, -math.inf
        scale = 1e4 * numbers(layer.n_folds + 2, 1, layer.n_rows, seed=seed + 1).double()
        return LogValues(*(part[1:-1].to(device) for part in LogValues.rescale(values, scale)))

    weights = weights_of(layer.n_folds, layer.n_sums, layer.n_left * layer.n_right)
    return weights.to(device), side(layer.n_left, 2), side(layer.n_right, 4)


def check_sums(layer: Layer, device: str) -> None:
    """Sums over all pairs."""
    weights, left, right = children(layer, device)
    scale = left.log_scale + right.log_scale
    products = Products(left.log_value.double(), right.log_value.double(), scale)
    expected = LogValues.rescale(log_sums(weights.double(), products), scale)
    found = LogValues(*log_sums_of_pairs(weights, *left, *right))
    assert found.log_value.dtype == torch.float32
    assert found.log_scale.dtype == torch.float64
    torch.testing.assert_close(found.log_value.double(), expected.log_value, rtol=RTOL, atol=RTOL)
    torch.testing.assert_close(found.log_scale, expected.log_scale, rtol=0.0, atol=RTOL)


def check_pair_sums(layer: Layer, device: str) -> None:
    """Sums of values over all pairs, more of them than a program takes, beside each other or not."""
    n_sums = layer.n_sums * 7
    weights = weights_of(layer.n_folds, n_sums, layer.n_left * layer.n_right).to(device)
    a, b = (torch.rand(layer.n_folds, n, layer.n_rows).to(device) for n in (layer.n_left, layer.n_right))
    expected = sum_products(weights.double(), a.double(), b.double())
    torch.testing.assert_close(sums_of_pairs(weights, a, b).double(), expected, rtol=RTOL, atol=0.0)
    torch.testing.assert_close(sums_of_pairs(weights, a, b, by_row=True).double(), expected.mT, rtol=RTOL, atol=0.0)


PRODUCTS = [(1, 1, 1, 1, 1, 1), (3, 5, 4, 2, 7, 37), (2, 20, 25, 3, 40, 70), (2, 33, 3, 1, 3, 20)]
LARGE_PRODUCTS = [(160, 20, 25, 2, 784, 1000), (7, 128, 100, 3, 300, 129), (160, 17, 40, 3, 784, 2100)]


def check_picked(size: tuple[int, ...], device: str) -> None:
    """Products with rows of a table: folds, nodes, entries of a fold, statistics, entries of the table, rows."""
    n_folds, n_nodes, n_picked, n_statistics, n_entries, n_rows = size
    natural = numbers(n_folds, n_nodes, n_picked * n_statistics).to(device)
    table = numbers(n_entries, n_statistics, n_rows, seed=1).to(device)
    picked = torch.randint(n_entries, (n_folds, n_picked), generator=torch.Generator().manual_seed(0)).to(device)
    statistics = table[picked].flatten(1, 2).double()
    _check_product(lambda natural: picked_product(natural, table, picked), natural, statistics)


def check_powers(size: tuple[int, ...], device: str) -> None:
    """Products with the powers of deviations, some of which are missing or too large."""
    n_folds, n_nodes, n_picked, n_statistics, n_entries, n_rows = size
    natural = numbers(n_folds, n_nodes, n_picked * n_statistics).to(device)
    table, centre = (3.0 + numbers(n_entries, n, seed=n).to(device) for n in (n_rows, 1))
    table[0, 0], table[-1, -1] = torch.nan, 100.0
    picked = torch.randint(n_entries, (n_folds, n_picked), generator=torch.Generator().manual_seed(0)).to(device)
    deviations = (table - centre).clamp(-2.0, 2.0).double()
    powers = torch.stack([deviations**power for power in range(n_statistics)], 1)
    powers = powers.masked_fill(table.isnan().unsqueeze(1), 0.0)
    statistics = powers[picked].flatten(1, 2)
    _check_product(lambda natural: power_product(natural, table, centre.squeeze(1), picked, 2.0), natural, statistics)


def _check_product(product: Callable[[Tensor], Tensor], natural: Tensor, statistics: Tensor) -> None:
    """A product with statistics (F, D * T, N) and, on a processor, its gradient and that of the gradient."""

    def with_gradients(product: Callable[[Tensor], Tensor], natural: Tensor) -> tuple[Tensor, ...]:
        natural.requires_grad_()
        with torch.enable_grad():
            found = product(natural)
            (first,) = torch.autograd.grad((found * found).sum(), natural, create_graph=True)
            (second,) = torch.autograd.grad((first * first).sum(), natural)
        return found.detach(), first.detach(), second

    evaluate = with_gradients if processor.computes(natural) else lambda product, natural: (product(natural),)
    expected = evaluate(lambda natural: torch.bmm(natural, statistics), natural.double())
    for value, wanted in zip(evaluate(product, natural), expected, strict=True):
        torch.testing.assert_close(value.double(), wanted, rtol=RTOL, atol=RTOL * float(wanted.abs().max()))


def check_softmax(device: str) -> None:
    """Weights of layers of all widths, and the smallest of each sum."""
    for shape in ((1, 1, 1), (3, 5, 7), (2, 20, 400), (10, 2000), (2, 16_384)):
        logits = 5.0 * numbers(*shape).to(device)
        expected = torch.softmax(logits.double(), -1)
        weights, smallest = softmax(logits)
        torch.testing.assert_close(weights.double(), expected, rtol=RTOL, atol=0.0)
        torch.testing.assert_close(smallest.double(), expected.amin(-1), rtol=RTOL, atol=0.0)


def check_join(device: str) -> None:
    """Class roots of several repetitions, which are far apart, or dead."""
    for n_repetitions, n_classes, n_rows in ((1, 1, 1), (5, 10, 70), (3, 33, 20)):
        values = 3.0 * numbers(n_repetitions, n_classes, n_rows).to(device)
        scale = 30.0 * numbers(n_repetitions, 1, n_rows, seed=1).double().to(device)
        values[0, 0], values[:, -1, -1] = -math.inf, -math.inf
        expected = sum_repetitions([LogValues(values.double(), scale)])
        relative, shift = join(values, scale)
        torch.testing.assert_close(shift, expected.log_scale, rtol=0.0, atol=0.0)
        torch.testing.assert_close(relative.double(), expected.log_value, rtol=RTOL, atol=2 * RTOL)


def check_rescale(device: str) -> None:
    """Log-values made relative to their largest, some of which are dead."""
    values = numbers(3, 100, 70).to(device)
    values[0, 0], values[1, :, 5] = -math.inf, -math.inf
    expected = LogValues.rescale(values.double())
    relative, scale = rescale(values)
    torch.testing.assert_close(relative.double(), expected.log_value, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scale, expected.log_scale, rtol=0.0, atol=0.0)


class Covariance(NamedTuple):
    """The size of a layer, whether its children have covariances (2), variances (1) or neither (0), and masks' odds."""

    n_folds: int
    n_sums: int
    n_left: int
    n_right: int
    n_rows: int
    left: int
    right: int
    odds: float = 0.0
    shared: bool = True


COVARIANCES = [
    Covariance(2, 5, 4, 3, 7, left, right, odds, shared)
    for left in range(3)
    for right in range(3)
    for odds, shared in ((0.0, True), (0.25, True), (0.25, False))
    if left + right > 0 or odds > 0.0
] + [Covariance(1, 1, 1, 1, 1, 2, 2), Covariance(2, 10, 20, 17, 3, 2, 2, 0.5), Covariance(1, 33, 2, 2, 2, 2, 2)]
LARGE_COVARIANCES = [Covariance(10, 20, 20, 20, 300, 2, 2, 0.25), Covariance(40, 20, 20, 20, 300, 1, 1)]


def check_covariance(case: Covariance, device: str) -> None:
    """Covariances of sums; those of the children are so large that no term of the result is small beside others."""

    def of_nodes(kind: int, n_nodes: int, seed: int) -> Tensor | None:
        factor = 0.3 * numbers(case.n_folds, case.n_rows, n_nodes, n_nodes, seed=seed)
        matrix = factor @ factor.mT
        parts = {0: None, 1: matrix.diagonal(dim1=-2, dim2=-1).mT, 2: matrix}
        return None if parts[kind] is None else parts[kind].to(device)  # type: ignore[union-attr]

    weights = weights_of(case.n_folds, case.n_sums, case.n_left * case.n_right).to(device)
    a, b = (torch.rand(case.n_folds, n, case.n_rows).to(device) for n in (case.n_left, case.n_right))
    sides = of_nodes(case.left, case.n_left, 2), of_nodes(case.right, case.n_right, 3)
    wide = Children(*(None if part is None else part.double() for part in (a, b, *sides)))
    sums = sum_products(weights, a, b)
    scale = sums.mT.double()
    masks = MaskOdds(case.odds, case.shared)
    expected = _propagated(weights.double(), wide, masks.of_all, Scratch()) if any(case[5:7]) or masks.of_all else 0.0
    own = sum_products(masks.of_one * weights.double() ** 2, *wide.second_moments())
    expected = (expected + torch.diag_embed(own.mT)) / scale.unsqueeze(-1) / scale.unsqueeze(-2)
    found = pair_covariance(weights, a, b, *sides, sums, masks, 1e30)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=RTOL * float(expected.abs().max()))


class LogMoment(NamedTuple):
    """The size of a layer with masks, whether sums share them, and whether its children have covariances."""

    n_folds: int
    n_sums: int
    n_left: int
    n_right: int
    n_rows: int
    n_shares: int = 16
    shared: bool = False
    matrices: bool = False
    dead: bool = False


LOG_MOMENTS = [
    LogMoment(2, 5, 6, 4, 7, n_shares, shared, matrices, dead)
    for n_shares in (5, 16)
    for shared in (False, True)
    for matrices in (False, True)
    for dead in (False, True)
] + [LogMoment(1, 33, 5, 20, 3, shared=True, matrices=True), LogMoment(2, 10, 20, 17, 3, matrices=True)]
LARGE_LOG_MOMENTS = [
    LogMoment(40, 20, 20, 20, 200, shared=shared, matrices=matrices)
    for shared in (False, True)
    for matrices in (False, True)
]


def check_top_shares(layer: Layer, device: str) -> None:
    """Shares of the pairs that matter most."""
    weights, left, right = children(layer, device)
    values = [torch.exp(side.log_value).mT for side in (left, right)]
    wide = [value.double() for value in values]
    sums = sum_products(weights.double(), *(value.mT for value in wide)).mT
    expected, rest = masks.top_shares(weights.double(), wide, sums)
    with patch.object(masks, "takes_top_shares", return_value=True) as taken:
        shares, others = masks.top_shares(weights, values, sums.float())
    assert taken.called
    for total in (torch.sum, torch.amax, torch.amin):  # in any order
        torch.testing.assert_close(total(shares.double(), 2), total(expected, 2), rtol=RTOL, atol=RTOL)
    torch.testing.assert_close(others.double(), rest, rtol=RTOL, atol=RTOL)


def check_moved(case: LogMoment, device: str) -> None:
    """Moves of the sums of a layer, some of whose children may be dead or lose all they have."""

    def side(n_nodes: int, seed: int) -> LogMoments:
        lead = (case.n_folds, case.n_rows)
        log_mean = 2.0 * numbers(*lead, n_nodes, seed=seed)
        shares = torch.softmax(2.0 * numbers(*lead, case.n_shares + 1, n_nodes, seed=seed + 1), 2)
        shares, rest = shares[:, :, 1:].clone(), shares[:, :, 0].clone()
        if case.dead:
            log_mean[0, 1, 2], shares[0, 1, :, 2], rest[0, 1, 2] = -math.inf, 0.0, 1.0
            shares[0, 2], rest[0, 2] = 0.0, 0.0
            shares[0, 2, 0, 0], rest[0, 2, 1], shares[0, 2, 1:4, 2:4] = 1.0, 1.0, 0.25
        factor = 0.3 * numbers(*lead, n_nodes, n_nodes, seed=seed + 2)
        none = torch.zeros(lead)
        parts = (log_mean, none, factor @ factor.mT if case.matrices else None, shares, rest, none, none)
        return LogMoments(*(None if part is None else part.to(device) for part in parts))

    sides = [side(case.n_left, 2), side(case.n_right, 5)]
    wide = [LogMoments(*(None if part is None else part.double() for part in each)) for each in sides]
    weights = weights_of(case.n_folds, case.n_sums, case.n_left * case.n_right).to(device)
    through = LogMomentAlgebra(Dropout(0.2, "unit" if case.shared else "edge"))
    expected_sums, expected = through._sums(weights.double(), _of_means(wide), wide)
    with patch.object(log_algebra, "takes_moved", return_value=True) as taken:
        sums, found = through._sums(weights, _of_means(sides), sides)
    assert taken.called
    assert found is not None
    assert expected is not None
    torch.testing.assert_close(sums.double(), expected_sums, rtol=RTOL, atol=0.0)
    torch.testing.assert_close(found.mean.double(), expected.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.covariance.double(), expected.covariance, rtol=1e-4, atol=1e-5)
    curvature = expected.curvature.mean(-1, keepdim=True)
    assert bool(curvature.isinf().any()) == case.dead
    torch.testing.assert_close(found.curvature.double(), curvature, rtol=1e-4, atol=1e-5)


def _of_means(sides: list[LogMoments]) -> LogChildren:
    return LogChildren.of([side.log_mean for side in sides], all_pairs=True)


@torch.no_grad()
def check_circuit() -> None:
    """A whole circuit on a CPU, all of which is left to the interpreter."""
    circuit = socratic.rat_spn(6, 2, n_sums=3, n_leaves=2, depth=2, n_repetitions=2)
    rows = [numbers(n_rows, 6) for n_rows in (1, 35)]
    rows[1][3, 2] = torch.nan
    wide = copy.deepcopy(circuit).double()
    queries: list[Callable[[socratic.Circuit, Tensor], Tensor]] = [
        lambda circuit, x: circuit.log_likelihood(x),
        lambda circuit, x: socratic.tdi(circuit, x, dropout=0.2).relative_covariance,
        lambda circuit, x: socratic.tdi(circuit, x, dropout=0.2, masks="unit").relative_covariance,
    ]
    for query in queries:
        expected = [query(wide, x.double()) for x in rows]
        with ExitStack() as taken:
            for module, name in (
                (leaves, "takes_picked"),
                (layers, "takes_softmax"),
                (values, "takes_rescale"),
                (values, "takes_join"),
            ):
                taken.enter_context(patch.object(module, name, return_value=True))
            sums = taken.enter_context(patch.object(algebra, "takes_sums", return_value=True))
            pairs = taken.enter_context(patch.object(covariance, "takes_pair_covariance", return_value=True))
            for x, value in zip(rows, expected, strict=True):
                torch.testing.assert_close(query(circuit, x).double(), value, rtol=2e-5, atol=1e-5)
            assert sums.called or pairs.called


CHECKS: list[Callable[[], None]] = [
    *(lambda layer=layer: check_sums(layer, "cpu") for layer in LAYERS),
    *(lambda layer=layer: check_pair_sums(layer, "cpu") for layer in LAYERS),
    *(lambda size=size: check_picked(size, "cpu") for size in PRODUCTS),
    *(lambda size=size: check_powers(size, "cpu") for size in PRODUCTS),
    lambda: check_softmax("cpu"),
    lambda: check_join("cpu"),
    lambda: check_rescale("cpu"),
    *(lambda case=case: check_covariance(case, "cpu") for case in COVARIANCES),
    *(lambda layer=layer: check_top_shares(layer, "cpu") for layer in LAYERS),
    *(lambda case=case: check_moved(case, "cpu") for case in LOG_MOMENTS),
    check_circuit,
]

if __name__ == "__main__":
    with patch.object(processor, "kernels", return_value=None):  # all that is on a CPU is left to the interpreter
        for each in CHECKS:
            each()
    print(len(CHECKS), "checks passed")
