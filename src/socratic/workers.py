"""Processes that train together, over torch.distributed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # torch takes seconds to import, and commands ask who they are before they need it
    from torch import Tensor

__all__ = ["Workers", "is_first_process", "is_lost_connection", "working_together"]

Value = TypeVar("Value")

_SHARD = ContextVar("shard", default=False)
"""Whether those who work together shard: like the process group itself, it is there while they do."""


@dataclass(frozen=True)
class Workers:
    """The processes that train together, seen from one of them.

    Parameters
    ----------
    rank : int
        The number of this process.
    number : int
        How many there are.
    shard : bool
        Whether each keeps a part of what is trained, or all of it.
    """

    rank: int = 0
    number: int = 1
    shard: bool = False

    @classmethod
    def present(cls) -> Workers:
        """The processes of torch's default process group; without one, this process alone."""
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            number = dist.get_world_size()
            return cls(dist.get_rank(), number, number > 1 and _SHARD.get())
        return cls()

    @property
    def is_first(self) -> bool:
        """Whether this is the process that shows progress and writes files."""
        return self.rank == 0

    def share(self, n_rows: int) -> slice:
        """Which of so many rows are this process's: as many as the others have, or one more or less."""
        return slice(n_rows * self.rank // self.number, n_rows * (self.rank + 1) // self.number)

    def total(self, value: Tensor) -> Tensor:
        """The sum of the values of all processes, the same in each."""
        if self.number > 1:
            import torch.distributed as dist

            value = value.clone()
            dist.all_reduce(value)
        return value

    def of_first(self, value: Value) -> Value:
        """The value that the first process has, in each."""
        if self.number == 1:
            return value
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def check_same(self, what: str, value: object) -> None:
        """Raise, in all processes, unless they all have the same value."""
        if self.number == 1:
            return
        import torch.distributed as dist

        values: list[object] = [None] * self.number
        dist.all_gather_object(values, value)
        if any(other != values[0] for other in values):
            raise ValueError(
                f"{what} must be the same in all {self.number} processes and differ: give all of them everything; they "
                "divide each batch themselves"
            )


def is_first_process() -> bool:
    """Whether this is the first of the processes that torchrun started, or the only one."""
    return not _started_together() or int(os.environ["RANK"]) == 0


@contextmanager
def working_together(*, shard: bool = False) -> Iterator[Workers]:
    """Let the processes that torchrun started train together, each on a GPU of its own if there are GPUs.

    A process that was started alone works alone, and a process group that is there already is used as it is.

    Parameters
    ----------
    shard : bool
        Whether each process keeps a part of the parameters, gradients and Adam's moments, for circuits whose training
        does not fit on one GPU, or all of them, which is faster. The result is the same. It takes torch 2.9 or later.
    """
    import torch
    import torch.distributed as dist

    if shard and torch.__version__ < "2.9":  # compared as versions: 2.13 is later
        raise ValueError(f"shard=True needs torch 2.9 or later, for fully_shard over gloo; got {torch.__version__}")
    start = _started_together() and not dist.is_initialized()
    if start:
        place = int(os.environ["LOCAL_RANK"])
        if place < torch.cuda.device_count():  # more processes than GPUs may still train on CPUs
            torch.cuda.set_device(place)
        dist.init_process_group()
    before = _SHARD.set(shard)
    try:
        yield Workers.present()
    finally:
        _SHARD.reset(before)
    if start:  # not after an error: the other processes may be waiting for this one, and notice when it ends
        dist.destroy_process_group()


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether an error says that another process cannot be reached, most likely because it has failed."""
    import torch.distributed as dist

    return isinstance(error, dist.DistError) or "gloo" in str(error)  # gloo's errors have no type of their own


def _started_together() -> bool:
    """Whether torchrun, or something that sets the same variables, started this process along with others."""
    known = all(name in os.environ for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
    return known and int(os.environ["WORLD_SIZE"]) > 1
