"""Parameters divided among processes, by torch's fully_shard, and put together again.

What it takes of torch is imported where it is used: old versions lack it, and it takes a while.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.workers import Workers

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import Shard


def stand_in(circuit: Circuit | Graph) -> Circuit | Graph:
    """A copy to divide in place of the circuit, which is left without values until :func:`put_together`.

    Modules that were divided keep hooks of torch for ever, and so could not be copied, compiled or pickled as before.
    """
    copy = deepcopy(circuit)
    for parameter in circuit.parameters():
        parameter.data = parameter.new_empty(0)
    return copy


def divide(module: nn.Module, workers: Workers) -> FSDPModule:
    """Leave each process its part of a module's parameters, for good; its forward pass has all of them.

    They are gathered all at once: a circuit normalises the weights of all its layers before it evaluates the first.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    def place(parameter: nn.Parameter) -> Shard:
        """The first axis that the processes divide evenly, or else the first of all: no other may be uneven."""
        even = [axis for axis, size in enumerate(parameter.shape) if size % workers.number == 0]
        return Shard(even[0] if even else 0)

    mesh = init_device_mesh(next(module.parameters()).device.type, (workers.number,))
    divided = fully_shard(module, mesh=mesh, reshard_after_forward=False, shard_placement_fn=place)
    divided.set_force_sum_reduction_for_comms(True)  # every backend has sums; not all have means
    return divided


def part_of(whole: Tensor, like: Tensor, workers: Workers) -> Tensor:
    """What this process keeps of a tensor that all have: a part, if one ``like`` it is divided, or all of it."""
    if not workers.shard:
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or whole.shape != like.shape:
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def whole_of(part: Tensor) -> Tensor:
    """The tensor that all processes have parts of, or else this one. All processes must ask for it."""
    from torch.distributed.tensor import DTensor

    return part.full_tensor() if isinstance(part, DTensor) else part


def gather(tensors: dict[str, Tensor], workers: Workers) -> dict[str, Tensor]:
    """Whole tensors in the first process, for a file. All processes must call this."""
    if not workers.shard:
        return tensors
    found = {}
    for name, tensor in tensors.items():
        whole = whole_of(tensor).detach()
        if workers.is_first:  # in its main memory: a GPU need not hold more than one
            found[name] = whole.cpu()
    return found


@torch.no_grad()
def put_together(circuit: Circuit | Graph, divided: Circuit | Graph) -> None:
    """Give a circuit all parameters that its :func:`stand_in`, now divided, has. All processes must call this."""
    for parameter, part in zip(circuit.parameters(), divided.parameters(), strict=True):
        parameter.data = whole_of(part)
