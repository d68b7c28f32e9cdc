"""One step of gradient training; on a GPU recorded once and replayed from then on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.likelihood import training_log_likelihood
from socratic.learning.settings import Rows, TrainingSettings

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

_WARM_UP_STEPS = 3


def objective(
    log_values: Tensor, rows: Rows, log_prior: Tensor, n_features: int, cross_entropy_weight: float
) -> Tensor:
    """Weighted mean of lambda * cross-entropy + (1 - lambda) * negative log-likelihood per variable."""
    joint = log_values + log_prior
    own = joint.gather(1, rows.y.unsqueeze(1)).squeeze(1)
    loss = (cross_entropy_weight - 1.0) / n_features * own
    if cross_entropy_weight > 0.0:
        loss = loss + cross_entropy_weight * (torch.logsumexp(joint, 1) - own)
    return (loss * rows.weight).sum() / rows.weight.sum()


class GradientStep:
    """Adam's step on the objective for a batch of rows.

    A step on a GPU is hundreds of short kernels, and starting them takes longer than running them. Once a few steps
    have been taken the usual way, the step is therefore recorded as a CUDA graph, which replays them all at once.

    Parameters
    ----------
    circuit : Circuit or Graph
    settings : TrainingSettings
    log_prior : Tensor (C,)
    augment : callable, optional
        See :func:`~socratic.learning.gradient.fit_gradient`.

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
    ) -> None:
        self.circuit, self.settings = circuit, settings
        self.log_prior, self.augment = log_prior, augment
        self.masks = torch.Generator(circuit.device)
        self._on_gpu = circuit.device.type == "cuda"
        # A graph reads the learning rate from memory; as a number it would be recorded for good.
        rate: float | Tensor = settings.learning_rate
        if self._on_gpu:
            rate = torch.tensor(rate, device=circuit.device)
        self.optimiser = torch.optim.Adam(
            circuit.parameters(), lr=rate, capturable=self._on_gpu, fused=self._on_gpu or None
        )
        self._graph: torch.cuda.CUDAGraph | None = None
        self._n_steps = 0

    def __call__(self, batch: Rows, learning_rate: float) -> Tensor:
        """Take a step on these rows, which are on the circuit's device, and return the loss."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate
        if not self._on_gpu or len(batch) != self.settings.batch_size:
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

    def _step(self, batch: Rows) -> Tensor:
        values = training_log_likelihood(
            self.circuit,
            batch.x if self.augment is None else self.augment(batch.x, self.masks),
            dropout=self.settings.dropout,
            leaf_dropout=self.settings.leaf_dropout,
            generator=self.masks,
        )
        n_features, weight = self.circuit.n_features, self.settings.cross_entropy_weight
        loss = objective(values, batch, self.log_prior, n_features, weight)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

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
