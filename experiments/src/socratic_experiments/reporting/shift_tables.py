"""Tables of the experiments on changed images, on estimates of dropout, and on the dropout rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from socratic_experiments.reporting.summaries import (
    NOTHING,
    TDI,
    WITH_DROPOUT,
    Record,
    Series,
    Stat,
    alone,
    curve,
    difference,
    distinct,
    of,
    over_seeds,
    select,
    series_of,
    set_title,
    show,
    spearman,
    stat,
)
from socratic_experiments.reporting.tables import Table

_ANGLES = (0, 15, 30, 45, 60, 90)
_ACCURACY = ("accuracy at 0, %", "at 3, %", "at 5, %")
_ESTIMATED = ("mean", "entropy", "std", "information")
CONSTANTS = {None: "CIFAR-10-C", "imagenet": "ImageNet-C"}
"""Whose constants corruptions have, by the variant of a record."""
FOLLOWS = 0.9
"""From this rank correlation on, entropy is said to follow the severity."""


def rotation_table(records: Sequence[Record], train: str) -> Table:
    """Mean entropy over degrees, whether it rises to 45, and what inference does to accuracy."""
    found = select(records, experiment="rotation", train=train)
    rows = []
    for series in series_of(found):
        one = of(found, series)
        entropies = [show(over_seeds(select(one, level=angle), "entropy"), 2) for angle in _ANGLES]
        largest = largest_accuracy_change(found, series)
        change = NOTHING if largest is None else f"{100 * largest:.2f}"
        refused = [show(over_seeds(select(one, level=angle), "refused"), 1, scale=100) for angle in (45, 90)]
        rises = rises_to(one, 45)
        said = NOTHING if rises is None else "yes" if rises else "no"
        rows.append([*series, *entropies, said, change, *refused, _n_images(one)])
    headings = [f"entropy at {angle}°" for angle in _ANGLES]
    note = (
        "Accuracy change: the largest at any angle, in points, against the model alone; means over seeds. "
        "Refused: rows more unusual than 95 % of the unturned."
    )
    last = ["rises to 45°", "accuracy change", "refused at 45°, %", "refused at 90°, %", "images"]
    title = f"Rotation: {set_title(train)}"
    return Table(title, ["model", "method", *headings, *last], rows, 2, note).trimmed()


def rises_to(records: Sequence[Record], limit: float) -> bool | None:
    """Whether mean entropy never falls up to a level; None without entropies."""
    line = curve(records, "level", "entropy")
    if line is None:
        return None
    return bool((np.diff(line.mean[line.x <= limit]) >= 0).all())


def largest_accuracy_change(found: Sequence[Record], series: Series) -> float | None:
    """The largest change in accuracy at any level, against the model alone; the mean over seeds at each."""
    base = alone(series[0], found)
    if base is None or base == series:
        return None
    changes = [
        difference(select(of(found, series), level=level), select(of(found, base), level=level), "accuracy")
        for level in distinct(found, "level")
    ]
    return max((abs(change.mean) for change in changes if change is not None), default=None)


def severity_correlations(records: Sequence[Record]) -> dict[str, float]:
    """For each corruption Spearman's correlation of severity and mean entropy; NaN where there is none."""
    found = {}
    for name in distinct(records, "shift"):
        line = curve(select(records, shift=name), "level", "entropy")
        found[name] = float("nan") if line is None else spearman(line.x.tolist(), line.mean.tolist())
    return found


def corruption_table(records: Sequence[Record], train: str, variant: str | None = None) -> Table:
    """For each model and method: how many corruptions entropy follows, and accuracy by severity."""
    found = select(records, experiment="corruption", train=train, variant=variant)
    rows = []
    for series in series_of(found):
        one = of(found, series)
        values = severity_correlations(one)
        known = {name: value for name, value in values.items() if np.isfinite(value)}
        count = f"{sum(value >= FOLLOWS for value in known.values())} of {len(values)}" if known else NOTHING
        worst = min(known, key=lambda name: known[name]) if known else None
        accuracy = [show(_mean_over_shifts(select(one, level=level)), 1, scale=100) for level in (0, 3, 5)]
        said = NOTHING if worst is None else f"{worst} {known[worst]:.2f}"
        rows.append([*series, count, said, *accuracy, _n_images(one) if known else NOTHING])
    headings = ["model", "method", f"Spearman ≥ {FOLLOWS}", "lowest", *_ACCURACY, "images"]
    title = f"Corruptions: {set_title(train)}"
    if variant is not None:
        title += f", constants of {CONSTANTS.get(variant, variant)}"
    return Table(title, headings, rows).trimmed()


