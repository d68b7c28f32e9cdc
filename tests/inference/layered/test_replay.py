"""Queries that are recorded and replayed: which recordings are kept, and that they change nothing but the time."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parametrize

import socratic
from socratic.circuit.circuit import Circuit
from socratic.inference.layered import replay as replay_module
from socratic.inference.layered.replay import Compute, Outputs, Recordings, replay
from socratic.tracing import holds, presuming


def small_circuit(**options: object) -> Circuit:
    arguments = {"n_classes": 3, "n_sums": 4, "n_leaves": 5, "depth": 2, "n_repetitions": 2, **options}
    return socratic.rat_spn(8, **arguments)


# Which recordings are kept


class Repetition:
    """A recording for any device: it computes again. What it takes for granted is that no row is negative."""

    made = 0

    def __init__(self, compute: Compute, rows: Tensor) -> None:
        type(self).made += 1
        self.compute, self.n_bytes = compute, rows.nbytes

    def replay(self, rows: Tensor) -> Outputs | None:
        return self.compute(rows) if bool((rows >= 0).all()) else None


def doubled(rows: Tensor) -> Outputs:
    return (2.0 * rows,)


@pytest.fixture
def recordings() -> Recordings:
    Repetition.made = 0
    return Recordings(Repetition, most=3, most_bytes=1000)


def test_what_comes_again_is_recorded_once(recordings: Recordings) -> None:
    rows = torch.ones(2, 3)
    assert recordings.run("a", 0, rows, doubled) is None
    assert Repetition.made == 0
    for _ in range(3):
        (found,) = recordings.run("a", 0, rows, doubled) or (None,)
        assert found is not None
        assert found.tolist() == [[2.0] * 3] * 2
    assert Repetition.made == recordings.n_recordings == 1


def test_only_the_last_ones_are_remembered(recordings: Recordings) -> None:
    rows = torch.ones(2, 3)
    for key in ["a", "a", "b", "b", "a", "c", "d"]:  # "b" is the one that is not used for longest
        recordings.run(key, 0, rows, doubled)
    assert recordings.n_recordings == 1
    assert recordings.run("a", 0, rows, doubled) is not None
    assert recordings.run("b", 0, rows, doubled) is None


def test_recordings_hold_bounded_memory(recordings: Recordings) -> None:
    for key, size in [("a", 100), ("b", 100), ("c", 150)]:
        for _ in range(2):
            recordings.run(key, 0, torch.ones(1, size), doubled)
        assert recordings.n_bytes <= 1000
    assert recordings.n_recordings == 2  # without the least used one
    assert recordings.run("b", 0, torch.ones(1, 100), doubled) is not None


def test_what_is_too_large_is_not_recorded_again_and_again(recordings: Recordings) -> None:
    for _ in range(4):
        assert recordings.run("a", 0, torch.ones(1, 251), doubled) is None
    assert Repetition.made == 1
    assert recordings.n_bytes == 0


def test_parameters_that_move_end_all_recordings(recordings: Recordings) -> None:
    rows = torch.ones(2, 3)
    for places in (0, 1):
        assert recordings.run("a", places, rows, doubled) is None
        assert recordings.run("a", places, rows, doubled) is not None
    assert Repetition.made == 2


def test_what_is_mostly_in_vain_is_given_up(recordings: Recordings) -> None:
    good, bad = torch.ones(1, 2), -torch.ones(1, 2)
    answered = [recordings.run("a", 0, rows, doubled) is not None for rows in (good, good, bad, good, bad, bad, good)]
    assert answered == [False, True, False, True, False, False, False]
    assert recordings.n_recordings == 0


def test_queries_that_displace_each_other_are_given_up(recordings: Recordings) -> None:
    rows = torch.ones(1, 150)  # two do not fit
    for _ in range(8):
        for key in "ab":
            recordings.run(key, 0, rows, doubled)
    assert Repetition.made <= 5
    assert recordings.n_recordings == 1


def test_what_cannot_be_recorded_is_left_alone() -> None:
    def fail(_compute: Compute, _rows: Tensor) -> Repetition:
        attempts.append(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    attempts: list[int] = []
    recordings = Recordings(fail, most_bytes=1000)
    assert [recordings.run("a", 0, torch.ones(1, 1), doubled) for _ in range(4)] == [None] * 4
    assert len(attempts) == 1


def test_parameters_are_known_by_their_places() -> None:
    circuit = small_circuit()
    before = replay_module._places(circuit)
    with torch.no_grad():
        circuit.inner_layers()[0].logits.add_(1.0)  # a recording reads what is there
    assert replay_module._places(circuit) == before
    layer = circuit.inner_layers()[0]
    layer.logits = torch.nn.Parameter(layer.logits.detach().clone())
    assert replay_module._places(circuit) != before
    assert replay_module._places(circuit.double()) != before


def test_modules_in_the_place_of_others_are_noticed() -> None:
    circuit, other = small_circuit(), small_circuit()
    before = replay_module._places(circuit)
    circuit.leaves = other.leaves
    assert replay_module._places(circuit) != before
    before = replay_module._places(circuit)
    parametrize.register_parametrization(circuit.inner_layers()[0], "logits", torch.nn.Identity())
    assert replay_module._places(circuit) != before


def test_a_cpu_records_nothing() -> None:
    circuit = small_circuit()
    with torch.no_grad(), socratic.acceleration(graphs=True, kernels=False):
        for _ in range(3):
            assert replay(circuit, "q", torch.zeros(2, 8), doubled) is None
    assert circuit not in replay_module._of_circuit


def test_conditions_are_asked_for_where_values_can_be_looked_at() -> None:
    x = torch.ones(2)
    with presuming() as presumed:
        assert holds(x, (x > 0).all)
        assert not holds(x, (x > 1).all)
    assert presumed == []


# On a GPU


def on_gpu(test: Callable[..., None]) -> Callable[..., None]:
    """A test that needs a CUDA GPU, run with recordings."""
    skip = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
    return cast(Callable[..., None], skip(pytest.mark.usefixtures("accelerated")(test)))


def recorded(circuit: Circuit) -> Recordings:
    """The recordings of a circuit; a KeyError if it never had any."""
    return replay_module._of_circuit[circuit]


@pytest.fixture
def accelerated() -> Iterator[None]:
    with socratic.acceleration(graphs=True, kernels=False):
        yield


def gpu_circuit(dtype: torch.dtype = torch.float32, **options: object) -> Circuit:
    return small_circuit(**options).to("cuda", dtype)


def gpu_rows(n_rows: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n_rows, 8, generator=torch.Generator().manual_seed(seed)).to("cuda", dtype)


def log_likelihood(circuit: Circuit, rows: Tensor) -> Tensor:
    return circuit.log_likelihood(rows)


def edge_moments(circuit: Circuit, rows: Tensor) -> Tensor:
    return socratic.tdi(circuit, rows, dropout=0.2).relative_covariance


def unit_moments(circuit: Circuit, rows: Tensor) -> Tensor:
    return socratic.tdi(circuit, rows, dropout=0.2, masks="unit").relative_covariance


def independent_moments(circuit: Circuit, rows: Tensor) -> Tensor:
    return socratic.tdi(circuit, rows, dropout=0.2, covariance="independent").relative_covariance


def plainly(query: Callable[[Circuit, Tensor], Tensor], circuit: Circuit, rows: Tensor) -> Tensor:
    with socratic.acceleration(graphs=False, kernels=False):
        return query(circuit, rows)


QUERIES = [log_likelihood, edge_moments, unit_moments, independent_moments]


@on_gpu
@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("query", QUERIES)
def test_replays_are_equal_to_the_last_bit(query: Callable[[Circuit, Tensor], Tensor], dtype: torch.dtype) -> None:
    circuit = gpu_circuit(dtype)
    for n_rows in (1, 7, 200):
        for seed in range(4):
            rows = gpu_rows(n_rows, seed, dtype)
            rows[0, seed] = torch.nan
            assert torch.equal(query(circuit, rows), plainly(query, circuit, rows))
    assert recorded(circuit).n_recordings == 3
    assert 0 < recorded(circuit).n_bytes < 2**30


@on_gpu
@torch.no_grad()
def test_every_change_of_parameters_is_seen() -> None:
    circuit, rows = gpu_circuit(), gpu_rows(5)
    layer = circuit.inner_layers()[0]

    def change_in_place() -> None:
        layer.logits.add_(torch.randn_like(layer.logits))

    def change_behind_torch() -> None:
        layer.logits.data[0] *= 2.0  # torch counts no new version

    def replace() -> None:
        layer.logits = torch.nn.Parameter(torch.randn_like(layer.logits))

    def load() -> None:
        circuit.load_state_dict(gpu_circuit(seed=7).state_dict())

    def assign() -> None:
        circuit.load_state_dict(gpu_circuit(seed=8).state_dict(), assign=True)

    def widen() -> None:
        circuit.double()

    for change in (change_in_place, change_behind_torch, replace, load, assign, widen):
        for _ in range(3):
            circuit.log_likelihood(rows)
        assert recorded(circuit).n_recordings == 1
        before = circuit.log_likelihood(rows)
        change()
        for _ in range(3):
            found = circuit.log_likelihood(rows)
            assert not torch.equal(found.double(), before.double())
            assert torch.equal(found, plainly(log_likelihood, circuit, rows))


@on_gpu
def test_gradients_are_recorded_as_ever() -> None:
    circuit, rows = gpu_circuit(), gpu_rows(5)
    with torch.no_grad():
        for _ in range(3):
            circuit.log_likelihood(rows)
    assert recorded(circuit).n_recordings == 1
    circuit.log_likelihood(rows).sum().backward()
    assert all(parameter.grad is not None for parameter in circuit.parameters())


@on_gpu
@torch.no_grad()
def test_results_are_not_overwritten_by_later_calls() -> None:
    circuit = gpu_circuit()
    results = [circuit.log_likelihood(gpu_rows(5, seed)) for seed in range(5)]
    for seed, result in enumerate(results):
        assert torch.equal(result, plainly(log_likelihood, circuit, gpu_rows(5, seed)))
    assert recorded(circuit).n_recordings == 1


@on_gpu
@torch.no_grad()
def test_weights_that_vanish_are_noticed_after_recording() -> None:
    """A replay takes for granted that no weight is lost; the usual way has more digits, and says so."""
    circuit, rows = gpu_circuit(), gpu_rows(5)
    for _ in range(3):
        circuit.log_likelihood(rows)
    circuit.inner_layers()[0].logits[:, :, 0] -= 200.0
    expected = plainly(log_likelihood, copy.deepcopy(circuit).double(), rows.double())
    with pytest.warns(RuntimeWarning, match="are below"):
        found = circuit.log_likelihood(rows)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


@on_gpu
@torch.no_grad()
def test_rows_far_from_all_data_are_computed_in_float64_after_recording() -> None:
    circuit = gpu_circuit()
    for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
        layer.logits.mul_(12.0)
    near, far = 0.1 * gpu_rows(20), 10.0 * gpu_rows(20)
    for rows in (near, near, near, far):
        assert torch.equal(edge_moments(circuit, rows), plainly(edge_moments, circuit, rows))


@on_gpu
@torch.no_grad()
def test_saturation_is_warned_about_in_replays() -> None:
    circuit = socratic.rat_spn(64, 2, n_sums=1, n_leaves=1, depth=6, n_repetitions=1).to("cuda")
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="were cut off"):
            socratic.tdi(circuit, torch.zeros(1, 64, device="cuda"), dropout=0.9)


@on_gpu
@torch.no_grad()
def test_switched_off_nothing_is_recorded() -> None:
    circuit, rows = gpu_circuit(), gpu_rows(5)
    with socratic.acceleration(graphs=False, kernels=False):
        for _ in range(3):
            circuit.log_likelihood(rows)
    with torch.autocast("cuda"):
        for _ in range(3):
            circuit.log_likelihood(rows)
    with pytest.raises(KeyError):
        recorded(circuit)


@on_gpu
def test_inference_mode_and_back() -> None:
    circuit, rows = gpu_circuit(), gpu_rows(5)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with mode():
            for _ in range(2):
                found = circuit.log_likelihood(rows)
            assert torch.equal(found, plainly(log_likelihood, circuit, rows))
    assert recorded(circuit).n_recordings == 1


@on_gpu
@torch.no_grad()
def test_another_recording_holds_the_query_itself() -> None:
    circuit, rows = gpu_circuit(), gpu_rows(5)
    for _ in range(3):
        circuit.log_likelihood(rows)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = circuit.log_likelihood(rows)
    rows.copy_(gpu_rows(5, seed=1))
    graph.replay()
    assert torch.equal(held, plainly(log_likelihood, circuit, rows))


@on_gpu
@torch.no_grad()
def test_threads_and_streams_do_not_disturb_each_other() -> None:
    circuit = gpu_circuit()
    expected = [plainly(log_likelihood, circuit, gpu_rows(50, seed)) for seed in range(4)]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(seed: int) -> None:
        with torch.no_grad(), socratic.acceleration(graphs=True, kernels=False), torch.cuda.stream(torch.cuda.Stream()):
            rows = gpu_rows(50, seed)
            for _ in range(50):
                if not torch.equal(circuit.log_likelihood(rows), expected[seed]):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@on_gpu
@torch.no_grad()
def test_recordings_end_with_their_circuit() -> None:
    circuit = gpu_circuit()
    for _ in range(3):
        circuit.log_likelihood(gpu_rows(5))
    copied = copy.deepcopy(circuit)
    with pytest.raises(KeyError):
        recorded(copied)
    there = weakref.ref(recorded(circuit))
    del circuit
    gc.collect()
    assert there() is None
