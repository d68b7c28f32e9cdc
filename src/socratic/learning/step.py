"""One step of gradient training; on a GPU recorded once and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.likelihood import training_log_likelihood
from socratic.learning.settings import Rows, TrainingSettings
from socratic.learning.sharding import divide
from socratic.workers import Workers

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

_WARM_UP_STEPS = 3


def objective(
    log_values: Tensor,
    rows: Rows,
    log_prior: Tensor,
    n_features: int,
    cross_entropy_weight: float,
    total_weight: Tensor | None = None,
) -> Tensor:
    """Weighted mean of lambda * cross-entropy + (1 - lambda) * negative log-likelihood per variable.

    With the ``total_weight`` of more rows than these: what these add to the mean over all of them.
    """
    joint = log_values + log_prior
    own = joint.gather(1, rows.y.unsqueeze(1)).squeeze(1)
    loss = (cross_entropy_weight - 1.0) / n_features * own
    if cross_entropy_weight > 0.0:
        loss = loss + cross_entropy_weight * (torch.logsumexp(joint, 1) - own)
    return (loss * rows.weight).sum() / (rows.weight.sum() if total_weight is None else total_weight)


class _Function(nn.Module):
    """A function of a batch, and what holds the parameters it depends on, as the module that torch asks for."""

    def __init__(self, function: Callable[[Rows], Tensor], values: nn.Module) -> None:
        super().__init__()
        self.function, self.values = function, values

    def forward(self, batch: Rows) -> Tensor:
        """The function's value."""
        return self.function(batch)


class GradientStep:
    """Adam's step on the objective for a batch of rows.

    A step on a GPU is hundreds of short kernels, and starting them takes longer than running them. Once a few steps
    have been taken the usual way, the step is therefore recorded as a CUDA graph, which replays them all at once.

    Several processes take a step together: each differentiates what its share of the rows adds to the objective, and
    torch's DistributedDataParallel exchanges the gradients meanwhile. Such steps are not recorded. Augmentation and
    dropout are drawn for the whole batch by every process, which then takes its own rows: so they are the same however
    many processes there are. If the workers shard, each keeps its part of the circuit's parameters, which are divided
    for good, of their gradients and of Adam's moments, and torch's fully_shard gathers the parameters for the step.

    Parameters
    ----------
    circuit : Circuit or Graph
    settings : TrainingSettings
    log_prior : Tensor (C,)
    augment : callable, optional
        See :func:`~socratic.learning.gradient.fit_gradient`.
    workers : Workers
        The processes that train together.

    Attributes
    ----------
    optimiser : torch.optim.Adam
    masks : torch.Generator
        Source of dropout and augmentation; to be seeded before each epoch.
    """

    def __init__(
        self,
        circuit: Circuit | Graph,
        settings: TrainingSettings,
        log_prior: Tensor,
        augment: Augmentation | None,
        workers: Workers,
    ) -> None:
        self.circuit, self.settings, self.workers = circuit, settings, workers
        self.log_prior, self.augment = log_prior, augment
        self.masks = torch.Generator(circuit.device)
        device = circuit.device.type
        self._recorded = device == "cuda" and workers.number == 1
        # A graph reads the learning rate from memory; as a number it would be recorded for good.
        rate: float | Tensor = settings.learning_rate
        if self._recorded:
            rate = torch.tensor(rate, device=circuit.device)
        self._objective: Callable[[Rows], Tensor] = self._share_of_objective
        self._divided: FSDPModule | None = None
        if workers.shard:
            self._objective = function = _Function(self._share_of_objective, circuit)
            self._divided = divide(function, workers)
        elif workers.number > 1:
            # Parameters alone: a circuit's tables of indices never change, and would be sent with every step.
            function = _Function(self._share_of_objective, nn.ParameterList(circuit.parameters()))
            self._objective = DistributedDataParallel(function)
        self.optimiser = torch.optim.Adam(  # after the parameters were divided: its moments are as they are
            circuit.parameters(), lr=rate, capturable=self._recorded, fused=device in {"cpu", "cuda"} or None
        )
        self._graph: torch.cuda.CUDAGraph | None = None
        self._n_steps = 0

    def __call__(self, batch: Rows, learning_rate: float) -> Tensor:
        """Take a step on these rows, which are on the circuit's device, and return this process's part of the loss."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
        if not self._recorded or len(batch) != self.settings.batch_size:
            return self._step(batch)
        self._n_steps += 1
        if self._n_steps <= _WARM_UP_STEPS:
            return self._step_aside(batch)
        if self._graph is None:
            self._record(batch)
        self._batch.copy_(batch)
        assert self._graph is not None
        self._graph.replay()
        return self._loss.clone()

    @contextmanager
    def whole_circuit(self) -> Iterator[None]:
        """All parameters of the circuit, to evaluate it outside a step. All processes must ask for them."""
        if self._divided is not None:
            self._divided.unshard()
        yield
        if self._divided is not None:
            self._divided.reshard()

    def _step(self, batch: Rows) -> Tensor:
        loss = self._objective(batch)
        self.optimiser.zero_grad(set_to_none=True)
        # Torch takes the mean of gradients over processes, and the whole objective is their sum.
        (self.workers.number * loss).backward()
        self.optimiser.step()
        return loss.detach()

    def _share_of_objective(self, batch: Rows) -> Tensor:
        """What this process's share of the rows adds to the objective of the batch."""
        share = self.workers.share(len(batch))
        values = training_log_likelihood(
            self.circuit,
            batch.x if self.augment is None else self.augment(batch.x, self.masks),
            dropout=self.settings.dropout,
            leaf_dropout=self.settings.leaf_dropout,
            generator=self.masks,
            share=share,
        )
        n_features, weight = self.circuit.n_features, self.settings.cross_entropy_weight
        return objective(values, batch.take(share), self.log_prior, n_features, weight, batch.weight.sum())

    def _step_aside(self, batch: Rows) -> Tensor:
        """A step on a stream of its own: what is set up on first use must not be set up while recording."""
        stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            loss = self._step(batch)
        current.wait_stream(stream)
        return loss

    def _record(self, batch: Rows) -> None:
        """Record a step on the rows in ``_batch``; nothing is computed yet."""
        self._batch = batch.clone()
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(self.masks)
        with torch.cuda.graph(self._graph):
            self._loss = self._step(self._batch)
