from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

import socratic
from socratic.learning import Rows
from socratic.learning.step import objective
from socratic.workers import Workers, is_first_process, is_lost_connection, working_together

TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 20, 21])
def test_every_row_has_one_process(n_rows: int, number: int) -> None:
    shares = [range(n_rows)[Workers(rank, number).share(n_rows)] for rank in range(number)]
    assert [row for share in shares for row in share] == list(range(n_rows))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("n_rows", [1, 5])
def test_gradients_of_shares_add_up(n_rows: int, graph: bool) -> None:
    """Also with uneven weights, dropout, and shares of different sizes or of no row."""
    layered = socratic.rat_spn(4, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, seed=0).double()
    circuit = layered.to_graph() if graph else layered
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n_rows, 4, generator=generator, dtype=torch.float64)
    rows = Rows(x, torch.arange(n_rows) % 3, 0.1 + torch.rand(n_rows, generator=generator, dtype=torch.float64))
    log_prior = torch.full((3,), -math.log(3), dtype=torch.float64)

    def gradient(number: int) -> list[torch.Tensor]:
        circuit.zero_grad()
        for rank in range(number):
            share = Workers(rank, number).share(n_rows)
            masks = torch.Generator().manual_seed(1)  # every process has this one
            rates = {"dropout": 0.3, "leaf_dropout": 0.2}
            values = socratic.training_log_likelihood(circuit, rows.x, **rates, generator=masks, share=share)
            objective(values, rows.take(share), log_prior, 4, 0.7, rows.weight.sum()).backward()
        return [parameter.grad.clone() for parameter in circuit.parameters() if parameter.grad is not None]

    whole, shared = gradient(1), gradient(3)
    assert len(whole) == len(list(circuit.parameters()))
    torch.testing.assert_close(shared, whole)


def test_a_process_alone_is_the_first() -> None:
    workers = Workers.present()
    assert workers == Workers(0, 1)
    assert workers.is_first
    assert is_first_process()
    assert workers.of_first("value") == "value"
    assert float(workers.total(torch.tensor(3.0))) == 3.0
    workers.check_same("rows", 1)
    with working_together() as present:
        assert present == workers


def test_torchrun_says_who_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert not is_first_process()
    monkeypatch.setenv("RANK", "0")
    assert is_first_process()


@pytest.mark.parametrize("changes", [{"WORLD_SIZE": "1"}, {"MASTER_PORT": None}])
def test_variables_of_other_programs_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str | None]
) -> None:
    for name, value in (TORCHRUN | changes).items():
        if value is not None:
            monkeypatch.setenv(name, value)
    assert is_first_process()
    with working_together() as present:
        assert present == Workers(0, 1)


def test_sharding_needs_others_and_a_new_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    with working_together(shard=True) as present:
        assert present == Workers(0, 1)  # alone there is nobody to share with
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.8.0"))
    with pytest.raises(ValueError, match=r"shard=True needs torch 2\.9 or later"), working_together(shard=True):
        pass


def test_a_lost_connection_is_told_from_other_failures() -> None:
    assert is_lost_connection(RuntimeError("[gloo/transport/tcp/pair.cc:537] Connection reset by peer"))
    assert is_lost_connection(torch.distributed.DistBackendError("NCCL communicator was aborted"))
    assert not is_lost_connection(RuntimeError("CUDA error: an illegal memory access was encountered"))


def test_who_is_first_is_known_without_torch() -> None:
    code = "import sys, socratic.workers as w; w.is_first_process(); print('torch' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "False"
