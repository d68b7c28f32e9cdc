"""Doubt that shrinks: the same circuit trained on twice as many rows, again and again.

``python -m examples.shrinking_doubt --data FOLDER --draw docs/images/shrinking-doubt.svg`` measures MNIST, too, which
lies in the folder as the experiments read it, and draws the figure of the documentation. Without ``--data``, tables of
scikit-learn alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

import socratic

N_STEPS, BATCH_SIZE, LEARNING_RATE = 300, 100, 0.03
N_TEST = 2000
"""Test rows to ask about, at most."""


class Rows(NamedTuple):
    """Standardised rows (N, V) with the number of their class (N,), in random order."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


class Doubt(NamedTuple):
    """What a circuit trained on so many rows makes of test rows."""

    n_rows: int
    mutual_information: float  # the mean, in nats
    accuracy: float


def table(load: Callable[..., Any], n_train: int, seed: int, *, pixels: bool = False) -> Rows:
    """A table of scikit-learn in random order, the first rows of which are for training."""
    x, y = load(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:n_train], order[n_train:]
    return split(x[train], y[train], x[test], y[test], pixels=pixels)


def mnist(folder: Path, n_train: int, seed: int) -> Rows:
    """Some of MNIST's training images in random order, and its test images."""
    from socratic_experiments.data import load_images

    train, test = (load_images("mnist", folder, part) for part in ("train", "test"))
    order = np.random.default_rng(seed).permutation(len(train))[:n_train]
    x, test_x = (part.reshape(len(part), -1) for part in (train.images[order], test.images))
    return split(x, train.labels[order], test_x, test.labels, pixels=True)


def split(train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray, test_y: np.ndarray, *, pixels: bool) -> Rows:
    """Rows as circuits read them, scaled alike however many of them are trained on: pixels all by one scale."""
    axis = None if pixels else 0
    mean, scale = train_x.mean(axis), train_x.std(axis)

    def tensor(x: np.ndarray) -> Tensor:
        return torch.tensor((x - mean) / scale, dtype=torch.float32)

    test = tensor(test_x[:N_TEST]), torch.tensor(test_y[:N_TEST])
    return Rows(tensor(train_x), torch.tensor(train_y), *test)


def train(x: Tensor, y: Tensor, n_classes: int, seed: int) -> socratic.Circuit:
    """A circuit of one structure, trained by cross-entropy in as many steps however many rows there are."""
    circuit = socratic.rat_spn(x.shape[1], n_classes, n_sums=10, n_leaves=10, depth=3, n_repetitions=5, seed=seed)
    optimiser = torch.optim.Adam(circuit.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=LEARNING_RATE, total_steps=N_STEPS)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(N_STEPS):
        batch = torch.randperm(len(x), generator=generator)[:BATCH_SIZE]
        loss = torch.nn.functional.cross_entropy(circuit.log_likelihood(x[batch]), y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return circuit


def doubt(rows: Rows, n_rows: int, seed: int) -> Doubt:
    """Train on the first rows, count how often they use each sum, and ask about the test rows."""
    x, y = rows.train_x[:n_rows], rows.train_y[:n_rows]
    circuit = train(x, y, int(rows.train_y.max()) + 1, seed)
    with torch.no_grad():
        posterior = socratic.class_posterior(
            circuit, rows.test_x, socratic.weight_posterior(circuit, x, y), method="log-moments"
        )
    accuracy = (posterior.mean.argmax(1) == rows.test_y).double().mean()
    return Doubt(n_rows, float(posterior.mutual_information.mean()), float(accuracy))


def measure(draws: Iterable[Rows], sizes: Iterable[int]) -> list[Doubt]:
    """The doubt for each size, averaged over several draws of the rows, which are also the seeds of the circuits."""
    drawn = list(draws)
    return [
        Doubt(n_rows, *np.mean([doubt(rows, n_rows, seed)[1:] for seed, rows in enumerate(drawn)], axis=0).tolist())
        for n_rows in sizes
    ]


def tables(n_draws: int = 5) -> dict[str, list[Doubt]]:
    """Two tables of scikit-learn."""
    digits = (table(load_digits, 1024, seed, pixels=True) for seed in range(n_draws))
    cells = (table(load_breast_cancer, 256, seed) for seed in range(n_draws))
    return {
        "digits": measure(digits, (64, 128, 256, 512, 1024)),
        "breast cancer": measure(cells, (32, 64, 128, 256)),
    }


def draw(found: Mapping[str, list[Doubt]], path: Path) -> None:
    """Plot the mean mutual information over the number of training rows."""
    from socratic.pages import INK, MARKERS, PALETTE, clean, new_figure, save_figure

    figure = new_figure(3.2, width=5.2)
    axis = figure.subplots()
    for (name, doubts), colour, marker in zip(found.items(), PALETTE, MARKERS, strict=False):
        information = [doubt.mutual_information for doubt in doubts]
        axis.plot([doubt.n_rows for doubt in doubts], information, marker=marker, color=colour, label=name)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set(xlabel="training rows", ylabel="mutual information of test rows (nats)")
    axis.legend(frameon=False, fontsize=8, labelcolor=INK)
    clean(axis)
    save_figure(figure, path.parent, path.stem, ["svg"])


def main() -> None:
    """Measure, print, and draw if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of image sets, for MNIST")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="figure to write, with the ending .svg")
    given = parser.parse_args()
    found = tables()
    if given.data is not None:
        sizes = [2**power for power in range(10, 16)]
        found["MNIST"] = measure((mnist(given.data, sizes[-1], seed) for seed in range(2)), sizes)
    print(f"{'table':<15}{'rows':>7}{'mutual information':>20}{'accuracy':>10}")
    for name, doubts in found.items():
        for n_rows, information, accuracy in doubts:
            print(f"{name:<15}{n_rows:>7}{information:>20.4f}{accuracy:>10.1%}")
    if given.draw is not None:
        draw(found, given.draw)


if __name__ == "__main__":
    main()
