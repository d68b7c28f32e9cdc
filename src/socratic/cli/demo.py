"""The demo: train on scikit-learn's digits, then ask about turned, noisy and blurred digits and about photographs.

Everything is compared on the same trained circuit: only the question asked of it differs.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import entr

from socratic.cli.console import on_terminal
from socratic.cli.console import output as result_console
from socratic.cli.failures import UserError
from socratic.cli.report import BRIGHTEST, Card, Row, Shift, demo_page
from socratic.errors import import_extra
from socratic.estimators.building import threads
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.image_classifier import CircuitImageClassifier
from socratic.inference.moments import tdi
from socratic.inference.monte_carlo import monte_carlo_dropout
from socratic.inference.posterior import Posterior
from socratic.pages import write_page
from socratic.tables.inputs import encode_rows
from socratic.uncertainty.metrics import auroc

SIDE = 8
N_PATCHES, N_PASSES, N_CARDS = 600, 100, 12
ANGLES = tuple(range(0, 91, 10))
NOISE = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
"""Standard deviations of the noise, of pixels from 0 to 16; the first level is the test digits themselves."""
BLUR = (0.0, 0.4, 0.6, 0.8, 1.0, 1.3)
"""Standard deviations of the blur, in pixels."""
N_ROWS_OF_A_LEVEL = 200
"""Digits turned, blurred or made noisy at each level: enough for a curve, and Monte Carlo dropout is slow."""
REPORT_NAME, MODEL_NAME = "demo-report.html", "digits.model"
DENSITY, DETECTOR = "log p(x)", "combined detector"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of pixels from 0 to 16 (N, 64) and their digits (N,)."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    patches: np.ndarray


@dataclass(frozen=True, eq=False)
class Method:
    """A way of asking a circuit for the classes of rows and for their unusualness.

    Attributes
    ----------
    name : str
    ask : callable
        From rows (N, V) to class probabilities (N, C), or None if it gives none, and scores (N,), higher for more
        unusual rows: the entropy if there are probabilities.
    """

    name: str
    ask: Callable[[np.ndarray], tuple[np.ndarray | None, np.ndarray]]


def run_demo(output: Path, seed: int = 0) -> None:
    """Train, compare, print one table, write a report, and leave a model for the playground beside it.

    Parameters
    ----------
    output : Path
        The report, a web page in one file: a name with the ending .html, or a folder for it, which is made if need be.
    seed : int
        Seed of the split, the training, the patches and the noise.
    """
    import rich

    path = report_path(Path(output))
    start = time.perf_counter()
    console = result_console()
    data = load_data(seed)
    console.print(
        f"Known: {len(data.train_x):,} of scikit-learn's digits to learn from, {len(data.test_x):,} to test on. "
        f"Unknown: {len(data.patches):,} patches of two photographs."
    )
    rich.reconfigure(stderr=True)  # the classifier's bar is not output
    with threads(1):  # the circuit is small: more threads gain little, and lose much on a busy machine
        # A trained circuit, deep enough for dropout to matter: what tables get by default has no inner sums.
        model = CircuitClassifier(
            structure="spatial", image_shape=(SIDE, SIDE), random_state=seed, verbose=on_terminal()
        ).fit(data.train_x, data.train_y)
        methods = methods_of(model, seed)
        with _progress(len(methods) + len(ANGLES) + len(NOISE) + len(BLUR)) as advance:
            rows = list(compare(model, methods, data, seed, advance))
            shifts = [follow(model, methods, data, *levels, advance) for levels in shift_levels(data, seed)]
        words = in_words(model, data)
        examples = p_values(model, data, shifts), model.rejection_rate, gallery(model, data)
        model_path = path.with_name(MODEL_NAME)
        model_of_images(data, seed).save(model_path)
    console.print(table_of(rows))
    for line in words:
        console.print(line)
    write_page(path, demo_page(rows, shifts, *examples, words, seed))
    console.print(f"Took {time.perf_counter() - start:.0f} s. The report with figures: {path}", soft_wrap=True)
    console.print(
        f"To draw digits yourself: {_program()} serve {shlex.quote(str(model_path))}, and open http://127.0.0.1:8000",
        soft_wrap=True,
    )


def report_path(output: Path) -> Path:
    """The file to write, in a folder that is there; an error before anything is computed if there cannot be one."""
    import_extra("matplotlib", "plots", "the demo")
    import_extra("PIL", "plots", "the demo")  # for scikit-learn's photographs
    path = output if output.suffix.lower() in (".html", ".htm") else output / REPORT_NAME
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file for the report")
    if path.parent.exists() and not path.parent.is_dir():
        raise UserError(f"{path.parent} is a file; name a folder, or a file with the ending .html")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def load_data(seed: int) -> Data:
    """Scikit-learn's digits, two thirds for training, and random grey patches of its photographs as the unknown."""
    from sklearn.datasets import load_digits, load_sample_image
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=1 / 3, stratify=labels, random_state=seed
    )
    rng = np.random.default_rng(seed)
    patches = []
    for name in ("china.jpg", "flower.jpg"):
        grey = load_sample_image(name) @ np.array([0.299, 0.587, 0.114]) * (BRIGHTEST / 255.0)
        tops, lefts = (rng.integers(0, size - SIDE + 1, N_PATCHES // 2) for size in grey.shape)
        patches += [grey[top : top + SIDE, left : left + SIDE].ravel() for top, left in zip(tops, lefts, strict=True)]
    return Data(train_x, train_y, test_x, test_y, np.stack(patches))


def model_of_images(data: Data, seed: int) -> CircuitImageClassifier:
    """A model of the same digits as images, which the playground can show."""
    pixels = (data.train_x.reshape(-1, SIDE, SIDE) * (255.0 / BRIGHTEST)).round().astype(np.uint8)
    model = CircuitImageClassifier(n_epochs=20, random_state=seed, verbose=on_terminal())
    return model.fit(pixels, data.train_y)


def turned(x: np.ndarray, angle: float) -> np.ndarray:
    """Images turned by ``angle`` degrees."""
    from scipy.ndimage import rotate

    images = rotate(x.reshape(-1, SIDE, SIDE), angle, axes=(1, 2), reshape=False, order=1)
    return np.asarray(images).reshape(len(x), -1)


def noisy(x: np.ndarray, deviation: float, seed: int) -> np.ndarray:
    """Images with normal noise added, cut off at black and white."""
    noise = np.random.default_rng(seed).normal(0.0, 1.0, x.shape)
    return (x + deviation * noise).clip(0.0, BRIGHTEST)


def blurred(x: np.ndarray, deviation: float) -> np.ndarray:
    """Images blurred by a Gaussian filter."""
    from scipy.ndimage import gaussian_filter

    images = gaussian_filter(x.reshape(-1, SIDE, SIDE), (0.0, deviation, deviation), mode="constant")
    return np.asarray(images).reshape(len(x), -1)


def shift_levels(data: Data, seed: int) -> list[tuple[str, str, list[str], list[np.ndarray]]]:
    """Name, axis label, levels and images of each shift, of the same test digits at every level."""
    x = data.test_x[:N_ROWS_OF_A_LEVEL]
    return [
        ("Rotation", "angle (degrees)", [str(angle) for angle in ANGLES], [turned(x, angle) for angle in ANGLES]),
        ("Noise", "level", [str(level) for level in range(6)], [noisy(x, sigma, seed) for sigma in NOISE]),
        ("Blur", "level", [str(level) for level in range(6)], [blurred(x, sigma) for sigma in BLUR]),
    ]


def methods_of(model: CircuitClassifier, seed: int) -> list[Method]:
    """Everything that is compared, on the circuit of ``model`` and with its dropout rate and class prior."""
    circuit, dropout, prior = model.circuit_, model.dropout_, model.class_prior_.tolist()

    def plain(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probabilities = model.predict_proba(x)
        return probabilities, entr(probabilities).sum(1)

    def expanded(**options: Any) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        return lambda x: _arrays(tdi(circuit, encode_rows(model, x), dropout=dropout, **options).posterior(prior))

    def sampled(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = encode_rows(model, x)
        posterior = monte_carlo_dropout(
            circuit, rows, dropout=dropout, masks="unit", n_passes=N_PASSES, class_prior=prior, seed=seed
        )
        return _arrays(posterior)

    return [
        Method("no dropout", plain),
        Method("TDI, independent", expanded(covariance="independent")),
        Method("TDI, exact, edge masks", expanded(masks="edge")),
        Method("TDI, exact, unit masks", expanded(masks="unit")),
        Method(f"Monte Carlo, {N_PASSES} passes", sampled),
        Method(DENSITY, lambda x: (None, -model.score_samples(x))),
        Method(DETECTOR, lambda x: (None, -model.uncertainty(x).p_value)),
    ]


def compare(
    model: CircuitClassifier, methods: list[Method], data: Data, seed: int, advance: Callable[[str], None]
) -> Iterator[Row]:
    """One row of the table for each method."""
    sets = [data.test_x, turned(data.test_x, 45.0), noisy(data.test_x, NOISE[3], seed), data.patches]
    codes = np.searchsorted(model.classes_, data.test_y)
    with torch.no_grad():
        for method in methods:
            advance(method.name)
            method.ask(data.test_x[:50])  # warms up caches and threads
            start = time.perf_counter()
            answers = [method.ask(x) for x in sets]
            seconds = (time.perf_counter() - start) / sum(len(x) for x in sets) * 1000
            probabilities, known = answers[0]
            area = auroc(known, answers[-1][1])
            if probabilities is None:
                yield Row(method.name, area, None, None, seconds)
            else:
                entropies = tuple(float(score.mean()) for _, score in answers)
                accuracy = float((probabilities.argmax(1) == codes).mean())
                yield Row(method.name, area, entropies, accuracy, seconds)


def follow(
    model: CircuitClassifier,
    methods: list[Method],
    data: Data,
    name: str,
    label: str,
    levels: list[str],
    images: list[np.ndarray],
    advance: Callable[[str], None],
) -> Shift:
    """Accuracy, refusals and each method's mean entropy, level by level."""
    labels = data.test_y[: len(images[0])]
    entropies: dict[str, list[float]] = {}
    accuracy, refused, p_value = [], [], []
    with torch.no_grad():
        for x in images:
            advance(name.lower())
            accuracy.append(float((model.predict(x) == labels).mean()))
            p_value.append(model.uncertainty(x).p_value)
            refused.append(float((p_value[-1] <= model.rejection_rate).mean()))
            for method in methods:
                if method.name not in (DENSITY, DETECTOR):
                    entropies.setdefault(method.name, []).append(float(method.ask(x)[1].mean()))
    samples = [x[5].reshape(SIDE, SIDE) for x in images]
    return Shift(name, label, levels, samples, accuracy, refused, entropies, p_value)


def p_values(model: CircuitClassifier, data: Data, shifts: list[Shift]) -> dict[str, np.ndarray]:
    """p-values of known, changed and unknown images."""
    by_name = {shift.name: shift for shift in shifts}
    return {
        "test digits": model.uncertainty(data.test_x).p_value,
        "digits turned by 20 degrees": by_name["Rotation"].p_values[ANGLES.index(20)],
        "digits with noise of level 1": by_name["Noise"].p_values[1],
        "photograph patches": model.uncertainty(data.patches).p_value,
    }


def gallery(model: CircuitClassifier, data: Data) -> dict[str, list[Card]]:
    """Examples that the model answers and refuses, in the order of the data."""

    def cards(x: np.ndarray, labels: np.ndarray | None, refused: bool) -> list[Card]:
        p_value = model.uncertainty(x).p_value
        chosen = np.flatnonzero((p_value <= model.rejection_rate) == refused)[:N_CARDS]
        if not len(chosen):
            return []
        answers = model.predict(x[chosen])
        heats = model.explain(x[chosen]).excess.reshape(-1, SIDE, SIDE) if refused else [None] * len(chosen)
        return [
            Card(
                x[row].reshape(SIDE, SIDE),
                str(answer),
                None if labels is None else str(labels[row]),
                float(p_value[row]),
                heat,
            )
            for row, answer, heat in zip(chosen, answers, heats, strict=True)
        ]

    slanted = turned(data.test_x, 20.0)
    return {
        "Test digits that were answered": cards(data.test_x, data.test_y, refused=False),
        "Test digits that were refused": cards(data.test_x, data.test_y, refused=True),
        "Digits turned by 20 degrees that were answered": cards(slanted, data.test_y, refused=False),
        "Digits turned by 20 degrees that were refused": cards(slanted, data.test_y, refused=True),
        "Photograph patches that were refused": cards(data.patches, None, refused=True),
        "Photograph patches that were answered": cards(data.patches, None, refused=False),
    }


def in_words(model: CircuitClassifier, data: Data) -> list[str]:
    """What the comparison shows, in plain words."""
    right = model.predict(data.test_x) == data.test_y
    refused = model.reject(data.test_x)
    wrong = ~right & refused
    return [
        f"Of {len(right)} new digits the classifier reads {right.mean():.1%} correctly. It refuses "
        f"{refused.mean():.1%} of them ({model.rejection_rate:.0%} were allowed), among them {wrong.sum()} of its "
        f"{(~right).sum()} errors; of those it answers {right[~refused].mean():.1%} are right.",
        f"Of {len(data.patches)} photograph patches, which show no digit at all, it refuses "
        f"{model.reject(data.patches).mean():.1%}.",
    ]


def table_of(rows: list[Row]) -> Any:
    """The comparison as a table for the terminal."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption="AUROC: digits against patches. Entropy in nats. Seconds for 1,000 rows.",
        caption_justify="left",
    )
    for index, heading in enumerate(Row.HEADINGS):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row.cells())
    return table


def _program() -> str:
    """What was called to run this, to be called again."""
    called = Path(sys.argv[0])
    return shlex.quote(str(called)) if called.stem == "socratic" and called.exists() else "socratic"


def _arrays(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    return posterior.mean.double().cpu().numpy(), posterior.entropy.double().cpu().numpy()


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on stderr over the steps of the comparison, gone when they are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not on_terminal()) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)
