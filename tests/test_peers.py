"""What is compared with other libraries: the same circuits, honest ratios, floors, and the page that says it."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.peers.floors import operations
from benchmarks.peers.measure import Library, NoAnswerError, difference, measure_pair
from benchmarks.peers.models import BUILDERS, PEERS
from benchmarks.peers.page import growth_table, read_all, section, text
from benchmarks.peers.points import PAPER_SIZES, TASKS, Point, all_points, along
from benchmarks.peers.queries import Ready
from benchmarks.peers.results import Result, Results, exponent
from benchmarks.peers.worker import Worker

ROOT = Path(__file__).parents[1]
SMALL = Point(n_features=16, n_sums=3, depth=2, n_repetitions=2, batch=12, n_classes=4)
SIZES: dict[str, Any] = {"n_features": 16, "n_sums": 3, "depth": 2, "n_repetitions": 2, "batch": 12, "n_classes": 4}


@pytest.fixture(params=PEERS["cpu"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Worker, Worker]:
    """Another library's circuit, and the same in this one."""
    theirs, ours = Worker(request.param, "cpu"), Worker("socratic", "cpu")
    for worker in (theirs, ours):
        worker.build(SIZES, str(tmp_path / "circuit.safetensors"))
    return theirs, ours


def test_both_have_the_same_circuit(workers: tuple[Worker, Worker]) -> None:
    theirs, ours = workers
    assert difference(ours.check(), theirs.check())["difference"] <= 1.0
    assert abs(theirs.model.n_parameters / ours.model.n_parameters - 1) < 0.05


def test_another_circuit_is_noticed(workers: tuple[Worker, Worker]) -> None:
    theirs, ours = workers
    with torch.no_grad():
        next(iter(ours.model.module.parameters())).add_(0.01)
    assert difference(ours.check(), theirs.check())["difference"] > 1.0


def test_pieces_of_a_batch_give_its_results(workers: tuple[Worker, Worker]) -> None:
    for worker in workers:
        model, x, y = worker.model, worker.x, worker.y
        torch.testing.assert_close(model.forward(x, 5), model.forward(x, 12))
        gradients = []
        for piece in (5, 12):
            model.optimiser = torch.optim.SGD(model.module.parameters(), lr=0.0)
            model.step(x, y, piece)
            gradients.append([p.grad.clone() for p in model.module.parameters() if p.grad is not None])
        torch.testing.assert_close(*gradients)


def test_short_calls_are_measured_while_a_limit_is_set() -> None:
    def call(_: int) -> None:
        start = time.perf_counter()
        while time.perf_counter() < start + 1e-3:
            pass

    worker = Worker("socratic", "cpu")
    worker.calls = {"short": call}
    signal.setitimer(signal.ITIMER_PROF, 30.0)  # as a worker does for every answer
    try:
        assert all(0.0 < worker.time("short", 0, 1)["cpu"] < 2e-3 for _ in range(10))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def test_a_circuit_without_a_twin_has_to_find_known_values() -> None:
    assert (
        difference({}, {"known_error": 1e-6})["difference"] < 1.0 < difference({}, {"known_error": 1e-3})["difference"]
    )


def test_ratios_need_outputs_that_agree() -> None:
    measured = {"seconds": 0.5, "peer_seconds": 2.0, "difference": 0.1}
    assert Result("forward", "SPFlow", SMALL, measured).ratio == 4.0
    refused = Result("forward", "SPFlow", SMALL, {**measured, "difference": 3.0})
    assert refused.ratio is None
    assert refused.no_ratio() == "refused: outputs differ by 3 times what is allowed"
    assert Result("forward", "SPFlow", SMALL, {**measured, "difference": math.nan}).ratio is None
    assert Result("forward", "SPFlow", SMALL, {"seconds": 0.5, "timed_out": 1.0}).no_ratio() == "over the time limit"
    assert Result("forward", "SPFlow", SMALL, {"seconds": 0.5, "failed": 1.0}).no_ratio() == "does not run"


def test_growth_is_fitted_to_the_largest_values() -> None:
    times = [(1, 9.0), (10, 0.2), (100, 20.0), (1000, 2000.0)]
    found = exponent(times)
    assert found is not None
    assert math.isclose(found, 2.0)
    assert exponent(times[:2]) is None


