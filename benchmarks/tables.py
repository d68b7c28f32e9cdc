"""Classifying tables: circuits beside a random forest and gradient boosting.

``python -m benchmarks.tables FOLDER`` takes the CSV files of a folder whose column of classes it knows; ``--targets
NAME:COLUMN`` names that of others. Two parts:

*Classes*: accuracy and log-loss of a stratified 30 % of the rows, as they are and with 30 % of their cells missing
completely at random; the largest share that can be answered, the least entropy first, with at most 5 % of errors in it;
seconds to learn and to predict, by one thread. Of circuits also the share that they keep to answer when told to make at
most 5 % of errors, and the errors in it.

*Novelty*: each of the two largest classes is held out in turn; AUROC of scores by a model of the other classes, which
should find its rows. Where classes are two, another column gives them; scikit-learn's digits, iris and wine are added.

What was measured is kept in a file, and not measured again unless ``--again`` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.classifiers import Model, classifiers
from benchmarks.records import Measures, Names, Records, one_thread, options, table, timed, wanted_methods
from socratic import CircuitClassifier
from socratic.uncertainty import auroc, risk_coverage

RESULTS = Path(__file__).parent / "results" / "tables.jsonl"
CLASSES, NOVELTY = PARTS = ("classes", "novelty")
TARGETS = {
    "adult": "income",
    "diamonds": "cut",
    "german": "c20",
    "penguins": "species",
    "telco": "Churn",
    "titanic": "survived",
}
OF_SEVERAL_CLASSES = {"adult": "marital", "telco": "InternetService", "titanic": "class"}
"""Columns of more than two classes, for tables whose own classes are two."""
BUNDLED: dict[str, Callable[..., Any]] = {"digits": load_digits, "iris": load_iris, "wine": load_wine}
MISSING, RISK, TEST_SHARE, HELD_OUT = 0.3, 0.05, 0.3, 2
VERSION = 1
"""Of what is measured: with another, nothing that was measured before counts."""

Data = tuple[pd.DataFrame, np.ndarray]


def read(path: Path, target: str) -> Data:
    """Columns and classes of a file. A column that is the class by another name is left out."""
    rows = pd.read_csv(path, skipinitialspace=True).dropna(subset=[target]).reset_index(drop=True)
    y = rows.pop(target).astype(str)
    same = [name for name in rows if _same(rows[name], y)]
    return rows.drop(columns=same).apply(_text), y.to_numpy(dtype=object)


def bundled(name: str) -> Data:
    """Columns and classes of one of scikit-learn's tables."""
    x, y = BUNDLED[name](return_X_y=True, as_frame=True)
    return x, y.astype(str).to_numpy(dtype=object)


def _same(column: pd.Series, classes: pd.Series) -> bool:
    """Whether values and classes tell each other."""
    pairs = pd.DataFrame({"value": column, "class": classes}).drop_duplicates()
    return len(pairs) == pairs["value"].nunique() == pairs["class"].nunique()


def _text(column: pd.Series) -> pd.Series:
    """Anything but numbers as text, which can be missing."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column
    return column.astype(str).astype(object).where(column.notna(), np.nan)


def classes(model: Model, x: pd.DataFrame, y: np.ndarray, most_rows: int, seed: int) -> Measures:
    """How well rows are classified, complete and with missing cells, and how long it takes."""
    train, test = split(y, most_rows, seed)
    fitted, fit_seconds = timed(lambda: model(x.iloc[train], seed).fit(x.iloc[train], y[train]))
    rows = x.iloc[test]
    missing = rows.mask(np.random.default_rng(seed).random(rows.shape) < MISSING)
    found: Measures = {"fit seconds": fit_seconds}
    for suffix, asked in (("", rows), (", missing", missing)):
        probabilities, found["predict seconds" + suffix] = timed(partial(fitted.predict_proba, asked))
        right = fitted.classes_[probabilities.argmax(1)] == y[test]
        found["accuracy" + suffix] = float(right.mean())
        found["log-loss" + suffix] = float(log_loss(y[test], probabilities, labels=fitted.classes_))
        found["answered" + suffix] = answered(probabilities, right)
        if not suffix and isinstance(fitted, CircuitClassifier):
            kept = fitted.set_params(risk=RISK).verdict(rows) == "familiar"
            found["kept"], found["errors kept"] = float(kept.mean()), float(np.sum(kept & ~right) / max(kept.sum(), 1))
    return found


def answered(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The largest share of rows, those of least entropy, with at most ``RISK`` of errors among them."""
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1)
    curve = risk_coverage(entropy, right)
    return float(curve.coverage[curve.risk <= RISK].max(initial=0.0))


def novelty(model: Model, x: pd.DataFrame, y: np.ndarray, most_rows: int, seed: int) -> Measures:
    """AUROC of each score for a class that was held out: means over classes."""
    values, counts = np.unique(y, return_counts=True)
    found: list[Measures] = []
    for unknown in values[np.argsort(-counts, kind="stable")[:HELD_OUT]]:
        known = np.flatnonzero(y != unknown)
        train, test = (known[part] for part in split(y[known], most_rows, seed))
        fitted = model(x.iloc[train], seed).fit(x.iloc[train], y[train])
        of_known, of_unknown = (unusualness(fitted, rows) for rows in (x.iloc[test], x[y == unknown]))
        found.append({score: auroc(of_known[score], of_unknown[score]) for score in of_known})
    return mean(found)


