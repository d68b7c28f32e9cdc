"""What a circuit does not know: train on scikit-learn's digits, then ask about rotated digits and noise.

Run with ``python examples/digits.py``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

import socratic

SIDE = 8
DROPOUT = 0.2


@dataclass(frozen=True)
class Digits:
    """Standardised images (N, 64) and labels (N,), with the mean and scale of the training pixels."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    mean: float
    scale: float

    def standardise(self, images: np.ndarray) -> Tensor:
        """Pixels from 0 to 16 as the circuit expects them."""
        flat = images.reshape(len(images), -1)
        return torch.tensor((flat - self.mean) / self.scale, dtype=torch.float32)

    def images(self) -> np.ndarray:
        """The test images as pixels from 0 to 16: (N, 8, 8)."""
        return (self.test_x.numpy() * self.scale + self.mean).reshape(-1, SIDE, SIDE)


def load(seed: int = 0) -> Digits:
    """Scikit-learn's 1,797 digits, a third of them for testing."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=1 / 3, stratify=labels, random_state=seed
    )
    mean, scale = float(train_x.mean()), float(train_x.std())

    def tensor(x: np.ndarray) -> Tensor:
        return torch.tensor((x - mean) / scale, dtype=torch.float32)

    return Digits(tensor(train_x), torch.tensor(train_y), tensor(test_x), torch.tensor(test_y), mean, scale)


def train(digits: Digits, *, n_epochs: int = 40, batch_size: int = 100, seed: int = 0) -> socratic.Circuit:
    """Train a small RAT-SPN by cross-entropy with dropout on its sums."""
    circuit = socratic.rat_spn(SIDE * SIDE, 10, n_sums=10, n_leaves=10, depth=3, n_repetitions=5, seed=seed)
    optimiser = torch.optim.Adam(circuit.parameters(), lr=0.03)
    steps = n_epochs * -(-len(digits.train_x) // batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.03, total_steps=steps)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_epochs):
        for batch in torch.randperm(len(digits.train_x), generator=generator).split(batch_size):
            log_likelihood = socratic.training_log_likelihood(
                circuit, digits.train_x[batch], dropout=DROPOUT, generator=generator
            )
            loss = torch.nn.functional.cross_entropy(log_likelihood, digits.train_y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return circuit


def rotated(digits: Digits, angle: float) -> Tensor:
    """The test images, turned by ``angle`` degrees."""
    turned = rotate(digits.images(), angle, axes=(1, 2), reshape=False, order=1)
    return digits.standardise(turned)


def noise(digits: Digits, seed: int = 0) -> Tensor:
    """As many images of uniform noise."""
    pixels = np.random.default_rng(seed).uniform(0, 16, size=(len(digits.test_x), SIDE, SIDE))
    return digits.standardise(pixels)


@torch.no_grad()
def report(digits: Digits, circuit: socratic.Circuit) -> None:
    """Print accuracy and uncertainty of familiar and unfamiliar images."""
    sets = {
        "test digits": digits.test_x,
        "turned by 30 degrees": rotated(digits, 30),
        "turned by 90 degrees": rotated(digits, 90),
        "uniform noise": noise(digits),
    }
    print(f"{'images':<22}{'accuracy':>9}{'entropy':>9}{'std':>7}{'log p(x)':>10}")
    for name, x in sets.items():
        moments = socratic.tdi(circuit, x, dropout=DROPOUT)
        posterior = moments.posterior()
        answer = posterior.mean.argmax(1)
        right = "-" if name == "uniform noise" else f"{float((answer == digits.test_y).float().mean()):.1%}"
        spread = posterior.std.gather(1, answer.unsqueeze(1)).mean()
        density = torch.logsumexp(circuit.log_likelihood(x), 1).mean() - np.log(circuit.n_classes)
        print(f"{name:<22}{right:>9}{posterior.entropy.mean():>9.3f}{spread:>7.3f}{density:>10.1f}")
    exact = socratic.tdi(circuit, digits.test_x, dropout=DROPOUT).posterior()
    start = time.perf_counter()
    sampled = socratic.monte_carlo_dropout(circuit, digits.test_x, dropout=DROPOUT, masks="edge", n_passes=100)
    seconds = time.perf_counter() - start
    gap = 0.5 * (exact.mean - sampled.mean).abs().sum(1).mean()
    print(f"\n100 Monte Carlo passes took {seconds:.1f} s and moved the mean posterior by {gap:.3f} on average.")


def main() -> None:
    """Train and report."""
    digits = load()
    start = time.perf_counter()
    circuit = train(digits)
    print(f"Trained {circuit.n_parameters:,} parameters in {time.perf_counter() - start:.0f} s.\n")
    report(digits, circuit)


if __name__ == "__main__":
    main()