def test_results_of_an_earlier_version_are_marked_and_no_part_of_growth() -> None:
    def measured(point: Point, version: float) -> Result:
        stamp = {"run": version if point == along("depth")[0] else 3.0, "version": version}
        known = {"seconds": 0.5, "wall": 0.5, "memory": 1.0, "parameters": 1.0, "difference": 0.0, **stamp}
        of_peer = {"peer_seconds": 1.0, "peer_wall": 1.0, "peer_memory": 1.0, "piece": 1.0, "peer_piece": 1.0}
        return Result("forward", "SPFlow", point, {**known, **of_peer, "peer_parameters": 1.0})

    ceilings = {"flops": 1.0, "bytes": 1.0}
    versions = dict.fromkeys(
        all_points(), 2.0
    )  # measured in two runs, of which one went on where the other was stopped
    latest = Results(
        "cpu", "a machine", ceilings, tuple(measured(*pair) for pair in versions.items()), {"SPFlow": "1.1.0"}
    )
    versions[along("depth")[0]] = 1.0
    mixed = Results(
        "cpu", "a machine", ceilings, tuple(measured(*pair) for pair in versions.items()), {"SPFlow": "1.1.0"}
    )
    assert "Points marked" not in section(latest)
    assert "| depth 2 |" in section(latest)
    assert "- Points marked \\*, 1 of them," in section(mixed)
    assert "| depth 2 \\* |" in section(mixed)
    growth = [{row.split(" | ")[1] for row in growth_table(results)[2:] if row} for results in (latest, mixed)]
    assert growth == [{"sums", "depth", "repetitions", "batch"}, {"sums", "repetitions", "batch"}]


def test_operations_of_a_small_circuit_counted_by_hand() -> None:
    """Two repetitions of 16 variables: four leaf regions, two inner regions of 3 sums over 9 pairs, a root of 4."""
    leaves = 2 * 16 * 3 * 4  # a product and a sum for each of two statistics
    sums = 2 * (2 * 3 + 4) * 9 * 2
    assert operations("forward", SMALL) == 12 * (leaves + sums)
    assert operations("100 Monte Carlo passes, edge masks", SMALL) == 12 * (leaves + 100 * sums)


def test_own_queries_are_right() -> None:
    circuit = BUILDERS["socratic"](SMALL).circuit
    assert circuit is not None
    x = torch.randn(12, 16, generator=torch.Generator().manual_seed(0))
    errors = Ready.of(circuit, x, torch.arange(12) % 4).errors()
    assert all(error <= 1.0 for error in errors.values()), errors


def test_the_paper_is_the_first_point_and_none_comes_twice() -> None:
    points = all_points()
    assert tuple(points[:2]) == PAPER_SIZES
    assert len(set(points)) == len(points)


@pytest.fixture
def library() -> Iterator[Callable[..., Library]]:
    """Makes processes, and ends them."""
    made: list[Library] = []

    def make(name: str, python: str | None = None, limit: float = 60.0) -> Library:
        made.append(Library(name, "cpu", python, limit))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.slow
def test_a_pair_is_measured_in_processes_of_their_own(library: Callable[..., Library]) -> None:
    found = measure_pair(library("spflow"), library("socratic"), SMALL, TASKS)
    for task in TASKS:
        result = Result(task, "SPFlow", SMALL, found[task])
        assert result.ratio is not None
        assert result.measures["memory"] >= 0.0


@pytest.mark.slow
def test_a_library_that_takes_too_long_is_stopped_and_starts_again(library: Callable[..., Library]) -> None:
    quick = library("socratic", limit=0.01)
    for _ in range(2):
        with pytest.raises(NoAnswerError, match="timed_out"):
            quick.ask("build", SIZES, None)


@pytest.mark.slow
def test_a_peer_that_does_not_run_is_told(library: Callable[..., Library]) -> None:
    found = measure_pair(library("spflow", python="/bin/false"), library("socratic"), SMALL, TASKS)
    assert Result("forward", "SPFlow", SMALL, found["forward"]).no_ratio() == "does not run"
    assert found["forward"]["seconds"] > 0.0


def test_the_page_is_made_from_the_records() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert page == text(read_all(ROOT / "benchmarks" / "results")), "run: python -m benchmarks.peers --page"
