"""Records of experiments: reading them, and what they say on the average over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from socratic_experiments.records import RECORDS, SETTINGS, read_records
from socratic_experiments.settings import MODELS

Record = dict[str, Any]
Series = tuple[str, str]
"""A model and a method: what one line of a figure or one row of a table shows."""

NOTHING = "-"
"""Stands in tables where there is no number."""
TDI, EXACT = "TDI exact, unit masks", "TDI exact, edge masks"
INDEPENDENT = "TDI independent, edge masks"
NO_DROPOUT, WITH_DROPOUT = "circuit without dropout", "circuit"
PAPERS, PAPERS_WITH = "paper's circuit", "paper's circuit with dropout"
# What tells one measurement from another; a later record of the same measurement replaces the earlier.
_IDENTITY = (
    *("experiment", "train", "model", "method", "seed"),
    *("set", "role", "shift", "level", "masks", "n_passes", "dropout", "variant"),
)
_VARIANTS = {"ood": ("normalise", "train"), "corruption": ("constants", "cifar")}
"""Experiments whose runs of unusual settings can stand beside the usual ones: the setting, and its usual value."""
_TITLES = ("MNIST", "notMNIST", "Fashion-MNIST", "KMNIST", "EMNIST", "SVHN", "CIFAR-10", "CIFAR-100", "CINIC", "LSUN")


@dataclass(frozen=True)
class Stat:
    """Mean, smallest and largest of a number over seeds, and how many there were."""

    mean: float
    low: float
    high: float
    n: int

    def text(self, digits: int = 3, *, scale: float = 1.0, signed: bool = False) -> str:
        """The mean, with half the range if there is more than one seed."""
        mean = f"{scale * self.mean:{'+' if signed else ''}.{digits}f}"
        return f"{mean} ± {scale * (self.high - self.low) / 2:.{digits}f}" if self.n > 1 else mean


def show(stat: Stat | None, digits: int = 3, *, scale: float = 1.0, signed: bool = False) -> str:
    """A number for a table, or the sign for none."""
    return NOTHING if stat is None else stat.text(digits, scale=scale, signed=signed)


def read_folder(folder: Path) -> tuple[list[Record], Record]:
    """Records and settings in a folder of results; lines that were not written to their end are left out.

    Records of unknown images normalised by their "own" statistics, and of images corrupted by the constants of
    "imagenet", say so in a field ``variant``.
    """
    if not (folder / RECORDS).is_file():
        raise FileNotFoundError(f"no results in {folder}: there is no {RECORDS}")
    settings = folder / SETTINGS
    found = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    return unique({**record, **_variant(record, found)} for record in read_records(folder)), found


def read_folders(folders: Sequence[Path]) -> tuple[list[Record], list[Record]]:
    """The records in several folders together, and the settings of each."""
    found = {folder: read_folder(folder) for folder in folders}
    check_apart({folder: records for folder, (records, _) in found.items()})
    return unique(one for records, _ in found.values() for one in records), [one for _, one in found.values()]


def _run(record: Record) -> tuple[Any, Any]:
    return record.get("experiment"), record.get("train")


def _variant(record: Record, settings: Record) -> Record:
    """What is unusual about the run of a record, if anything is."""
    setting, usually = _VARIANTS.get(str(record.get("experiment")), ("", None))
    value = settings.get(setting, usually)
    return {} if value == usually else {"variant": value}


def usual(records: Iterable[Record]) -> list[Record]:
    """The records of usual settings; of an experiment that was run with unusual ones only, those."""
    records = list(records)
    usual_runs = {_run(record) for record in records if record.get("variant") is None}
    return [record for record in records if record.get("variant") is None or _run(record) not in usual_runs]


def check_apart(folders: Mapping[Path, Sequence[Record]]) -> None:
    """Raise if two folders hold the same experiment on the same set: their records would be taken for each other's."""
    owner: dict[tuple[Any, ...], Path] = {}
    for folder, records in folders.items():
        for names in {
            tuple(one.get(name) for name in ("experiment", "train", "variant"))
            for one in records
            if one.get("experiment") != "training"
        }:
            if owner.setdefault(names, folder) != folder:
                raise ValueError(
                    f"{owner[names]} and {folder} both hold {names[0]!r} on {names[1]!r}, of other settings; report on "
                    "them one at a time"
                )


def unique(records: Iterable[Record]) -> list[Record]:
    """The records without repetitions, by training set and model.

    Of the same measurement the last one counts, at the place of the first. Models come in the order of
    ``settings.MODELS``, whichever was ready first; others follow as they came.
    """
    found = list({tuple(record.get(name) for name in _IDENTITY): record for record in records}.values())
    place = {model: number for number, model in enumerate(MODELS)}

    def order(record: Record) -> tuple[str, int]:
        return str(record.get("train")), place.get(str(record.get("model")), len(place))

    return sorted(found, key=order)


