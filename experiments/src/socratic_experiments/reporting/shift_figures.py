"""Figures of changed images, of estimates of dropout, and of the dropout rate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from socratic.pages import MARKERS, PALETTE, new_figure
from socratic_experiments.reporting.drawing import (
    MAIN,
    Drawing,
    Group,
    chosen,
    draw_curve,
    finish,
    groups_of,
    having,
    heading,
    numbers_in,
    panels,
    slug,
    twin,
)
from socratic_experiments.reporting.summaries import (
    Record,
    Series,
    curve,
    distinct,
    is_number,
    of,
    over_seeds,
    select,
    series_of,
    set_title,
)

_PAPERS_FOUR = ("brightness", "elastic_transform", "frost", "gaussian_noise")
_ENTROPY = "mean entropy (nats)"
_QUANTITIES = (("error_mean", "mean posterior"), ("error_entropy", "entropy"), ("error_std", "standard deviation"))


def rotation_drawings(records: Sequence[Record], train: str) -> list[Drawing]:
    """Entropy, accuracy and standard deviation over degrees."""
    found = select(records, experiment="rotation", train=train)
    return [
        Drawing(
            f"rotation-{slug(train)}-{group.slug}",
            f"Rotation: {set_title(train)}, {group.title}",
            "Test images turned more and more. Above: mean entropy (solid, left scale) and accuracy (dashed, right "
            "scale). Below: mean standard deviation, over dropout masks, of the predicted class's probability.",
            partial(_rotation, found, group),
            group.title in MAIN,
        )
        for group in groups_of(found)
        if having(group, found, "entropy")
    ]


def _rotation(found: Sequence[Record], group: Group) -> Any:
    figure = new_figure(4.6, 5.6)
    spread = any(numbers_in(of(found, one), "std") for one in group.series)
    top, *rest = figure.subplots(2 if spread else 1, 1, sharex=True, squeeze=False, height_ratios=[3, 2][: 1 + spread])[
        :, 0
    ]
    other = _entropy_and_accuracy(top, found, group, chosen(having(group, found, "entropy")))
    top.set(ylabel=_ENTROPY, ylim=(0, None))
    for axis in rest:
        for one in having(group, found, "std"):
            line = curve(of(found, one), "level", "std")
            draw_curve(axis, line, group.colour(one), group.label(one), marker=group.marker(one))
        axis.set(ylabel="mean standard deviation", ylim=(0, None))
    (rest[-1] if rest else top).set(xlabel="degrees", xticks=range(0, 91, 15))
    return finish(figure, [top, *rest], [other])


def _entropy_and_accuracy(axis: Any, found: Sequence[Record], group: Group, series: Sequence[Series]) -> Any:
    """Draw both into a panel, and return the axis on the right."""
    other = twin(axis, "accuracy")
    for one in series:
        here, colour, label = of(found, one), group.colour(one), group.label(one)
        draw_curve(axis, curve(here, "level", "entropy"), colour, label, marker=group.marker(one))
        draw_curve(other, curve(here, "level", "accuracy"), colour, label, linestyle="--")
    return other


def corruption_drawings(records: Sequence[Record], train: str) -> list[Drawing]:
    """Entropy and accuracy over severity: all corruptions, and larger the four that the paper shows."""
    found = select(records, experiment="corruption", train=train)
    drawings = []
    for group in groups_of(found):
        names = distinct([record for one in group.series for record in of(found, one)], "shift")
        four = [name for name in _PAPERS_FOUR if name in names]
        main = group.title in MAIN
        for shown, kind, title in ((four, "corruption-four", "Four corruptions"), (names, "corruption", "Corruptions")):
            if shown and having(group, found, "entropy"):
                drawings.append(
                    Drawing(
                        f"{kind}-{slug(train)}-{group.slug}",
                        f"{title}: {set_title(train)}, {group.title}",
                        "Mean entropy (solid, left scale) and accuracy (dashed, right scale) over the severity.",
                        partial(_corruption, found, group, shown),
                        main,
                    )
                )
    return drawings


def _corruption(found: Sequence[Record], group: Group, names: Sequence[str]) -> Any:
    series = chosen(having(group, found, "entropy"))
    few = len(names) <= len(_PAPERS_FOUR)
    columns, size = (2, (3.4, 2.2)) if few else (5, (1.75, 1.6))
    figure, axes = panels(len(names), columns, *size, ("severity", _ENTROPY), sharex=True, sharey=True)
    twins = []
    for place, (axis, name) in enumerate(zip(axes, names, strict=True)):
        twins.append(_entropy_and_accuracy(axis, select(found, shift=name), group, series))
        heading(axis, name.replace("_", " "))
        if place % columns < columns - 1 and place < len(names) - 1:
            twins[-1].set_ylabel("")
            twins[-1].tick_params(labelright=False)
        axis.set_xticks(sorted({record["level"] for record in found}))
    axes[0].set_ylim(0, None)  # of all: they share it
    return finish(figure, axes, twins)


def closeness_drawings(records: Sequence[Record], train: str) -> list[Drawing]:
    """Errors of estimates of dropout against the number of passes."""
    found = select(records, experiment="closeness", train=train)
    return [
        Drawing(
            f"closeness-{slug(train)}-{slug(model)}",
            f"Close to dropout: {set_title(train)}, {model}",
            "Error against Monte Carlo dropout with very many passes. Grey: Monte Carlo over its number of passes. "
            "Dashed: estimates by one pass; each marker stands where Monte Carlo is as close.",
            partial(_closeness, select(found, model=model)),
            True,
        )
        for model in distinct(found, "model")
    ]


def _closeness(found: Sequence[Record]) -> Any:
    masks = distinct(found, "masks")
    figure, axes = panels(3 * len(masks), 3, 2.7, 2.1, ("passes of Monte Carlo dropout", "error"), sharex=True)
    singles = [one for one in series_of(found) if not numbers_in(of(found, one), "n_passes")]
    for place, axis in enumerate(axes):
        (field, what), kind = _QUANTITIES[place % 3], masks[place // 3]
        here = select(found, masks=kind)
        ladder = curve([record for record in here if is_number(record.get("n_passes"))], "n_passes", field)
        draw_curve(axis, ladder, PALETTE[4], "Monte Carlo dropout", marker=".")
        for index, one in enumerate(singles):
            error = over_seeds(of(here, one), field)
            if error is None or error.mean <= 0:
                continue
            colour, marker = PALETTE[index % 4], MARKERS[index % len(MARKERS)]
            axis.axhline(error.mean, color=colour, linestyle="--")
            equal = over_seeds(of(here, one), field.replace("error", "equivalent"))
            at = [equal.mean] if equal is not None and equal.mean > 0 else []
            axis.plot(at, [error.mean] * len(at), color=colour, marker=marker, linestyle="--", label=one[1])
        axis.set(xscale="log", yscale="log")
        _plain_ticks(axis)
        heading(axis, f"{what}, {kind} masks")
    return finish(figure, axes)


def _plain_ticks(axis: Any) -> None:
    """Plain numbers at 1, 2 and 5 of each decade: an error often stays within one."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def sweep_drawings(records: Sequence[Record], train: str) -> list[Drawing]:
    """AUROC over the dropout rate."""
    found = select(records, experiment="sweep", train=train, role="unknown")
    return [
        Drawing(
            f"sweep-{slug(train)}-{group.slug}",
            f"Dropout rate: {set_title(train)}, {group.title}",
            "AUROC of known against unknown images over the dropout rate. 0.5 is chance.",
            partial(_sweep, found, group),
            group.title in MAIN,
        )
        for group in groups_of(found)
        if having(group, found, "auroc")
    ]


def _sweep(found: Sequence[Record], group: Group) -> Any:
    sets = distinct(found, "set")
    figure, axes = panels(len(sets), 3, 2.9, 2.4, ("dropout rate", "AUROC"), sharex=True, sharey=True)
    for axis, name in zip(axes, sets, strict=True):
        for one in having(group, found, "auroc"):
            line = curve(select(of(found, one), set=name), "dropout", "auroc")
            draw_curve(axis, line, group.colour(one), group.label(one), marker=group.marker(one))
        heading(axis, set_title(name))
    return finish(figure, axes)
