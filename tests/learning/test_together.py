"""Two processes train together, over gloo, as one would alone."""

from __future__ import annotations

import math
import os
import pickle
import signal
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

import socratic
from socratic.cli.training import train as train_by_command
from socratic.families import Gaussian
from socratic.learning import Epoch, Rows, TrainingSettings, fit_gradient, initialise_leaves
from socratic.learning.sharding import stand_in
from socratic.learning.step import GradientStep
from socratic.workers import Workers, working_together

pytestmark = pytest.mark.slow

SETTINGS = TrainingSettings(
    n_epochs=3, batch_size=75, dropout=0.2, leaf_dropout=0.1, cross_entropy_weight=0.8, learning_rate=0.02
)
N_TRAIN = 301  # the last batch is a single row, of which one of two processes has none
SECONDS = 120.0
SHARDED = pytest.mark.parametrize("shard", [False, True], ids=["whole", "sharded"])


def digits(dtype: torch.dtype) -> tuple[Rows, Rows]:
    """Rows of uneven weight to train on, and others to measure progress on."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.tensor(data.data)[:, torch.tensor(data.data).std(0) > 1.0]
    x = (x - x.mean(0)) / x.std(0)
    weight = 0.01 + 5.0 * torch.rand(len(x), generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 3
    rows = Rows(x.to(dtype), torch.tensor(data.target), weight.to(dtype))
    return rows.take(slice(0, N_TRAIN)), rows.take(slice(N_TRAIN, 2 * N_TRAIN))


@dataclass(frozen=True)
class Noise:
    """An augmentation, and what its ``repr`` says besides."""

    name: object

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype)


def untrained(rows: Rows) -> socratic.Circuit:
    """A circuit for digits."""
    size = {"n_sums": 6, "n_leaves": 6, "depth": 3, "n_repetitions": 2}
    circuit = socratic.rat_spn(rows.x.shape[1], 10, **size, seed=0).to(rows.x.dtype)
    initialise_leaves(circuit, rows.x)
    return circuit


def train(file: Path, dtype: torch.dtype, checkpoint: Path | None = None, killed_after: int = 99) -> None:
    """Train a circuit on digits and put its parameters and losses into a file; or be killed after some epochs."""
    rows, validation = digits(dtype)
    circuit = untrained(rows)

    def die(epoch: Epoch) -> None:
        if epoch.number == killed_after:
            os.kill(os.getpid(), signal.SIGKILL)

    history = fit_gradient(
        circuit,
        rows,
        SETTINGS,
        torch.full((10,), -math.log(10), dtype=dtype),
        validation=validation,
        # Without a checkpoint it may be named otherwise in each process, as functions are, by their addresses.
        augment=Noise(os.getpid() if checkpoint is None else "noise"),
        checkpoint=checkpoint,
        progress=die,
    )
    result = {**circuit.state_dict(), "epochs": torch.tensor(history.epochs, dtype=torch.float64)}
    torch.save(result | {"answers": circuit.log_likelihood(validation.x).detach().softmax(1)}, file)


def train_together(rank: int, folder: Path, shard: bool, *arguments: Any) -> None:
    with working_together(shard=shard):
        train(folder / f"rank{rank}", *arguments)


def one_is_killed(rank: int, folder: Path, shard: bool, checkpoint: Path) -> None:
    """The second process is killed after two epochs."""
    train_together(rank, folder, shard, torch.float64, checkpoint, 1 if rank == 1 else 99)


def numbers_kept(tensors: Iterable[Tensor | None]) -> int:
    """How many numbers are in the memory of this process."""
    parts = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors if tensor is not None]
    # Several tensors may be pieces of one memory.
    sizes = {(part.untyped_storage().data_ptr(), part.untyped_storage().nbytes() // part.itemsize) for part in parts}
    return sum(size for _, size in sizes)


def count_what_is_kept(rank: int, folder: Path) -> None:
    """Take a step as one of two that shard, and count parameters, gradients, Adam's moments and the circuit left."""
    rows, _ = digits(torch.float64)
    circuit = untrained(rows)
    with working_together(shard=True) as workers:
        step = GradientStep(stand_in(circuit), SETTINGS, torch.zeros(10, dtype=torch.float64), None, workers)
    step(rows.take(slice(0, 75)), 0.01)
    parameters = list(step.circuit.parameters())
    moments = [[step.optimiser.state[some][key] for some in parameters] for key in ("exp_avg", "exp_avg_sq")]
    kept = [parameters, [some.grad for some in parameters], *moments, list(circuit.parameters())]
    torch.save([numbers_kept(some) for some in kept], folder / f"rank{rank}")


