"""The default detector on real images: ``python -m benchmarks.detector --data FOLDER`` prints a table of AUROCs.

FOLDER holds MNIST/raw and notMNIST/raw (IDX), SVHN/*_32x32.mat, and CIFAR10/test and scenes/test (folders of images).
Circuits of the paper's size are trained by cross-entropy with dropout; pixels are standardised with the mean and
deviation of each channel of the training images. Everything is measured on one set of weights: entropy and
log-likelihood alone, Fisher's method (equal weights), and the combined detector. Some minutes on a GPU, hours on a CPU.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import socratic
from benchmarks.run import PAPER_SIZE
from socratic.data import find_idx, load_idx_dataset, load_svhn
from socratic.learning import Rows, TrainingSettings, fit_gradient, initialise_leaves
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.detector import SCORES, Scores, fit_detector
from socratic.uncertainty.metrics import auroc
from socratic.uncertainty.synthetic import synthetic_shifts

N_HELD_OUT = 6000
REJECTION_RATE = 0.05
GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)
SETTINGS: dict[str, dict[str, Any]] = {
    "MNIST": {"n_epochs": 35, "batch_size": 300, "dropout": 0.2, "leaf_dropout": 0.2},
    "SVHN": {"n_epochs": 45, "batch_size": 400, "dropout": 0.1, "leaf_dropout": 0.1},
}


@dataclass(frozen=True, eq=False)
class Problem:
    """Images as rows (N, V) of bytes: to train on, to test on, and from elsewhere."""

    name: str
    n_channels: int
    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    unknown: dict[str, np.ndarray]


def image_folder(folder: Path) -> np.ndarray:
    """Images (N, 3, 32, 32) under ``folder``."""
    from PIL import Image

    paths = sorted(folder.rglob("*.png"))
    images = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    return images.transpose(0, 3, 1, 2).astype(np.float32)


def mnist(folder: Path) -> Problem:
    """MNIST against notMNIST and the grey middle of CIFAR-10 images."""
    train, test, letters = (
        load_idx_dataset(*find_idx(folder / name / "raw", split))
        for name, split in (("MNIST", "train"), ("MNIST", "test"), ("notMNIST", "test"))
    )
    photos = np.tensordot(image_folder(folder / "CIFAR10" / "test"), GREY, axes=(1, 0))[:, 2:-2, 2:-2]
    unknown = {"notMNIST": letters.flat(), "CIFAR-10 grey": photos.reshape(len(photos), -1)}
    return Problem("MNIST", 1, train.flat(), train.labels, test.flat(), test.labels, unknown)


def svhn(folder: Path) -> Problem:
    """SVHN against CIFAR-10 and natural scenes."""
    train, test = (load_svhn(folder / "SVHN" / f"{split}_32x32.mat") for split in ("train", "test"))
    photos = {name: image_folder(folder / path / "test") for name, path in (("CIFAR-10", "CIFAR10"), ("scenes",) * 2)}
    unknown = {name: images.reshape(len(images), -1) for name, images in photos.items()}
    return Problem("SVHN", 3, train.flat(), train.labels, test.flat(), test.labels, unknown)


@torch.no_grad()
def scores_of(circuit: socratic.Circuit, x: np.ndarray, prior: torch.Tensor, dropout: float, masks: str) -> Scores:
    """Negative log p(x), and the entropy of the mean posterior under dropout."""
    rows = torch.as_tensor(x, device=circuit.device)
    joint = socratic.log_likelihood(circuit, rows) + torch.log(prior)
    moments = socratic.tdi(circuit, rows, dropout=dropout, masks=masks)  # type: ignore[arg-type]
    found = {"log_likelihood": -torch.logsumexp(joint, 1), "entropy": moments.posterior(prior).entropy}
    return {name: found[name].double().cpu().numpy() for name in SCORES}


def measure(problem: Problem, device: torch.device, seed: int, masks: str, random_leaves: bool) -> list[str]:
    """Train one circuit and return the rows of the table."""
    settings = TrainingSettings(**SETTINGS[problem.name], learning_rate=0.01, seed=seed)
    order = np.random.default_rng(seed).permutation(len(problem.train))
    held_out, rest = order[:N_HELD_OUT], order[N_HELD_OUT:]
    channels = problem.train[rest].reshape(len(rest), problem.n_channels, -1)
    size = channels.shape[2]
    mean, scale = channels.mean((0, 2)).repeat(size), channels.std((0, 2)).repeat(size)

    def standardise(x: np.ndarray) -> np.ndarray:
        return ((x - mean) / scale).astype(np.float32)

    labels = problem.labels[rest]
    rows = Rows(torch.as_tensor(standardise(problem.train[rest])), torch.as_tensor(labels), torch.ones(len(rest)))
    circuit = socratic.rat_spn(problem.train.shape[1], **PAPER_SIZE, seed=seed).to(device)
    if not random_leaves:
        initialise_leaves(circuit, rows.x, seed)
    prior = torch.as_tensor(np.bincount(labels) / len(labels), dtype=torch.float32, device=device)
    start = time.perf_counter()
    fit_gradient(circuit, rows.to(device), settings, torch.log(prior))
    seconds = time.perf_counter() - start

    def scores(x: np.ndarray) -> Scores:
        return scores_of(circuit, x, prior, settings.dropout, masks)

    test_x = standardise(problem.test)
    with torch.no_grad():
        joint = socratic.log_likelihood(circuit, torch.as_tensor(test_x, device=device)) + torch.log(prior)
    accuracy = float((joint.argmax(1).cpu().numpy() == problem.test_labels).mean())
    held = standardise(problem.train[held_out])
    third = len(held) // 3
    shifts = synthetic_shifts(held[:third], np.ones(held.shape[1], dtype=bool), np.random.default_rng(seed))
    reference = scores(held[:third])
    detector = fit_detector(
        "combined",
        reference,
        [scores(x) for x in shifts],
        scores(held[third:]),
        np.ones(third),
        np.ones(len(held) - third),
    )
    fisher = [Conformal.fit(reference[name]) for name in SCORES]
    test = scores(test_x)
    rejected = float((detector.p_value(test) <= REJECTION_RATE).mean())
    start_of_row = f"| {problem.name}, {accuracy:.1%} in {seconds:.0f} s, weight of log-likelihood "
    start_of_row += f"{detector.weights['log_likelihood']:.2f}, {rejected:.1%} rejected"
    lines = []
    for name, x in problem.unknown.items():
        unknown = scores(standardise(x))
        areas = [auroc(test[score], unknown[score]) for score in reversed(SCORES)]
        both = [
            sum(-np.log(known.p_value(part[score])) for known, score in zip(fisher, SCORES, strict=True))
            for part in (test, unknown)
        ]
        areas += [auroc(both[0], both[1]), auroc(detector.score(test), detector.score(unknown))]
        lines.append(f"{start_of_row} | {name} | " + " | ".join(f"{area:.3f}" for area in areas) + " |")
    return lines


def main() -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--only", choices=["MNIST", "SVHN"], help="train on this set alone")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--masks", choices=["edge", "unit"], default="edge", help="what the posterior drops")
    parser.add_argument("--random-leaves", action="store_true", help="start leaves at random, not from data")
    arguments = parser.parse_args()
    leaves = "random leaves" if arguments.random_leaves else "leaves from data"
    print(f"Circuits: {PAPER_SIZE}, {leaves}; training: {SETTINGS}, Adam, learning rate 0.01, seed {arguments.seed}")
    print(
        f"{arguments.masks} masks; test accuracy, training time; share of test rows rejected at {REJECTION_RATE:.0%}\n"
    )
    print("| trained on | unknown | entropy | log-likelihood | Fisher | combined |\n" + "| --- " * 6 + "|", flush=True)
    for name, load in (("MNIST", mnist), ("SVHN", svhn)):
        if arguments.only in (None, name):
            device = torch.device(arguments.device)
            problem = load(arguments.data)
            lines = measure(problem, device, arguments.seed, arguments.masks, arguments.random_leaves)
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
