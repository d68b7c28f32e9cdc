"""Tables of results as text, for web pages and Markdown alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from socratic_experiments.reporting.paper import (
    ACCURACY_TARGETS,
    AUROC_TARGETS,
    CITATION,
    PAPER_AUC,
    PAPER_SETS,
    QUOTED,
    QUOTED_DETECTION,
    STANDS_FOR,
    Quoted,
    paper_row,
    verdict,
)
from socratic_experiments.reporting.summaries import (
    NO_DROPOUT,
    NOTHING,
    PAPERS,
    PAPERS_WITH,
    WITH_DROPOUT,
    Record,
    Series,
    Stat,
    alone,
    detected_at,
    difference,
    distinct,
    flagged_at,
    of,
    over_seeds,
    plain,
    select,
    series_of,
    set_title,
    show,
    stat,
)

Rows = list[list[str]]


@dataclass(frozen=True)
class Table:
    """A table: its first ``n_names`` columns hold names, the others numbers; ``note`` says what they mean."""

    title: str
    headings: Sequence[str]
    rows: Rows
    n_names: int = 2
    note: str = ""

    def trimmed(self) -> Table:
        """Without rows and columns of numbers in which there is none."""
        filled = [row for row in self.rows if any(cell != NOTHING for cell in row[self.n_names :])]
        kept = [
            place
            for place in range(len(self.headings))
            if place < self.n_names or any(row[place] != NOTHING for row in filled)
        ]
        rows = [[row[place] for place in kept] for row in filled]
        return Table(self.title, [self.headings[place] for place in kept], rows, self.n_names, self.note)


def trains_of(records: Sequence[Record], experiment: str) -> list[str]:
    """The training sets of an experiment."""
    return distinct(select(records, experiment=experiment), "train")


def accuracy_table(records: Sequence[Record]) -> Table:
    """What was trained, and how well it answers."""
    found, rows = select(records, experiment="training"), []
    for train in distinct(found, "train"):
        for model in distinct(select(found, train=train), "model"):
            one = select(found, train=train, model=model)
            accuracy = over_seeds(one, "accuracy")
            target = None if model in (PAPERS, PAPERS_WITH) else ACCURACY_TARGETS.get(plain(train))
            rows.append(
                [
                    set_title(train),
                    model,
                    show(accuracy, 1, scale=100),
                    f"{100 * target:.0f}" if target else NOTHING,
                    verdict(accuracy, target, 1, 100),
                    show(over_seeds(one, "train_accuracy"), 1, scale=100),
                    _whole(over_seeds(one, "n_parameters")),
                    _whole(over_seeds(one, "n_epochs")),
                    show(over_seeds(one, "seconds"), 1, scale=1 / 60),
                    str(len(distinct(one, "seed"))),
                ]
            )
    headings = [
        "trained on",
        "model",
        "test accuracy, %",
        "target",
        "target is",
        "training accuracy, %",
        "parameters",
        "epochs",
    ]
    return Table("Accuracy", [*headings, "minutes", "seeds"], rows).trimmed()


def ood_tables(records: Sequence[Record], train: str) -> list[Table]:
    """Known against unknown images, one table for each unknown set."""
    found = select(records, experiment="ood", train=train)
    known = select(found, role="known")
    tables = []
    for name in distinct(select(found, role="unknown"), "set"):
        unknown = select(found, role="unknown", set=name)
        target = AUROC_TARGETS.get((plain(train), plain(name)))
        rows = [_ood_row(series, of(known, series), of(unknown, series), target) for series in series_of(unknown)]
        headings = ["AUROC", "AUPR", "FPR95, %", "detected at 5 %", "paper's AUC", "accuracy, %"]
        headings += ["AURC, %", "AUGRC, %", "s per 1,000"]
        wanted = ["" if target is None else f"target {target:g} is"]
        title = f"{set_title(train)} against {set_title(name)}"
        tables.append(Table(title, ["model", "method", *headings[:1], *wanted, *headings[1:]], rows).trimmed())
    return tables


def _ood_row(series: Series, known: list[Record], unknown: list[Record], target: float | None) -> list[str]:
    area = over_seeds(unknown, "auroc")
    return [
        *series,
        show(area),
        verdict(area, target),
        show(over_seeds(unknown, "aupr")),
        show(over_seeds(unknown, "fpr95"), 1, scale=100),
        show(over_seeds(unknown, "detected_at_5"), 1, scale=100),
        show(over_seeds(unknown, "paper_auc"), 1),
        show(over_seeds(known, "accuracy"), 1, scale=100),
        show(over_seeds(known, "aurc"), 2, scale=100),
        show(over_seeds(known, "augrc"), 2, scale=100),
        show(over_seeds(unknown, "seconds_per_1000"), 2),
    ]


def doubt_table(records: Sequence[Record], train: str) -> Table:
    """AUROC against every unknown set, one row for each score."""
    found = select(records, experiment="doubt", train=train)
    known, unknown = select(found, role="known"), select(found, role="unknown")
    sets = distinct(unknown, "set")
    rows = [
        [
            *series,
            *(show(over_seeds(of(select(unknown, set=name), series), "auroc")) for name in sets),
            show(over_seeds(of(known, series), "rejected"), 1, scale=100),
            show(over_seeds(of(known, series), "augrc"), 2, scale=100),
            show(over_seeds(of(known, series), "accuracy"), 1, scale=100),
        ]
        for series in series_of(known)
    ]
    headings = ["model", "score", *map(set_title, sets), "refused, %", "AUGRC, %", "accuracy, %"]
    return Table(f"Trained on {set_title(train)}", headings, rows).trimmed()


def paper_table(records: Sequence[Record]) -> Table:
    """Our values of the paper's AUC beside its Table 1."""
    found = _like_the_paper(records)
    unknown = select(found, role="unknown")
    sets = [name for name in distinct(unknown, "set") if plain(name) in STANDS_FOR]
    known = distinct(select(found, role="known"), "set")
    rows = []
    for series in series_of(unknown):
        published = paper_row(*series)
        if published is None:
            continue
        ours = [show(over_seeds(select(of(found, series), set=name), "paper_auc"), 1) for name in (*sets, *known)]
        rows.append([*series, *ours, published, *(f"{value:.1f}" for value in PAPER_AUC[published])])
    headings = ["model", "method", *(f"ours: {set_title(name)}" for name in sets)]
    headings += [*(f"ours: {set_title(name)} (known)" for name in known), "paper"]
    headings += [f"paper: {name}" for name in PAPER_SETS]
    return Table("The paper's Table 1", headings, rows if sets else [], 2, _paper_note(sets))


