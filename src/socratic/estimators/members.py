"""Several circuits from seeds of their own, trained one after the other and joined as one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.join import join_circuits
from socratic.estimators.learned import LEARNED, further_epochs
from socratic.learning.settings import History
from socratic.workers import Workers

Fitted = tuple[Circuit | Graph, History]
Circuits = tuple[Circuit | Graph, ...]


class Member(NamedTuple):
    """One of the circuits that an estimator trains.

    Attributes
    ----------
    seed : int
        Decides its structure, its first parameters and its training.
    checkpoint : Path or None
        File from which its training resumes, if it is trained by gradient steps.
    is_only : bool
        Whether there are no others. The checkpoint of one among others stays until all of them are trained.
    title : str
        What a progress bar calls its training.
    """

    seed: int
    checkpoint: Path | None
    is_only: bool
    title: str


def fit_members(settings: Any, seed: int, fit: Callable[[Member], Fitted]) -> tuple[Circuits, History]:
    """Fit as many circuits as ``settings``, an estimator, asks for.

    The first has ``seed`` itself, and asking for more keeps the others: a single circuit is what it always was. The
    histories follow each other, each from epoch 0 on, and the best epoch is the last one's.
    """
    members = _members(settings, seed)
    circuits, histories = zip(*(fit(member) for member in members), strict=True)
    for member in members:
        if member.checkpoint is not None and Workers.present().is_first:
            member.checkpoint.unlink(missing_ok=True)
    epochs = tuple(epoch for history in histories for epoch in history.epochs)
    return circuits, History(epochs, histories[-1].best)


def as_one(circuits: Circuits) -> Circuit | Graph:
    """Circuits joined under a sum over them."""
    return circuits[0] if len(circuits) == 1 else join_circuits(circuits)


def _members(settings: Any, seed: int) -> list[Member]:
    number = int(settings.n_circuits)
    trained = settings._structure() not in LEARNED or further_epochs(settings) > 0
    by_gradient = trained and getattr(settings, "optimiser", "adam") == "adam"
    seeds = [seed, *np.random.default_rng(seed).integers(2**31 - 1, size=number - 1).tolist()]
    members = []
    for place, own in enumerate(seeds, start=1):
        file = Path(settings.checkpoint) if by_gradient and settings.checkpoint is not None else None
        if file is not None and place > 1:
            file = file.with_name(f"{file.name}.{place}")
        title = "training" if number == 1 else f"training {place} of {number}"
        members.append(Member(own, file, number == 1, title))
    return members
