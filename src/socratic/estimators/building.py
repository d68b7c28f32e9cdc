"""What the estimators share: circuits from settings, sizes by data, devices, threads and progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.build import rat_spn, spatial_spn
from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_count
from socratic.estimators.choosing import AUTO
from socratic.estimators.learned import (
    LEARNED,
    ONE_ONLY,
    WHOLE_WEIGHTS,
    check_whole_weights,
    further_epochs,
    learn_circuit,
    options_of,
)
from socratic.estimators.members import Fitted, Member
from socratic.estimators.preparation import Parts
from socratic.families import Family
from socratic.learning.gradient import fit_gradient
from socratic.learning.initialise import initialise_leaves
from socratic.learning.settings import Epoch, History, Rows, Source, TrainingSettings
from socratic.learning.structure import hidden_chow_liu
from socratic.tables.columns import Table
from socratic.workers import Workers

HIDDEN_TREES = "hidden-chow-liu"
STRUCTURES = (AUTO, "random", "spatial", HIDDEN_TREES, *LEARNED)
_STEPS = 600
"""Gradient steps that ``n_epochs="auto"`` aims for on small data; large data get at least the fewest epochs."""
_FEWEST_EPOCHS, _MOST_EPOCHS = 12, 120
_EM_EPOCHS = 40
"""Passes over the rows that expectation maximisation takes, at most."""


@dataclass(frozen=True)
class Sizes:
    """Size of a circuit and of its training."""

    depth: int
    n_repetitions: int
    n_sums: int
    n_epochs: int
    batch_size: int


def choose_sizes(n_rows: int, n_features: int, *, hidden_trees: bool, em: bool, **asked: Any) -> Sizes:
    """Fill in what was asked for as "auto", by the size of the data.

    Leaf regions of random trees get about six variables, with at least two splits so that there are inner sums to drop
    from; hidden states get some eighty rows each. Small data get small batches, and every data set at least some
    hundred gradient steps.
    """

    def pick(name: str, value: int, minimum: int = 1) -> int:
        if isinstance(asked[name], str) and asked[name] == "auto":
            return value
        return check_count(name, asked[name], minimum=minimum)

    depth = min(5, max(2, round(math.log2(n_features / 6)))) if n_features > 1 else 0
    few = max(16, 2 ** round(math.log2(max(1, n_rows) / 8)))
    batch_size = pick("batch_size", min(1000, max(n_rows // 100, min(50, few))) if em else min(500, few))
    steps_per_epoch = math.ceil(n_rows / batch_size)
    n_epochs = min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, math.ceil(_STEPS / steps_per_epoch)))
    n_repetitions = 10 if n_rows < 20_000 else 5
    return Sizes(
        depth=pick("depth", depth, minimum=0),
        n_repetitions=pick("n_repetitions", 1 if hidden_trees else n_repetitions),
        n_sums=pick("n_sums", min(32, max(8, n_rows // 80)) if hidden_trees else 10),
        batch_size=batch_size,
        n_epochs=pick("n_epochs", _EM_EPOCHS if em else n_epochs),
    )


class Training(NamedTuple):
    """A circuit to train in place, which of several it is, the rows for it on its device, and its sizes."""

    circuit: Circuit | Graph
    member: Member
    train: Source
    validation: Rows | None
    sizes: Sizes
    progress: Callable[[Epoch], None] | None
    """Whom to tell of each epoch."""


def fit_circuit(
    settings: Any,
    table: Table,
    n_classes: int,
    parts: Parts,
    trainer: Callable[[Training], History],
    member: Member,
) -> Fitted:
    """A circuit as the attributes of ``settings``, an estimator, say: built and trained, or learned from the rows.

    A learned circuit that is not trained further has an empty history.
    """
    train, validation = parts.train, parts.validation
    device = choose_device(settings.device)
    learned = settings.structure_ in LEARNED
    sizes = choose_sizes(
        len(parts.source),
        len(table.columns),
        hidden_trees=settings.structure_ == HIDDEN_TREES,
        em=getattr(settings, "optimiser", "adam") == "em",
        n_sums=settings.n_sums,
        depth=settings.depth,
        n_repetitions=settings.n_repetitions,
        n_epochs=(further_epochs(settings) or "auto") if learned else settings.n_epochs,
        batch_size=settings.batch_size,
    )
    circuit: Circuit | Graph
    if learned:
        circuit = learn_circuit(settings, table, parts, n_classes, member.seed)
        if device.type == "mps":
            circuit.float()
        if not further_epochs(settings):
            return circuit.to(device), History((), 0)
    elif settings.structure_ == HIDDEN_TREES:
        size = {"n_classes": n_classes, "n_states": sizes.n_sums, "n_trees": sizes.n_repetitions}
        circuit = hidden_chow_liu(train.x.double().numpy(), table.families, **size, seed=member.seed)
    else:
        shape = image_shape(settings.image_shape, len(table.columns)) if settings.structure_ == "spatial" else None
        circuit = build_circuit(sizes, table.families, n_classes, member.seed, shape)
        initialise_leaves(circuit, train.x, member.seed)
    circuit.to(device)
    with progress_bar(settings.verbose, sizes.n_epochs, member.title) as progress:
        held_out = None if validation is None else validation.to(device)
        history = trainer(Training(circuit, member, parts.source.to(device), held_out, sizes, progress))
    full_precision(circuit)
    return circuit, history


def train_by_gradient(
    job: Training, settings: Any, log_prior: Tensor, *, patience: int | None, **objective: float
) -> History:
    """Train a circuit by gradient steps, as the attributes of ``settings``, an estimator, say."""
    training = TrainingSettings(
        n_epochs=job.sizes.n_epochs,
        batch_size=job.sizes.batch_size,
        learning_rate=settings.learning_rate,
        schedule=settings.learning_rate_schedule,
        patience=None if job.validation is None else patience,
        seed=job.member.seed,
        **objective,
    )
    return fit_gradient(
        job.circuit,
        job.train,
        training,
        log_prior,
        validation=job.validation,
        checkpoint=job.member.checkpoint,
        keep_checkpoint=not job.member.is_only,
        progress=job.progress,
    )


def check_structure(settings: Any, weight: np.ndarray) -> None:
    """Raise unless the other settings, and the weights (N,) of rows, go together with ``structure``."""
    if settings.image_shape is not None and settings.structure_ != "spatial":
        raise ValueError(f"image_shape is for structure='spatial'; got structure={settings.structure!r}")
    options_of(settings)
    further_epochs(settings)
    if settings.structure_ in WHOLE_WEIGHTS:
        check_whole_weights(settings.structure_, weight)
    if settings.structure_ in ONE_ONLY and settings.n_circuits > 1:
        raise ValueError(
            f"n_circuits must be 1 for structure={settings.structure!r}, which learns the same from every seed, or "
            f"nearly; got {settings.n_circuits}"
        )


def image_shape(shape: Sequence[int] | None, n_features: int) -> tuple[int, int, int]:
    """Height, width and channels of images of so many values; without ``shape`` they are square and grey."""
    if shape is None:
        side = math.isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"structure='spatial' needs image_shape=(height, width) or (height, width, channels): {n_features} "
                "columns are no square image"
            )
        return side, side, 1
    height, width, channels = check_image_shape("image_shape", shape)
    if height * width * channels != n_features:
        raise ValueError(
            f"image_shape {tuple(shape)} has {height * width * channels} values, and the table {n_features} columns"
        )
    return height, width, channels


def check_image_shape(name: str, shape: Any) -> tuple[int, int, int]:
    """Height, width and channels; raises unless ``shape`` holds two or three whole numbers."""
    if isinstance(shape, str) or not isinstance(shape, Sequence) or len(shape) not in (2, 3):
        raise ValueError(f"{name} must be (height, width) or (height, width, channels); got {shape!r}")
    parts = (f"the height in {name}", f"the width in {name}", f"the channels in {name}")
    height, width, channels = (check_count(*pair) for pair in zip(parts, (*shape, 1)[:3], strict=True))
    return height, width, channels


def build_circuit(
    sizes: Sizes, families: Sequence[Family], n_classes: int, seed: int, shape: tuple[int, int, int] | None = None
) -> Circuit:
    """A circuit of these sizes: spatial for images of a ``shape``, otherwise random."""
    settings: dict[str, Any] = {
        "n_sums": sizes.n_sums,
        "n_leaves": sizes.n_sums,
        "depth": sizes.depth,
        "n_repetitions": sizes.n_repetitions,
        "leaf": list(families),
        "seed": seed,
    }
    if shape is None:
        return rat_spn(len(families), n_classes, **settings)
    height, width, channels = shape
    return spatial_spn(height, width, n_classes, n_channels=channels, **settings)


def choose_device(device: str) -> torch.device:
    """The device by name; "auto" takes a CUDA GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device must be 'auto', 'cpu', or one that is there; got {device!r} ({reason})") from None
    if found.type == "meta":
        raise ValueError("device must be one that computes; got 'meta'")
    return found


def full_precision(circuit: Circuit | Graph) -> None:
    """Trained in float32, asked in float64: an answer then does not depend on what else is asked along with it."""
    if circuit.device.type != "mps":
        circuit.double()


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Let torch use ``n_jobs`` threads for a while: -1 for all cores, None for what it uses now."""
    before = torch.get_num_threads()
    if n_jobs is not None:
        import os

        cores = os.cpu_count() or 1
        torch.set_num_threads(max(1, cores + 1 + n_jobs if n_jobs < 0 else n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def progress_bar(shown: bool, n_epochs: int, what: str) -> Iterator[Callable[[Epoch], None] | None]:
    """A bar over epochs with the latest losses, if it is to be shown: by the first of several processes."""
    if not shown or not Workers.present().is_first:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, TimeRemainingColumn(), transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=n_epochs, loss="")

        def advance(epoch: Epoch) -> None:
            text = f"loss {epoch.loss:.3f}"
            if not math.isnan(epoch.validation_loss):
                text += f", validation {epoch.validation_loss:.3f}"
            bar.update(task, completed=epoch.number + 1, loss=text)

        yield advance
