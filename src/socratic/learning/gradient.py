"""Gradient training, resumable, by one process or several: Adam, the hybrid objective, early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.likelihood import log_likelihood
from socratic.learning.checkpoint import Checkpoint, data_digest, fingerprint
from socratic.learning.settings import Epoch, History, Rows, Source, TrainingSettings
from socratic.learning.sharding import gather, part_of, put_together, stand_in
from socratic.learning.step import Augmentation, GradientStep, objective
from socratic.workers import Workers

WARM_UP = 0.1
"""Share of the steps over which the learning rate rises."""


def learning_rate_factor(step: int, n_steps: int, schedule: str = "cosine") -> float:
    """By what the learning rate is multiplied at a step: see :class:`~socratic.learning.TrainingSettings`."""
    if schedule == "constant":
        return 1.0
    rising = max(1.0, WARM_UP * n_steps)
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1.0 + math.cos(math.pi * (step - rising) / max(1.0, n_steps - rising)))


def fit_gradient(
    circuit: Circuit | Graph,
    rows: Source,
    settings: TrainingSettings,
    log_prior: Tensor,
    *,
    validation: Rows | None = None,
    augment: Augmentation | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 1,
    keep_checkpoint: bool = False,
    progress: Callable[[Epoch], None] | None = None,
) -> History:
    """Train ``circuit`` in place and keep the parameters of the best epoch (the last without validation rows).

    If there is a process group of torch.distributed, its processes train together: all of them call this with the
    same arguments, each evaluates its share of every batch, and all end up with the circuit that one process would,
    but for rounding. ``working_together(shard=True)`` also divides the circuit among them.

    Parameters
    ----------
    circuit : Circuit or Graph
    rows : Source
        Such as :class:`~socratic.learning.settings.Rows`; what comes of it is on the circuit's device.
    settings : TrainingSettings
    log_prior : Tensor (C,)
        Log-probabilities of the classes.
    validation : Rows, optional
        Rows to measure progress on, as the circuit reads them.
    augment : callable, optional
        Makes what the circuit reads (B, V) of the rows of a batch, anew in every step: changes that leave the class
        what it is, drawn from the generator it is given (on the circuit's device). Its ``repr`` must tell it from
        others: a checkpoint is named by it. On a GPU it is recorded: it must not copy to or from the CPU.
    checkpoint : Path, optional
        File to keep the state in, which the first process reads and writes. If it holds an earlier state of the same
        training, that is resumed, also by another number of processes and with or without ``shard``; the result is the
        same as without the interruption.
    checkpoint_every : int
        Epochs between two states.
    keep_checkpoint : bool
        Whether the file stays at the end, with a state from which the training returns at once, or is removed.
    progress : callable, optional
        Called after every epoch, by every process.
    """
    workers = Workers.present()
    kept: list[Source] = [rows] if validation is None else [rows, validation]
    data = "" if checkpoint is None and workers.number == 1 else data_digest(kept, settings)
    workers.check_same("rows and settings", data)
    store = None if checkpoint is None else Checkpoint(checkpoint, fingerprint(circuit, data, repr(augment)), workers)
    n_batches = math.ceil(len(rows) / settings.batch_size)
    trained = stand_in(circuit) if workers.shard else circuit
    step = GradientStep(trained, settings, log_prior, augment, workers)
    epochs: list[Epoch] = []
    best, best_state = -1, _copy(trained)
    resumed = None if store is None else store.load()
    if resumed is not None:
        tensors, epochs, extra = resumed
        best = extra["best"]
        best_state = _restore(step, tensors)
    while not _is_over(settings, len(epochs), best):
        number = len(epochs)
        loss = _epoch(step, rows, number, n_batches)
        validation_loss = math.nan
        if validation is not None:
            validation_loss = _validate(step, validation, log_prior)
        epochs.append(Epoch(number, loss, validation_loss))
        if validation is None or best < 0 or validation_loss < epochs[best].validation_loss:
            best, best_state = number, _copy(trained)
        if store is not None and (number + 1) % checkpoint_every == 0:
            store.save(_state(step, best_state), epochs, {"best": best})
        if progress is not None:
            progress(epochs[-1])
    trained.load_state_dict(best_state)
    if store is not None and keep_checkpoint:
        store.save(_state(step, best_state), epochs, {"best": best})
    elif store is not None:
        store.remove()
    if workers.shard:
        put_together(circuit, trained)
    return History(tuple(epochs), best)


def _is_over(settings: TrainingSettings, n_epochs: int, best: int) -> bool:
    """Whether so many epochs are enough, given the best of them; -1 if there are none yet."""
    patience = settings.n_epochs if settings.patience is None else settings.patience
    return n_epochs >= settings.n_epochs or n_epochs - 1 - best >= patience


def _epoch(step: GradientStep, rows: Source, number: int, n_batches: int) -> float:
    """All batches once; return the mean loss, of all processes."""
    settings = step.settings
    # Order and masks depend on the seed and the epoch alone: that is what makes a resumed training the same.
    seed = 2 * (settings.seed + 7919 * number)
    step.masks.manual_seed(seed + 1)
    total = torch.zeros((), dtype=torch.float64, device=step.circuit.device)
    for index, batch in enumerate(rows.batches(settings.batch_size, seed)):
        factor = learning_rate_factor(number * n_batches + index, settings.n_epochs * n_batches, settings.schedule)
        total += step(batch, settings.learning_rate * factor) * len(batch)
    return float(step.workers.total(total)) / len(rows)


@torch.no_grad()
def _validate(step: GradientStep, rows: Rows, log_prior: Tensor) -> float:
    """The mean loss, the same in all processes: it decides in each when to stop."""
    circuit, weight = step.circuit, step.settings.cross_entropy_weight
    share = rows.take(step.workers.share(len(rows)))
    with step.whole_circuit():
        values = log_likelihood(circuit, share.x)
    loss = objective(values, share, log_prior, circuit.n_features, weight, rows.weight.sum())
    return float(step.workers.total(loss))


def _copy(circuit: Circuit | Graph) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in circuit.state_dict().items()}


def _state(step: GradientStep, best: dict[str, Tensor]) -> dict[str, Tensor]:
    """Everything to resume from, whole and in the first process: parameters, the best ones, and Adam's moments."""
    tensors = {f"current/{name}": tensor for name, tensor in step.circuit.state_dict().items()}
    tensors |= {f"best/{name}": tensor for name, tensor in best.items()}
    for name, parameter in step.circuit.named_parameters():
        tensors |= {f"adam/{key}/{name}": value for key, value in step.optimiser.state[parameter].items()}
    return gather(tensors, step.workers)


def _restore(step: GradientStep, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo :func:`_state`; return the best parameters."""
    circuit, optimiser = step.circuit, step.optimiser
    present = circuit.state_dict()

    def under(prefix: str) -> dict[str, Tensor]:
        return {name: part_of(tensors[prefix + name], like, step.workers) for name, like in present.items()}

    circuit.load_state_dict(under("current/"))
    state = optimiser.state_dict()
    keys = {name.split("/")[1] for name in tensors if name.startswith("adam/")}
    state["state"] = {
        number: {key: part_of(tensors[f"adam/{key}/{name}"], parameter, step.workers) for key in keys}
        for number, (name, parameter) in enumerate(circuit.named_parameters())
    }
    optimiser.load_state_dict(state)
    return {name: tensor.to(circuit.device) for name, tensor in under("best/").items()}