def shard_a_graph(rank: int, folder: Path) -> None:
    """Train a graph, whose weights are one vector of odd length, stop early, and copy and pickle what was trained."""
    rows, validation = digits(torch.float64)
    graph = socratic.Graph(small_graph(rows.x.shape[1]), dtype=torch.float64)
    assert len(graph.logits) % 2 == 1
    settings = TrainingSettings(n_epochs=30, batch_size=100, learning_rate=0.5, cross_entropy_weight=0.0, patience=2)
    prior = torch.zeros(1, dtype=torch.float64)
    rows, validation = (Rows(some.x, torch.zeros_like(some.y), some.weight) for some in (rows, validation))
    with working_together(shard=rank >= 0):
        history = fit_gradient(graph, rows, settings, prior, validation=validation)
    assert len(history.epochs) < 30
    copies = [graph, deepcopy(graph), pickle.loads(pickle.dumps(graph))]
    values = torch.stack([socratic.log_likelihood(copy, validation.x).detach() for copy in copies])
    torch.save({"epochs": torch.tensor(history.epochs, dtype=torch.float64), "values": values}, folder / f"rank{rank}")


def small_graph(n_features: int) -> socratic.Sum:
    """Three clusters of rows."""
    clusters = [
        socratic.Product(tuple(socratic.Leaf(variable, Gaussian.of(mean, 1.0)) for variable in range(n_features)))
        for mean in (-0.5, 0.0, 0.5)
    ]
    return socratic.Sum(tuple(clusters), (0.2, 0.3, 0.5))


def ask_the_command(rank: int, folder: Path) -> None:
    """Whether those who train by the command line shard."""
    seen: list[Workers] = []
    for shard in (True, False):
        train_by_command(socratic.CircuitClassifier(), lambda: seen.append(Workers.present()), shard=shard, quiet=True)
    torch.save([workers.shard for workers in seen], folder / f"rank{rank}")


def train_on_own_rows(rank: int, folder: Path) -> None:
    """A mistake: the rows are divided already."""
    rows, _ = digits(torch.float32)
    own = rows.take(slice(rank * 100, rank * 100 + 100))
    circuit = socratic.rat_spn(own.x.shape[1], 10, seed=0)
    with pytest.raises(ValueError, match="rows and settings must be the same in all 2 processes") as caught:
        fit_gradient(circuit, own, SETTINGS, torch.zeros(10))
    (folder / f"rank{rank}").write_text(str(caught.value))


def fit_without_seed(rank: int, folder: Path) -> None:
    """An estimator with a seed of its own in each process, unless they agree on one."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    x = rng.normal(size=(300, 3)) + y[:, None]
    model = socratic.CircuitClassifier(structure="random", n_epochs=2, checkpoint=folder / "state", n_circuits=2)
    model.fit(x, y, sample_weight=rng.uniform(0.5, 2.0, 300))
    torch.save(torch.tensor(model.predict_proba(x)), folder / f"rank{rank}")


@pytest.fixture(scope="module")
def server() -> Any:
    """Processes that start at once, from one that has imported the library."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tests.learning.test_together", "socratic.estimators"])
    return context


