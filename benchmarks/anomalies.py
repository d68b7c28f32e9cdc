"""Finding anomalies in tables of numbers: circuits beside ten other detectors.

``python -m benchmarks.anomalies FOLDER`` takes every ``.npz`` file of a folder, with rows ``X`` and 1 in ``y`` for
anomalies. *Normal rows only*: detectors learn from 70 % of the normal rows, and score the others and all anomalies.
*Contaminated*: they learn from all rows and score the same. Seconds are of learning and scoring together, by one
thread. What was measured is kept in a file, and not measured again unless ``--again`` says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from benchmarks.detectors import BASELINES, CIRCUIT, Detector, detectors
from benchmarks.records import Measures, Names, Records, one_thread, options, table, timed, wanted_methods
from socratic.uncertainty import aupr, auroc

RESULTS = Path(__file__).parent / "results" / "anomalies.jsonl"
NORMAL, CONTAMINATED = PROTOCOLS = ("normal rows only", "contaminated")
TRAIN_SHARE = 0.7
VERSION = 1
"""Of what is measured: with another, nothing that was measured before counts."""


def subset(x: np.ndarray, y: np.ndarray, most_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many rows, drawn by the seed, and which of them are anomalies."""
    order = np.random.default_rng(seed).permutation(len(x))[:most_rows]
    return x[order].astype(np.float64), y[order] == 1


def measure(detector: Detector, x: np.ndarray, anomalous: np.ndarray, protocol: str, seed: int) -> Measures:
    """AUROC and AUPR of anomalies (the positives), and the seconds it took; the rows are in random order."""
    train, test, positive = x, None, anomalous
    if protocol == NORMAL:
        normal = x[~anomalous]
        n_train = round(TRAIN_SHARE * len(normal))
        train, test = normal[:n_train], np.concatenate([normal[n_train:], x[anomalous]])
        positive = np.arange(len(test)) >= len(normal) - n_train
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, singular covariances: the scores tell
        scores, seconds = timed(lambda: detector(train, test, seed))
    known, unknown = scores[~positive], scores[positive]
    return {"auroc": auroc(known, unknown), "aupr": aupr(known, unknown), "seconds": seconds}


def mean_ranks(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean rank (1 is best, ties share) of each method's values: among the others and one circuit.

    Circuits are ranked each without the other circuits, which would push them down; the others with the default one.
    """
    ranks = {}
    for name in values:
        others = [*BASELINES, CIRCUIT] if name in BASELINES else list(BASELINES)
        pool = [name, *(other for other in others if other in values and other != name)]
        ranks[name] = float(np.mean(rankdata([-np.asarray(values[one]) for one in pool], axis=0)[0]))
    return ranks


def report(found: Mapping[str, Mapping[str, Sequence[Measures]]], sets: Sequence[str]) -> list[str]:
    """Tables of means, and of each set; ``found`` has a measure for each set and seed, by protocol and method."""
    lines = []
    for protocol, methods in found.items():
        values = {name: [one["auroc"] for one in measures] for name, measures in methods.items()}
        ranks = mean_ranks(values)
        means = {
            name: [float(np.mean([one[kind] for one in measures])) for kind in ("auroc", "aupr", "seconds")]
            for name, measures in methods.items()
        }
        best = sorted(methods, key=lambda name: -means[name][0])
        rows = [
            (name, *(f"{value:.3f}" for value in means[name][:2]), f"{ranks[name]:.2f}", f"{means[name][2]:.2f}")
            for name in best
        ]
        lines += [f"{protocol.capitalize()}, means over {len(sets)} sets:", ""]
        lines += table(("method", "AUROC", "AUPR", "rank", "seconds"), rows)
        by_set = {name: np.reshape(values[name], (len(sets), -1)).mean(1) for name in best}
        lines += [f"{protocol.capitalize()}, AUROC:", ""]
        lines += table(
            ("set", *best), [(one, *(f"{by_set[name][i]:.3f}" for name in best)) for i, one in enumerate(sets)]
        )
    return lines


def main() -> None:
    """Measure what is not known yet, and print the tables."""
    parser = options(__doc__, RESULTS, most_rows=5000)
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    arguments = parser.parse_args()
    methods = detectors(arguments.structure)
    wanted = wanted_methods(parser, arguments, methods)
    sets = sorted(arguments.sets or (path.stem for path in arguments.folder.glob("*.npz")))
    records, seeds = Records(arguments.results), range(arguments.seeds)

    def names(protocol: str, one: str, seed: int, method: str) -> Names:
        settings = {"most_rows": arguments.most_rows, "version": VERSION}
        return {"protocol": protocol, "set": one, "seed": seed, "method": method, **settings}

    for one, seed in product(sets, seeds):
        data = np.load(arguments.folder / f"{one}.npz")
        x, anomalous = subset(data["X"], data["y"], arguments.most_rows, seed)
        for protocol, method in product(arguments.protocols, wanted):
            asked = names(protocol, one, seed, method)
            if arguments.again or records.get(asked) is None:
                records.add(asked, measure(methods[method], x, anomalous, protocol, seed))
    found: dict[str, dict[str, list[Measures]]] = {protocol: {} for protocol in arguments.protocols}
    for protocol, complete in found.items():
        for method in methods:
            known = [records.get(names(protocol, one, seed, method)) for one in sets for seed in seeds]
            if all(known):
                complete[method] = [measures for measures in known if measures is not None]
    print("\n".join(report(found, sets)))


if __name__ == "__main__":
    main()
