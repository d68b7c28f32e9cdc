"""Rows that turn out to be sharp are left out of the layers above, and nothing else changes."""

from __future__ import annotations

import math

import pytest
import torch

import socratic
from socratic.inference.dropout import Dropout
from socratic.inference.layered.log_moments import plan as plan_module
from socratic.inference.layered.log_moments.algebra import LogMomentAlgebra, LogMoments
from socratic.inference.layered.log_moments.plan import LayeredLogMoments
from socratic.inference.layered.log_moments.root import root_quadrature
from socratic.structure.region_graph import Partition, Region, RegionGraph

LIMIT = 0.5


def plan_of(
    circuit: socratic.Circuit, limit: float | None, masks: str = "unit", *, root: bool = False
) -> LayeredLogMoments:
    return LayeredLogMoments(circuit, circuit.weights(), Dropout(0.2, masks, root), limit)


def sharpened(circuit: socratic.Circuit, factor: float) -> socratic.Circuit:
    for layer in circuit.inner_layers():
        layer.logits.mul_(factor)
    return circuit


def uneven_repetitions() -> socratic.Circuit:
    """Leaves that meet products of other leaves: values of all layers are needed above."""
    scopes = [(0, 1, 2), (0,), (1, 2), (1,), (2,), (0, 1), (2,), (0,), (1,)]
    partitions = [(0, (1, 2)), (2, (3, 4)), (0, (5, 6)), (5, (7, 8))]
    graph = RegionGraph(3, tuple(map(Region, scopes)), tuple(Partition(*partition) for partition in partitions))
    return socratic.Circuit(graph, n_classes=2, n_sums=4, n_leaves=4)


@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_a_limit_changes_neither_which_rows_are_sharp_nor_the_others(
    masks: str, root: bool, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    circuits = [
        sharpened(socratic.rat_spn(64, 3, n_sums=6, n_leaves=6, depth=4, n_repetitions=2), 5.0),
        sharpened(uneven_repetitions(), 8.0),
    ]
    for circuit in circuits:
        circuit.to(dtype)
        x = torch.randn(40, circuit.n_features, generator=generator, dtype=dtype)
        log_prior = x.new_full((circuit.n_classes,), -math.log(circuit.n_classes))
        whole = plan_of(circuit, None, masks, root=root).of_rows(x, None, log_prior)
        limits = [-1.0, *whole.curvature.sort().values[[2, 20, 30]].tolist(), math.inf]
        for limit in limits:
            found = plan_of(circuit, limit, masks, root=root).of_rows(x, None, log_prior)
            sharp = whole.curvature > limit
            assert torch.equal(found.curvature > limit, sharp)
            torch.testing.assert_close(found.curvature[~sharp], whole.curvature[~sharp])
            for field in ("mean", "std", "entropy", "mutual_information", "dead", "log_density_std"):
                values = getattr(found.posterior, field)
                assert values[sharp].isnan().all()
                torch.testing.assert_close(values[~sharp], getattr(whole.posterior, field)[~sharp])


@torch.no_grad()
def test_sharp_rows_are_not_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers above take the others alone, if at least half are sharp, and the quadrature in any case."""
    met: list[int] = []
    layer = LogMomentAlgebra.layer

    def counted_layer(*args: object, **options: object) -> LogMoments:
        found = layer(*args, **options)
        met.append(found.log_mean.shape[1])
        return found

    def counted_quadrature(roots: LogMoments, *args: object) -> socratic.Posterior:
        met.append(roots.log_mean.shape[1])
        return root_quadrature(roots, *args)

    monkeypatch.setattr(LogMomentAlgebra, "layer", counted_layer)
    monkeypatch.setattr(plan_module, "root_quadrature", counted_quadrature)
    circuit = socratic.rat_spn(64, 3, n_sums=6, n_leaves=6, depth=4, n_repetitions=2)
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    log_prior = x.new_full((3,), -math.log(3))

    assert float(plan_of(circuit, LIMIT).of_rows(x, None, log_prior).curvature.max()) < LIMIT
    assert met == [8] * 5
    met.clear()
    assert plan_of(circuit, -1.0).of_rows(x, None, log_prior).curvature.isinf().all()
    assert met == [8, 0, 0, 0, 0]
    sharp = plan_of(sharpened(circuit, 12.0), LIMIT)
    met.clear()
    assert (sharp.of_rows(x, None, log_prior).curvature > LIMIT).all()
    assert met[:2] == [8, 8]  # leaves have no masks: the first layer is never sharp
    assert met[3:] == [0, 0]  # the roots and the quadrature