def select(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """The records that have these values."""
    return [record for record in records if all(record.get(name) == value for name, value in wanted.items())]


def of(records: Iterable[Record], series: Series) -> list[Record]:
    """The records of a model and method."""
    return select(records, model=series[0], method=series[1])


def distinct(records: Iterable[Record], field: str) -> list[Any]:
    """The values of a field in order of first appearance."""
    return list(dict.fromkeys(record[field] for record in records if record.get(field) is not None))


def series_of(records: Iterable[Record]) -> list[Series]:
    """Models and methods in order of first appearance, a model's methods together."""
    records = list(records)
    return [
        (model, method)
        for model in distinct(records, "model")
        for method in distinct(select(records, model=model), "method")
    ]


def is_number(value: Any) -> bool:
    """Whether a metric applies and is finite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(value))


def stat(values: Iterable[Any]) -> Stat | None:
    """Mean and range of those that are numbers, None if none is."""
    numbers = [float(value) for value in values if is_number(value)]
    return Stat(float(np.mean(numbers)), min(numbers), max(numbers), len(numbers)) if numbers else None


def over_seeds(records: Iterable[Record], field: str) -> Stat | None:
    """Mean and range of a field."""
    return stat(record.get(field) for record in records)


def difference(records: Iterable[Record], others: Iterable[Record], field: str) -> Stat | None:
    """Mean and range of a field's difference from the other records, seed by seed."""
    base = {record["seed"]: record.get(field) for record in others}
    pairs: list[tuple[Any, Any]] = [(record.get(field), base.get(record["seed"])) for record in records]
    return stat(value - other for value, other in pairs if is_number(value) and is_number(other))


@dataclass(frozen=True, eq=False)
class Curve:
    """A number over another: ``x``, ``mean``, ``low`` and ``high`` over seeds, each (L,)."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curve(records: Sequence[Record], x: str, y: str) -> Curve | None:
    """How ``y`` goes with ``x``; None without numbers."""
    places = sorted({record[x] for record in records if is_number(record.get(x)) and is_number(record.get(y))})
    stats = [over_seeds(select(records, **{x: place}), y) for place in places]
    found = [(place, *_range(one)) for place, one in zip(places, stats, strict=True) if one is not None]
    return Curve(*np.array(found, dtype=float).T) if found else None


def list_curve(records: Sequence[Record], field: str, x: np.ndarray | None = None) -> Curve | None:
    """Mean and range of a field that holds lists of one length (L,), over the places ``x``."""
    lists = [np.asarray(record[field], dtype=float) for record in records if record.get(field) is not None]
    if not lists:
        return None
    values = np.stack(lists)
    places = np.arange(values.shape[1], dtype=float) if x is None else x
    return Curve(places, values.mean(0), values.min(0), values.max(0))


def _range(one: Stat) -> tuple[float, float, float]:
    return one.mean, one.low, one.high


def is_alone(method: str) -> bool:
    """Whether a method is the model without dropout: what the others are compared with."""
    return method.endswith("alone")


def alone(model: str, records: Iterable[Record]) -> Series | None:
    """A model's own answer, among the records."""
    return next((one for one in series_of(records) if one[0] == model and is_alone(one[1])), None)


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation; NaN if one of them is constant or there are fewer than two."""
    from scipy.stats import spearmanr

    if len(x) < 2 or len(set(x)) < 2 or len(set(y)) < 2:
        return float("nan")
    return float(spearmanr(x, y).statistic)


def flagged_at(record: Record, threshold: float) -> float | None:
    """Share of rows whose entropy is above a threshold in nats, between the steps of the curve."""
    if record.get("flagged") is None or not record.get("max_entropy"):
        return None
    shares = np.asarray(record["flagged"], dtype=float)
    return float(np.interp(threshold, np.linspace(0.0, record["max_entropy"], len(shares)), shares))


def flagged_margins(records: Sequence[Record], unknown: str) -> list[np.ndarray]:
    """By how much more rows of an unknown set than known ones are flagged at each threshold, for each seed: (101,)."""
    known = {record["seed"]: record["flagged"] for record in select(records, role="known") if record.get("flagged")}
    return [
        np.subtract(record["flagged"], known[record["seed"]])
        for record in select(records, role="unknown", set=unknown)
        if record.get("flagged") and record["seed"] in known
    ]


def detected_at(known: Record, unknown: Record, rate: float) -> float | None:
    """Share of unknown rows flagged at the threshold that flags this share of the known ones."""
    if known.get("flagged") is None or unknown.get("flagged") is None:
        return None
    shares = np.asarray(known["flagged"], dtype=float)
    places = np.linspace(0.0, known["max_entropy"], len(shares))
    # Shares fall with the threshold; np.interp wants them rising.
    return flagged_at(unknown, float(np.interp(rate, shares[::-1], places[::-1])))


def plain(name: str) -> str:
    """The name of a set without case, hyphens and underscores."""
    return "".join(character for character in name.lower() if character.isalnum())


def set_title(name: str) -> str:
    """The usual spelling of a set's name."""
    base, _, change = name.partition(":")
    title = next((title for title in _TITLES if plain(title) == plain(base)), base)
    return f"{title} {change}" if change else title