def _n_images(records: Sequence[Record]) -> str:
    """How many images were asked about at each level."""
    return ", ".join(f"{n:,}" for n in distinct(records, "n")) or NOTHING


def _mean_over_shifts(records: Sequence[Record]) -> Stat | None:
    seeds = distinct(records, "seed")
    means = [over_seeds(select(records, seed=seed), "accuracy") for seed in seeds]
    return stat(None if mean is None else mean.mean for mean in means)


def corruption_details(records: Sequence[Record], train: str) -> Table:
    """Each corruption of one model: how entropy follows the severity by method, and accuracy."""
    found = select(records, experiment="corruption", train=train)
    models = distinct(found, "model")
    model = WITH_DROPOUT if WITH_DROPOUT in models else next(iter(models), "")
    one = select(found, model=model)
    methods = [method for method in distinct(one, "method") if over_seeds(select(one, method=method), "entropy")]
    correlations = {method: severity_correlations(select(one, method=method)) for method in methods}
    shown = TDI if TDI in methods else next(iter(methods), "")
    rows = []
    for name in distinct(one, "shift"):
        here = select(one, shift=name, method=shown)
        accuracy = [show(over_seeds(select(here, level=level), "accuracy"), 1, scale=100) for level in (0, 3, 5)]
        values = [correlations[method].get(name, float("nan")) for method in methods]
        rows.append([name, *(f"{value:.2f}" if np.isfinite(value) else NOTHING for value in values), *accuracy])
    headings = ["corruption", *methods, *_ACCURACY]
    note = f"Spearman's correlation of severity and mean entropy, by method; accuracy by {shown}. Model: {model}."
    return Table(f"Each corruption: {set_title(train)}", headings, rows, 1, note)


def closeness_table(records: Sequence[Record], train: str) -> Table:
    """How far estimates of dropout are from Monte Carlo with very many passes."""
    found = select(records, experiment="closeness", train=train)
    rows = []
    for model in distinct(found, "model"):
        for masks in distinct(found, "masks"):
            here = select(found, model=model, masks=masks)
            for series in series_of(here):
                one = of(here, series)
                errors = [show(over_seeds(one, f"error_{what}"), 4) for what in _ESTIMATED]
                passes = [show(over_seeds(one, f"equivalent_{what}"), 0) for what in _ESTIMATED]
                others = [show(over_seeds(one, what), 3) for what in ("rank_correlation", "auroc")]
                seconds = show(over_seeds(one, "seconds_per_1000"), 2)
                rows.append([model, masks, series[1], *errors, *passes, *others, seconds])
    errors = [f"error of {what}" for what in _ESTIMATED]
    passes = [f"passes, {what}" for what in _ESTIMATED]
    headings = ["model", "masks", "method", *errors, *passes, "rank correlation", "AUROC", "s per 1,000"]
    counts = distinct(found, "reference_passes")
    note = (
        f"Against Monte Carlo dropout with {' or '.join(f'{count:,}' for count in counts) or 'many'} passes. Error of "
        "the mean: half the sum of absolute differences of the class probabilities; information: the mutual one. "
        "Passes: Monte Carlo with so many comes as close. Rank correlation, AUROC: of the entropy."
    )
    return Table(f"Closeness: {set_title(train)}", headings, rows, 3, note).trimmed()


def sweep_table(records: Sequence[Record], train: str) -> Table:
    """AUROC over the dropout rate."""
    found = select(records, experiment="sweep", train=train, role="unknown")
    rates = sorted(distinct(found, "dropout"))
    rows = []
    for name in distinct(found, "set"):
        here = select(found, set=name)
        for series in series_of(here):
            areas = [show(over_seeds(select(of(here, series), dropout=rate), "auroc")) for rate in rates]
            rows.append([set_title(name), *series, *areas])
    headings = ["unknown set", "model", "method", *(f"p = {rate:g}" for rate in rates)]
    return Table(f"AUROC by dropout rate: {set_title(train)}", headings, rows, 3)