def begin(server: Any, function: Callable[..., None], folder: Path, *arguments: Any) -> list[BaseProcess]:
    """Start two processes; the first argument of the function is the number of its process."""
    processes = [
        server.Process(target=_join_in, args=(rank, folder / "store", function, (folder, *arguments)))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    return processes


def _join_in(rank: int, store: Path, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    limit = timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit)
    assert Workers.present() == Workers(rank, 2)
    function(rank, *arguments)
    dist.destroy_process_group()


def codes_of(processes: list[BaseProcess]) -> list[int | None]:
    """The exit codes; whoever hangs has None, and is ended."""
    for process in processes:
        process.join(SECONDS)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def far_apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest difference between two results of training."""
    return max(float((a[name] - b[name]).abs().max()) for name in a.keys() | b.keys())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """What one process learns."""
    file = tmp_path_factory.mktemp("alone") / "result"
    train(file, torch.float64)
    return torch.load(file)


@SHARDED
def test_two_processes_learn_what_one_does(server: Any, tmp_path: Path, alone: dict[str, Tensor], shard: bool) -> None:
    assert codes_of(begin(server, train_together, tmp_path, shard, torch.float64)) == [0, 0]
    first, second = (torch.load(tmp_path / f"rank{rank}") for rank in range(2))
    assert far_apart(first, second) == 0.0
    assert far_apart(first, alone) < 1e-9


@SHARDED
def test_two_processes_learn_what_one_does_in_single_precision(server: Any, tmp_path: Path, shard: bool) -> None:
    """Adam enlarges rounding errors where a gradient is nearly 0, so that a few parameters differ; answers do not."""
    train(tmp_path / "alone", torch.float32)
    assert codes_of(begin(server, train_together, tmp_path, shard, torch.float32)) == [0, 0]
    alone, first, second = (torch.load(tmp_path / name) for name in ("alone", "rank0", "rank1"))
    assert far_apart(first, second) == 0.0
    assert far_apart({"answers": first["answers"]}, {"answers": alone["answers"]}) < 1e-4
    differences = torch.cat([(first[name] - alone[name]).abs().flatten() for name in first])
    assert (differences < 1e-4).double().mean() > 0.99


@SHARDED
def test_a_worker_is_killed_and_one_process_resumes(
    server: Any, tmp_path: Path, alone: dict[str, Tensor], shard: bool
) -> None:
    state = tmp_path / "state"
    codes = codes_of(begin(server, one_is_killed, tmp_path, shard, state))
    assert codes[1] == -signal.SIGKILL
    assert codes[0] not in (0, None)  # the other one failed, and did not wait for ever
    assert state.is_file()
    train(tmp_path / "resumed", torch.float64, state)
    assert far_apart(torch.load(tmp_path / "resumed"), alone) < 1e-4
    assert not state.exists()


@SHARDED
def test_two_processes_resume_what_one_began(
    server: Any, tmp_path: Path, alone: dict[str, Tensor], shard: bool
) -> None:
    state = tmp_path / "state"
    process = server.Process(target=train, args=(tmp_path / "never", torch.float64, state, 0))
    process.start()
    assert codes_of([process]) == [-signal.SIGKILL]
    assert codes_of(begin(server, train_together, tmp_path, shard, torch.float64, state)) == [0, 0]
    for rank in range(2):
        assert far_apart(torch.load(tmp_path / f"rank{rank}"), alone) < 1e-4
    assert not state.exists()


def test_each_process_keeps_half_of_what_is_trained(server: Any, tmp_path: Path) -> None:
    assert codes_of(begin(server, count_what_is_kept, tmp_path)) == [0, 0]
    n_parameters = untrained(digits(torch.float64)[0]).n_parameters
    for rank in range(2):
        *trained, left = torch.load(tmp_path / f"rank{rank}")
        assert trained == pytest.approx([n_parameters / 2] * 4, rel=0.01)
        assert left == 0


def test_a_graph_is_sharded_and_whole_again(server: Any, tmp_path: Path) -> None:
    shard_a_graph(-1, tmp_path)
    assert codes_of(begin(server, shard_a_graph, tmp_path)) == [0, 0]
    alone, first, second = (torch.load(tmp_path / f"rank{rank}") for rank in (-1, 0, 1))
    assert far_apart(first, second) == 0.0
    assert far_apart(first, alone) < 1e-9
    assert torch.equal(first["values"], first["values"][:1].expand_as(first["values"]))


def test_the_command_line_shards_if_asked(server: Any, tmp_path: Path) -> None:
    assert codes_of(begin(server, ask_the_command, tmp_path)) == [0, 0]
    for rank in range(2):
        assert torch.load(tmp_path / f"rank{rank}") == [True, False]


def test_rows_that_differ_are_refused_by_all(server: Any, tmp_path: Path) -> None:
    assert codes_of(begin(server, train_on_own_rows, tmp_path)) == [0, 0]
    for rank in range(2):
        assert "and differ: give all of them everything" in (tmp_path / f"rank{rank}").read_text()


def test_estimators_agree_on_what_is_random(server: Any, tmp_path: Path) -> None:
    assert codes_of(begin(server, fit_without_seed, tmp_path)) == [0, 0]
    assert torch.equal(torch.load(tmp_path / "rank0"), torch.load(tmp_path / "rank1"))
    assert not list(tmp_path.glob("state*"))
