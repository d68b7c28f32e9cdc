"""Expectation maximisation for densities: no learning rate to tune, and steps that are never too long for a sum.

With all rows at once every step raises their likelihood. With mini-batches there are many steps in one pass over the
rows: a running average of expected statistics moves a share of the way towards those of each batch (online EM: Cappé
and Moulines, 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_count
from socratic.learning.expectation import Maximiser, Statistics, maximiser_of
from socratic.learning.settings import Epoch, History, Rows, Source

_TOLERANCE = 1e-5
"""Nats per variable that an epoch has to gain to count as a gain."""


def fit_em(
    circuit: Circuit | Graph,
    rows: Source,
    *,
    sample: Rows | None = None,
    n_epochs: int,
    batch_size: int | None = None,
    step: float = 0.3,
    smoothing: float = 0.1,
    patience: int = 3,
    seed: int = 0,
    validation: Rows | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> History:
    """Raise the likelihood of ``rows`` under a circuit of one class, in place, and keep the best epoch's parameters.

    The first epoch is one step on all rows. Those after it are the same if ``batch_size`` is None, and otherwise take
    a step on each batch, the rows in another order every time. An epoch that does not lower the validation loss (the
    loss, without validation rows) halves the length of the steps, and several in a row end the training. Kept are the
    parameters of the epoch with the lowest validation loss, or of the last without validation rows. The ``loss`` of an
    epoch is the mean over its rows, each before the step it is part of.

    Parameters
    ----------
    circuit : Circuit or Graph
    rows : Source
        Such as :class:`~socratic.learning.settings.Rows`; what comes of it is on the circuit's device.
    sample : Rows, optional
        What the distribution of each column is taken from, towards which leaves are smoothed; by default from all rows,
        which must be in memory then.
    n_epochs : int
        Largest number of passes over the rows.
    batch_size : int, optional
        Rows of a step; all of them by default.
    step : float
        How far the statistics move towards those of a batch at first, between 0 and 1.
    smoothing : float
        Rows added to every leaf, distributed as its column is, and weight spread over the children of every sum.
    patience : int
        Epochs without a gain after which training stops.
    seed : int
        Decides the order of rows.
    validation : Rows, optional
        Rows to measure progress on.
    progress : callable, optional
        Called after every epoch.
    """
    if circuit.n_classes != 1:
        raise ValueError(f"expectation maximisation trains densities, circuits of one class; got {circuit.n_classes}")
    check_count("n_epochs", n_epochs)
    if not 0.0 < step <= 1.0:
        raise ValueError(f"step must be a number above 0 and at most 1; got {step!r}")
    maximiser = maximiser_of(circuit, _in_memory(rows, sample), smoothing)
    statistics = _full_step(maximiser, rows)
    generator = torch.Generator().manual_seed(seed)
    total = statistics.log_likelihood
    epochs: list[Epoch] = []
    best, lowest, without_gain = 0, math.inf, 0
    while True:
        loss = -total / statistics.weight / circuit.n_features
        validation_loss = math.nan if validation is None else _mean_loss(circuit, validation)
        epochs.append(Epoch(len(epochs), loss, validation_loss))
        if progress is not None:
            progress(epochs[-1])
        watched = loss if validation is None else validation_loss
        if validation is None or watched < lowest:
            best, kept = epochs[-1].number, {name: value.clone() for name, value in circuit.state_dict().items()}
        if watched < lowest - _TOLERANCE:
            without_gain = 0
        else:
            without_gain += 1
            step /= 2
        lowest = min(lowest, watched)
        if len(epochs) == n_epochs or without_gain == patience:
            break
        order = int(torch.randint(2**62, (1,), generator=generator))
        statistics, total = _epoch(maximiser, rows, statistics, batch_size, step, order)
    circuit.load_state_dict(kept)
    return History(tuple(epochs), best)


def _in_memory(rows: Source, sample: Rows | None) -> Rows:
    """The sample, or the rows themselves without one."""
    if sample is not None:
        return sample
    if not isinstance(rows, Rows):
        raise ValueError(f"sample must hold some of the rows where these are not in memory; got {type(rows).__name__}")
    return rows


def _epoch(
    maximiser: Maximiser, rows: Source, statistics: Statistics, batch_size: int | None, step: float, order: int
) -> tuple[Statistics, float]:
    """A step on all rows, or one on each batch of them: the statistics, and the log-likelihood on the way."""
    if batch_size is None:
        statistics = _full_step(maximiser, rows)
        return statistics, statistics.log_likelihood
    total = 0.0
    for batch in rows.batches(batch_size, order):
        found = maximiser.expect(batch)
        total += found.log_likelihood
        statistics = statistics.moved_towards(found, step)
        maximiser.maximise(statistics)
    return statistics, total


def _full_step(maximiser: Maximiser, rows: Source) -> Statistics:
    """A step on all rows: their statistics before it."""
    statistics = maximiser.expect(rows)
    maximiser.maximise(statistics)
    return statistics


@torch.no_grad()
def _mean_loss(circuit: Circuit | Graph, rows: Rows) -> float:
    """Mean negative log-likelihood of the rows, per variable."""
    values = circuit.log_likelihood(rows.x).squeeze(1)
    return -float((values * rows.weight).sum() / rows.weight.sum()) / circuit.n_features
