"""Alarms for drift: ``python -m benchmarks.drift`` counts false ones, and rows until three planted changes are found.

``false-alarms`` watches familiar scores, a million in each stream, beside 20, 100 or 1,000 calibration rows. With
continuous scores their distribution makes no difference: a monitor sees ranks alone. ``delays`` compares with ADWIN and
KSWIN of river (``pip install river``), which watch the same p-values of the same models, and whose settings are those
that raise as many false alarms in familiar streams as is permitted to the monitor. ``speed`` counts rows a second.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from socratic import CircuitOutlierDetector, DriftMonitor
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.drift import Drift

RATE = 0.01
"""The permitted share of streams with a false alarm."""
RESULTS = Path(__file__).parent / "results" / "drift.md"
N_TRAIN, N_FAMILIAR, N_CHANGED = 2500, 2000, 1000
"""Rows that models are fitted to, rows of a stream before the change, and after it."""
N_MODELS, N_COLUMNS = 5, 6
_AT_A_TIME = 20_000


def false_alarms(*sizes: tuple[int, int]) -> str:
    """How many streams of familiar rows raise an alarm, beside so many calibration rows.

    ``sizes`` are numbers of streams, and of rows in each of them.
    """
    lines = ["| calibration rows | streams | rows of each | with an alarm |", "| --- | --- | --- | --- |"]
    for n_calibration, (place, (n_streams, n_rows)) in itertools.product((20, 100, 1000), enumerate(sizes)):
        n_alarms = 0
        for seed in range(n_streams):
            rng = np.random.default_rng([n_calibration, seed, *([] if place else [5])])  # no two share their draws
            drift = Drift([rng.exponential(size=n_calibration)], {}, rate=RATE, window=1, seed=seed)
            for start in range(0, n_rows, _AT_A_TIME):
                scores = rng.exponential(size=(1, min(_AT_A_TIME, n_rows - start)))
                drift.add(Judgement(scores, np.ones(scores.shape[1])), None, 0.0)
            n_alarms += drift.report().alarm
        lines.append(f"| {n_calibration:,} | {n_streams} | {n_rows:,} | {n_alarms} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def familiar(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Six columns: four that go together, two that do not."""
    common = rng.normal(size=(n_rows, 2))
    mixed = common @ np.array([[1.0, 0.8, -0.5, 0.0], [0.0, 0.6, 1.0, 1.0]]) + 0.5 * rng.normal(size=(n_rows, 4))
    return np.hstack([mixed, rng.normal(size=(n_rows, 2))])


