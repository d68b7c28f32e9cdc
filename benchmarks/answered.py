"""Answered rows: errors among them at a chosen risk, and how many they are, beside gradient boosting.

``python -m benchmarks.answered FOLDER`` takes the tables that :mod:`benchmarks.tables` takes. A circuit with a chosen
``risk``, which is kept on average, answers the rows of a stratified third that are neither unfamiliar nor ambiguous.
Boosting has no such verdict: its rows are answered from the least entropy on, as many as have no more errors among them
than the circuit's answered rows have. That it could not know; the threshold is found on the rows it is measured by.
Since boosting refuses no unfamiliar rows, circuits are measured twice: as they are, and with a rejection rate of 0.

What was measured is kept in a file, and not measured again unless ``--again`` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import entr

from benchmarks.classifiers import Model, boosting, circuit
from benchmarks.records import Measures, Names, Records, one_thread, options, table, wanted_methods
from benchmarks.tables import CLASSES, RISK, TARGETS, measured_tables, split
from socratic.uncertainty import risk_coverage

RESULTS = Path(__file__).parent / "results" / "answered.jsonl"
ALONE = ", ambiguous alone"
"""With a rejection rate of 0: rows that boosting does not tell from others are not refused either."""
VERSION = 2
"""Of what is measured: with another, nothing that was measured before counts."""


def measure(model: Model, x: pd.DataFrame, y: np.ndarray, most_rows: int, seed: int) -> Measures:
    """Errors and numbers of answered rows, and the share that boosting answers with as few errors."""
    train, test = split(y, most_rows, seed)
    fitted = model(x.iloc[train], seed).set_params(risk=RISK).fit(x.iloc[train], y[train])
    other = boosting(x.iloc[train], seed).fit(x.iloc[train], y[train])
    answer = fitted.answer(x.iloc[test])
    wrong = fitted.classes_[answer.probabilities.argmax(1)] != y[test]
    found: Measures = {}
    for kind, rate in (("", fitted.rejection_rate), (ALONE, 0.0)):
        answered = fitted.set_params(rejection_rate=rate).verdicts(answer) == "familiar"
        found["answered" + kind], found["wrong" + kind] = int(answered.sum()), int(wrong[answered].sum())
        found["coverage" + kind] = float(answered.mean())
        error = float(wrong[answered].mean()) if answered.any() else 0.0
        found["boosting" + kind] = coverage_at(error, other, x.iloc[test], y[test])
    return found


def coverage_at(error: float, fitted: Any, x: pd.DataFrame, y: np.ndarray) -> float:
    """The largest share of rows, those of least entropy, with at most this share of errors among them."""
    probabilities = fitted.predict_proba(x)
    curve = risk_coverage(entr(probabilities).sum(1), fitted.classes_[probabilities.argmax(1)] == y)
    return float(curve.coverage[curve.risk <= error].max(initial=0.0))


def report(found: Mapping[tuple[str, str], Sequence[Measures]]) -> list[str]:
    """A row for each table and circuit, of all seeds together."""
    rows = []
    for (one, method), measures in found.items():
        for kind in ("", ALONE):
            answered, wrong = (sum(each[name + kind] for each in measures) for name in ("answered", "wrong"))
            error = f"{wrong / answered:.3f} ± {np.sqrt(RISK * (1 - RISK) / answered):.3f}" if answered else "-"
            # What is promised: a mean over calibrations, in which those that answer nothing are without error.
            promised = np.mean([each["wrong" + kind] / max(1, each["answered" + kind]) for each in measures])
            shares = [np.mean([each[name + kind] for each in measures]) for name in ("coverage", "boosting")]
            figures = (f"{figure:.3f}" for figure in (promised, *shares))
            rows.append((one, method + kind, f"{answered:.0f}", error, *figures))
    columns = (
        "table",
        "circuit",
        "answered",
        "error ± sampling",
        "mean of seeds",
        "coverage",
        "boosting at this error",
    )
    return [f"Answered rows, risk {RISK:g}:", "", *table(columns, rows)]


def main() -> None:
    """Measure what is not known yet, and print the table."""
    parser = options(__doc__, RESULTS, most_rows=6_000)
    arguments = parser.parse_args()
    methods: dict[str, Model] = {"default": circuit}
    methods |= {structure: partial(circuit, structure=structure) for structure in arguments.structure}
    wanted = wanted_methods(parser, arguments, methods)
    records, seeds = Records(arguments.results), range(arguments.seeds)

    def names(one: str, method: str, seed: int) -> Names:
        return {"set": one, "seed": seed, "method": method, "most_rows": arguments.most_rows, "version": VERSION}

    found: dict[tuple[str, str], list[Measures]] = {}
    for one, (x, y) in measured_tables(arguments.folder, TARGETS, CLASSES, arguments.sets):
        for seed, method in product(seeds, wanted):
            asked = names(one, method, seed)
            if arguments.again or records.get(asked) is None:
                with one_thread(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # few rows, categories never seen: the figures tell
                    records.add(asked, measure(methods[method], x, y, arguments.most_rows, seed))
        for method in wanted:
            known = [records.get(names(one, method, seed)) for seed in seeds]
            found[one, method] = [each for each in known if each]
    print("\n".join(report(found)), flush=True)


if __name__ == "__main__":
    main()
