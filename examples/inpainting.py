"""Half the pixels are missing: a circuit of scikit-learn's digits fills them in.

Run ``python examples/inpainting.py [FIGURE]`` to draw the result as well.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

import socratic
from socratic.learning import Rows, TrainingSettings, fit_gradient, initialise_leaves

SIDE = 8


@dataclass(frozen=True)
class Digits:
    """Images (N, 64) with pixels from 0 to 1, and their labels (N,)."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


def load(seed: int = 0) -> Digits:
    """Scikit-learn's 1,797 digits, a sixth of them for testing."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    pixels = torch.tensor(images[order] / 16, dtype=torch.float32)
    answers = torch.tensor(labels[order])
    return Digits(pixels[300:], answers[300:], pixels[:300], answers[:300])


def train(digits: Digits, *, n_epochs: int = 20, seed: int = 0) -> socratic.Circuit:
    """A density of the images of each digit, by likelihood alone."""
    leaf = socratic.families.Gaussian(min_variance=0.003, max_variance=0.3)
    circuit = socratic.rat_spn(SIDE * SIDE, 10, n_sums=16, n_leaves=16, depth=2, n_repetitions=10, leaf=leaf, seed=seed)
    initialise_leaves(circuit, digits.train_x, seed)
    rows = Rows(digits.train_x, digits.train_y, torch.ones(len(digits.train_x)))
    settings = TrainingSettings(
        n_epochs=n_epochs, batch_size=100, learning_rate=0.05, cross_entropy_weight=0.0, seed=seed
    )
    fit_gradient(circuit, rows, settings, torch.full((10,), 0.1).log())
    return circuit


def remove(images: Tensor, half: str, seed: int = 0) -> Tensor:
    """The same images with half of their pixels missing (NaN): "left", "lower", or any ("random")."""
    missing = torch.zeros(len(images), SIDE, SIDE, dtype=torch.bool)
    if half == "random":
        order = torch.rand(len(images), SIDE * SIDE, generator=torch.Generator().manual_seed(seed)).argsort(1)
        missing = (order < SIDE * SIDE // 2).view_as(missing)
    elif half == "left":
        missing[:, :, : SIDE // 2] = True
    else:
        missing[:, SIDE // 2 :] = True
    return images.masked_fill(missing.flatten(1), torch.nan)


def completions(circuit: socratic.Circuit, holes: Tensor) -> dict[str, Tensor]:
    """The missing pixels by their expectation, by two draws, and by the most probable image."""
    drawn = socratic.conditional_sample(circuit, holes, 2, seed=0).x
    return {
        "mean": socratic.expectation(circuit, holes).mean,
        "sample": drawn[:, 0],
        "another": drawn[:, 1],
        "mpe": socratic.mpe(circuit, holes).x,
    }


def report(digits: Digits, circuit: socratic.Circuit) -> None:
    """Print the error of the missing pixels, beside that of each pixel's mean over the training images."""
    average = digits.train_x.mean(0)
    print(f"{'missing half':<14}{'average digit':>14}{'mean':>8}{'sample':>8}{'mpe':>8}   (root mean squared error)")
    for half in ("left", "lower", "random"):
        holes = remove(digits.test_x, half)
        missing = holes.isnan()
        filled = {"average": average.expand_as(holes), **completions(circuit, holes)}
        error = {name: float((x - digits.test_x)[missing].square().mean().sqrt()) for name, x in filled.items()}
        print(f"{half:<14}{error['average']:>14.3f}{error['mean']:>8.3f}{error['sample']:>8.3f}{error['mpe']:>8.3f}")


def draw(digits: Digits, circuit: socratic.Circuit, path: Path) -> None:
    """One column for each digit: an image, what is left of it, and how it is completed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    images = torch.stack([digits.test_x[digits.test_y == digit][0] for digit in range(10)])
    halves = zip(images.split([3, 4, 3]), ("left", "lower", "random"), strict=True)
    holes = torch.cat([remove(part, half) for part, half in halves])
    rows = {"image": images, "given": holes, **completions(circuit, holes)}
    figure, axes = plt.subplots(len(rows), len(images), figsize=(6, 3.6), layout="constrained")
    colours = plt.get_cmap("gray_r").with_extremes(bad="#f2d7b0")
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        for axis, picture in zip(line, pictures, strict=True):
            axis.imshow(picture.view(SIDE, SIDE).numpy(), cmap=colours, vmin=0.0, vmax=1.0)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Train, report, and draw if a file is named."""
    digits = load()
    start = time.perf_counter()
    circuit = train(digits)
    print(f"Trained {circuit.n_parameters:,} parameters in {time.perf_counter() - start:.0f} s.\n")
    report(digits, circuit)
    if len(sys.argv) > 1:
        draw(digits, circuit, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