def _paper_note(sets: Sequence[str]) -> str:
    stands = {set_title(name): STANDS_FOR[plain(name)] for name in sets}
    parts = [f"{ours} stands here where the paper has {its}" for ours, its in stands.items() if ours != its]
    parts += [f"there is no {name}" for name in PAPER_SETS if name not in stands.values()]
    return f"Published: {CITATION}, Table 1. Mind the sets: {'; '.join(parts) or 'they are the same'}."


def _like_the_paper(records: Sequence[Record]) -> list[Record]:
    """Known against unknown images by models that were trained on what the paper's were."""
    return [record for record in select(records, experiment="ood") if plain(record["train"]) == "svhn"]


def operating_table(records: Sequence[Record]) -> Table:
    """The operating points that the paper quotes, beside ours on the set that stands for LSUN."""
    found = _like_the_paper(records)
    rows = []
    for name in (name for name in distinct(found, "set") if STANDS_FOR.get(plain(name)) == "LSUN"):
        for series in series_of(select(found, set=name)):
            row = paper_row(*series)
            known = of(select(found, role="known"), series)
            unknown = of(select(found, role="unknown", set=name), series)
            if row in QUOTED_DETECTION:
                ours = _detection(known, unknown)
                quoted = f"{QUOTED_DETECTION[row]:.0f}"
                rows.append([*series, "detected, keeping 95 %", show(ours, 1, scale=100), quoted])
            for point in (point for point in QUOTED if point.method == row):
                rows += _errors(series, point, known, unknown)
    note = (
        "Known in error: SVHN rows flagged as unknown. Unknown in error: rows of the other set that are not. "
        "The paper gives no unit of its thresholds on the entropy; here they are nats."
    )
    return Table("Operating points", ["model", "method", "what", "ours, %", "paper, %"], rows, 3, note)


def _detection(known: list[Record], unknown: list[Record]) -> Stat | None:
    """Share of unknown rows detected while 95 % of the known are kept: as recorded, else from the curves."""
    recorded = over_seeds(unknown, "detected_at_5")
    if recorded is not None:
        return recorded
    by_seed = {record["seed"]: record for record in known}
    return stat(detected_at(by_seed[one["seed"]], one, 0.05) for one in unknown if one["seed"] in by_seed)