def offset(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    """A column is larger by one standard deviation."""
    return x + x.std(0) * np.eye(N_COLUMNS)[0]


def shuffled(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column holds the values of other rows."""
    return np.column_stack([rng.permutation(x[:, 1]) if column == 1 else x[:, column] for column in range(N_COLUMNS)])


def mixed_in(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One row in ten is three times as far from the centre."""
    return np.where(rng.random((len(x), 1)) < 0.1, 3.0 * x, x)


CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "one column is larger by a standard deviation": offset,
    "one column holds the values of other rows": shuffled,
    "one row in ten is three times as far out": mixed_in,
}


class Stream(NamedTuple):
    """Rows as a model judges them."""

    model: CircuitOutlierDetector
    judged: Judgement
    surprises: np.ndarray

    @classmethod
    def of(cls, model: CircuitOutlierDetector, rows: np.ndarray) -> Stream:
        """Judge rows."""
        (x,) = model._batches(rows)
        return cls(model, model.judge_rows(x), model._surprises([x]))

    def followed_by(self, other: Stream) -> Stream:
        """These rows and then others."""
        scores, p_value = (
            np.concatenate([getattr(each.judged, name) for each in (self, other)], axis=-1)
            for name in ("scores", "p_value")
        )
        return Stream(self.model, Judgement(scores, p_value), np.vstack([self.surprises, other.surprises]))


def quiet_streams(n_streams: int) -> list[Stream]:
    """Familiar rows, by several models in turns."""
    models = [
        CircuitOutlierDetector(random_state=seed).fit(familiar(np.random.default_rng([1, seed]), N_TRAIN))
        for seed in range(N_MODELS)
    ]
    return [
        Stream.of(models[seed % N_MODELS], familiar(np.random.default_rng([2, seed]), N_FAMILIAR))
        for seed in range(n_streams)
    ]


def changed_streams(quiet: list[Stream], change: Callable[..., np.ndarray]) -> list[Stream]:
    """Familiar rows, and others after a change."""
    found = []
    for seed, stream in enumerate(quiet):
        rng = np.random.default_rng([3, seed])
        found.append(stream.followed_by(Stream.of(stream.model, change(familiar(rng, N_CHANGED), rng))))
    return found


def alarm_of_monitor(stream: Stream, *, columns: bool) -> float:
    """The row at which a monitor raises the alarm; infinite if it does not."""
    monitor = DriftMonitor(stream.model, rate=RATE, columns=columns)
    row = monitor.update_judged(stream.judged, stream.surprises if columns else None).alarm_row
    return math.inf if row is None else row


def alarm_of(make: Callable[[], Any], sequences: Sequence[np.ndarray]) -> float:
    """The first row at which one of river's detectors, one for each sequence, says that there is drift."""
    first = math.inf
    for values in sequences:
        detector = make()
        for row, value in enumerate(values.tolist()):
            detector.update(value)
            if row >= first or detector.drift_detected:
                first = min(first, row)
                break
    return first


def p_value(stream: Stream) -> list[np.ndarray]:
    """What detectors of one sequence watch."""
    return [stream.judged.p_value]


def p_values(stream: Stream) -> list[np.ndarray]:
    """The same and the p-values of columns."""
    return [stream.judged.p_value, *stream.model._compare(stream.surprises).p_value.T]


def adwin(delta: float) -> Any:
    """ADWIN that looks at every row."""
    from river import drift

    return drift.ADWIN(delta=delta, clock=1, grace_period=10)


def kswin(alpha: float) -> Any:
    """KSWIN with its windows of 100 and 30 rows."""
    from river import drift

    return drift.KSWIN(alpha=alpha, seed=0)


def look_up_p_values() -> None:
    """Make KSWIN fast: of two samples of 30 rows there are no more than 31 different p-values."""
    from river.drift import kswin as module
    from scipy import stats

    known: dict[int, Any] = {}

    class LookedUp:
        @staticmethod
        def ks_2samp(first: list[float], second: list[float], method: str) -> Any:
            one, other, both = np.sort(first), np.sort(second), np.array([*first, *second])
            apart = np.searchsorted(one, both, side="right") - np.searchsorted(other, both, side="right")
            key = int(np.abs(apart).max())
            if key not in known:
                known[key] = stats.ks_2samp(first, second, method=method)[:2]
            return known[key]

    module.stats = LookedUp


def chosen(make: Callable[[float], Any], levels: np.ndarray, quiet: list[list[np.ndarray]]) -> float:
    """The largest of ascending levels at which at most :data:`RATE` of familiar streams have an alarm."""
    permitted = math.floor(RATE * len(quiet))

    def too_many(level: float) -> bool:
        n_alarms = sum(alarm_of(partial(make, level), sequences) < math.inf for sequences in quiet)
        print(f"{make.__name__} at {level:.3g}: {n_alarms} of {len(quiet)} familiar streams have an alarm", flush=True)
        return n_alarms > permitted

    return float(levels[max(0, bisect.bisect_left(levels, True, key=too_many) - 1)])


def delays(n_quiet: int, n_changed: int) -> str:
    """Rows from a change to the alarm, beside ADWIN and KSWIN."""
    look_up_p_values()
    quiet = quiet_streams(n_quiet)
    ways: dict[str, Callable[[Stream], float]] = {
        "monitor": partial(alarm_of_monitor, columns=False),
        "monitor, with columns": partial(alarm_of_monitor, columns=True),
    }
    for name, make, watched, levels in (
        ("ADWIN", adwin, p_value, 10.0 ** np.arange(-3.0, 0.01, 0.25)),
        ("ADWIN, with columns", adwin, p_values, 10.0 ** np.arange(-4.0, 0.01, 0.25)),
        ("KSWIN", kswin, p_value, 10.0 ** np.arange(-8.0, -2.0, 0.25)),
    ):
        level = chosen(make, levels, [watched(stream) for stream in quiet])
        ways[f"{name} ({level:.2g})"] = partial(
            lambda stream, make, watched: alarm_of(make, watched(stream)), make=partial(make, level), watched=watched
        )
    found = {way: [f"{sum(alarm(stream) < math.inf for stream in quiet)} of {n_quiet}"] for way, alarm in ways.items()}
    for change in CHANGES.values():
        changed = changed_streams(quiet[:n_changed], change)
        for way, alarm in ways.items():
            rows = np.array([alarm(stream) for stream in changed])
            found[way].append(told(rows[rows >= N_FAMILIAR] - N_FAMILIAR + 1))
            print(way, found[way], flush=True)
    titles = ["", f"alarms in {N_FAMILIAR:,} familiar rows", *CHANGES]
    lines = ["| " + " | ".join(titles) + " |", "| " + " | ".join("---" for _ in titles) + " |"]
    return "\n".join([*lines, *("| " + " | ".join([way, *cells]) + " |" for way, cells in found.items())])


def told(rows: np.ndarray) -> str:
    """Median and ninth decile of delays, and how many are longer than a stream."""
    never = int(np.isinf(rows).sum())
    middle, late = np.quantile(rows, [0.5, 0.9], method="inverted_cdf")
    words = [f"{value:.0f}" if value < math.inf else "-" for value in (middle, late)]
    return f"{words[0]} ({words[1]})" + (f", {never} of {len(rows)} never" if never else "")


def speed(n_rows: int) -> str:
    """Rows a second, by what has to be done."""
    model = CircuitOutlierDetector(random_state=0).fit(familiar(np.random.default_rng(0), N_TRAIN))
    (x,) = model._batches(familiar(np.random.default_rng(1), n_rows))
    judged, surprises = model.judge_rows(x), model._surprises([x])
    plain, full = DriftMonitor(model, columns=False), DriftMonitor(model)
    lines = ["| one thread, six columns | rows a second |", "| --- | --- |"]
    steps: dict[str, Callable[[], object]] = {
        "judging rows": lambda: model.judge_rows(x),
        "their surprises by column": lambda: model._surprises([x]),
        "watching rows": lambda: plain.update_judged(judged),
        "watching rows and columns": lambda: full.update_judged(judged, surprises),
    }
    for name, step in steps.items():
        start = time.process_time()
        step()
        lines.append(f"| {name} | {n_rows / (time.process_time() - start):,.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Run the parts that are named, or all, and keep what they found in ``benchmarks/results/drift.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="false-alarms, delays, speed; all by default")
    parser.add_argument("--streams", type=int, default=12, help="long streams for each number of calibration rows")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of these streams")
    parser.add_argument("--quiet", type=int, default=40, help="familiar streams that settings are chosen by")
    parser.add_argument("--changed", type=int, default=20, help="streams with each change")
    given = parser.parse_args()
    parts: dict[str, Callable[[], str]] = {
        "false-alarms": lambda: false_alarms((700, 2_000), (given.streams, given.rows)),
        "delays": lambda: delays(given.quiet, given.changed),
        "speed": lambda: speed(20_000),
    }
    warnings.simplefilter("ignore")
    for name in given.parts or parts:
        table = parts[name]()
        print(f"\n{table}\n", flush=True)
        keep(name, table)


def keep(part: str, table: str) -> None:
    """Put the table of a part into the file of results, in place of the one before."""
    sections = {}
    if RESULTS.exists():
        for section in RESULTS.read_text().split("\n## ")[1:]:
            title, _, content = section.partition("\n")
            sections[title] = content.strip()
    sections[part] = table
    text = "\n\n".join(f"## {title}\n\n{content}" for title, content in sorted(sections.items()))
    RESULTS.write_text(f"# Drift\n\n`python -m benchmarks.drift`; see `docs/drift.md`.\n\n{text}\n")


if __name__ == "__main__":
    main()