def unusualness(fitted: Any, rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Scores (N,) of rows, higher for more unusual ones."""
    if not isinstance(fitted, CircuitClassifier):
        return {"largest probability": -fitted.predict_proba(rows).max(1)}
    doubt = fitted.uncertainty(rows)
    return {
        "p-value": -doubt.p_value,
        "log p(x)": -doubt.log_likelihood,
        "entropy": doubt.entropy,
        "mutual information": doubt.mutual_information,
    }


def split(y: np.ndarray, most_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows to learn from, at most so many, and of those to test, with the same shares of classes."""
    train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, random_state=seed, stratify=y)
    return train[:most_rows], test


def measured_tables(
    folder: Path, targets: Mapping[str, str], part: str, only: Collection[str] | None
) -> Iterator[tuple[str, Data]]:
    """Each table as FILE:COLUMN, scikit-learn's by name, with its data."""
    for path in sorted(folder.glob("*.csv*")):
        name = path.name.split(".")[0]
        if name not in targets or (only and name not in only):
            continue
        target, data = targets[name], read(path, targets[name])
        if part == NOVELTY and len(np.unique(data[1])) <= HELD_OUT:
            if name not in OF_SEVERAL_CLASSES:
                continue
            target = OF_SEVERAL_CLASSES[name]
            data = read(path, target)
        yield f"{name}:{target}", data
    if part == NOVELTY:
        for name in BUNDLED:
            if not only or name in only:
                yield name, bundled(name)


def class_report(found: Mapping[str, Mapping[str, Measures]]) -> list[str]:
    """A row for each table and method, and means over tables; ``found`` has means over seeds by table and method."""
    kinds = ("accuracy", "log-loss", "answered")
    columns = [kind + suffix for suffix in ("", ", missing") for kind in kinds]
    columns += ["fit seconds", "predict seconds", "kept", "errors kept"]
    methods = [name for name in next(iter(found.values())) if all(name in own for own in found.values())]
    means = {name: mean([own[name] for own in found.values()]) for name in methods}
    rows = [
        (one, name, *(f"{measures[column]:.3f}" if column in measures else "" for column in columns))
        for one, own in {**found, "mean": means}.items()
        for name, measures in own.items()
    ]
    return ["Classes:", "", *table(("table", "method", *columns), rows)]


def novelty_report(found: Mapping[str, Mapping[str, Measures]]) -> list[str]:
    """A row for each table and a column for each score, and means over the tables."""
    scores = {
        one: {f"{name}: {score}": value for name, measures in own.items() for score, value in measures.items()}
        for one, own in found.items()
    }
    columns = [name for name in next(iter(scores.values())) if all(name in own for own in scores.values())]
    means = mean([{name: own[name] for name in columns} for own in scores.values()])
    rows = [(one, *(f"{own[name]:.3f}" for name in columns)) for one, own in {**scores, "mean": means}.items()]
    return ["Novelty, AUROC of a held-out class:", "", *table(("table", *columns), rows)]


def mean(measures: Sequence[Measures]) -> Measures:
    """Means of each measure."""
    return {name: float(np.mean([one[name] for one in measures])) for name in measures[0]}


def main() -> None:
    """Measure what is not known yet, and print the tables."""
    parser = options(__doc__, RESULTS, most_rows=12_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--targets", nargs="+", default=[], metavar="NAME:COLUMN", help="the classes of further files")
    arguments = parser.parse_args()
    methods = classifiers(arguments.structure)
    wanted = wanted_methods(parser, arguments, methods)
    targets = {**TARGETS, **dict(given.split(":", 1) for given in arguments.targets)}
    records, seeds = Records(arguments.results), range(arguments.seeds)

    def names(part: str, one: str, method: str, seed: int) -> Names:
        settings = {"most_rows": arguments.most_rows, "version": VERSION}
        return {"part": part, "set": one, "seed": seed, "method": method, **settings}

    for part in arguments.parts:
        found: dict[str, dict[str, Measures]] = {}
        for one, (x, y) in measured_tables(arguments.folder, targets, part, arguments.sets):
            for seed, method in product(seeds, wanted):
                asked = names(part, one, method, seed)
                if arguments.again or records.get(asked) is None:
                    with one_thread(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # few rows, categories never seen: the figures tell
                        measure = classes if part == CLASSES else novelty
                        records.add(asked, measure(methods[method], x, y, arguments.most_rows, seed))
            known = {method: [records.get(names(part, one, method, seed)) for seed in seeds] for method in methods}
            found[one] = {method: mean([m for m in own if m]) for method, own in known.items() if all(own)}
        if found:
            print("\n".join(class_report(found) if part == CLASSES else novelty_report(found)), flush=True)


if __name__ == "__main__":
    main()