def _errors(series: Series, point: Quoted, known: list[Record], unknown: list[Record]) -> Rows:
    false = stat(flagged_at(record, point.threshold) for record in known)
    found = stat(flagged_at(record, point.threshold) for record in unknown)
    missed = None if found is None else Stat(1 - found.mean, 1 - found.high, 1 - found.low, found.n)
    where = f"threshold {point.threshold:g}"
    return [
        [*series, f"known in error, {where}", show(false, 1, scale=100), f"{point.known_error:.1f}"],
        [*series, f"unknown in error, {where}", show(missed, 1, scale=100), f"{point.unknown_error:.1f}"],
    ]


def cause_table(records: Sequence[Record], train: str) -> Table:
    """What training with dropout does to AUROC, and what inference with dropout does on the same weights."""
    found = select(records, experiment="ood", train=train, role="unknown")
    rows = []
    for name in distinct(found, "set"):
        here = select(found, set=name)
        with_, without = select(here, model=WITH_DROPOUT), select(here, model=NO_DROPOUT)
        base = {model: of(here, first) for model in (WITH_DROPOUT, NO_DROPOUT) if (first := alone(model, here))}
        methods = distinct(without, "method")
        for method in (method for method in distinct(with_, "method") if method in methods):
            ours, others = select(with_, method=method), select(without, method=method)
            rows.append(
                [
                    set_title(name),
                    method,
                    show(over_seeds(others, "auroc")),
                    show(over_seeds(ours, "auroc")),
                    show(difference(ours, others, "auroc"), signed=True),
                    *(_moved(one, base.get(model, [])) for one, model in ((others, NO_DROPOUT), (ours, WITH_DROPOUT))),
                ]
            )
    headings = [
        "unknown set",
        "inference",
        "AUROC, trained without dropout",
        "AUROC, trained with dropout",
        "training moves it by",
        "inference moves it by (trained without)",
        "inference moves it by (trained with)",
    ]
    note = "Differences are taken seed by seed, where both have the seed."
    return Table(f"Two causes: {set_title(train)}", headings, rows, 2, note).trimmed()


def _moved(records: list[Record], base: list[Record]) -> str:
    """The difference of AUROC from the circuit alone; none of the circuit alone itself."""
    return NOTHING if records == base else show(difference(records, base, "auroc"), signed=True)


def settings_table(settings: Mapping[str, Any]) -> Table:
    """Settings by name; of files and folders only the last part of the path, which is all that others can use."""
    rows = [[name, _setting(value)] for name, value in settings.items()]
    return Table("Settings", ["setting", "value"], rows)


def recipes_table(records: Sequence[Record], train: str) -> Table:
    """How each model was built and trained: settings by name, a column for each model."""
    found = select(records, experiment="training", train=train)
    recipes = {record["model"]: record["settings"] for record in found if record.get("settings")}
    names = list(dict.fromkeys(name for recipe in recipes.values() for name in recipe))
    rates = {record["model"]: record.get("inference_dropout") for record in reversed(found)}
    rows = [
        [name, *(_setting(recipe[name]) if name in recipe else NOTHING for recipe in recipes.values())]
        for name in names
        if name != "inference_dropout"
    ]
    rows.append(["inference_dropout", *(_setting(rates[model]) for model in recipes)])
    return Table(f"Models: {set_title(train)}", ["setting", *recipes], rows)


def runs_table(settings: Sequence[Mapping[str, Any]]) -> Table:
    """The settings of several runs, a column each; only those that say something."""
    names = list(dict.fromkeys(name for one in settings for name in one))
    rows = [[name, *(_setting(one.get(name)) for one in settings)] for name in names]
    told = [row for row in rows if any(cell not in (NOTHING, "null") for cell in row[1:])]
    return Table("Runs", ["setting", *(f"run {number + 1}" for number in range(len(settings)))], told)


def _setting(value: Any) -> str:
    if isinstance(value, str):
        return value.rstrip("/").rpartition("/")[2] if value.startswith("/") else value
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_setting(one)}" for name, one in value.items()) or NOTHING
    if isinstance(value, (list, tuple)):
        return ", ".join(_setting(one) for one in value) or NOTHING
    return json.dumps(value)


def _whole(value: Stat | None) -> str:
    return NOTHING if value is None else f"{value.mean:,.0f}"
