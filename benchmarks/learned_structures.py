"""Learned structures: ``python -m benchmarks.learned_structures`` prints accuracies, likelihoods and times.

Accuracies are means over folds of shuffled cross-validation, beside a random forest's on the same folds; the forest
gets column means where values are missing, circuits marginalise them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold
from tests.learning.structure.graphs import log_likelihood, topological
from tests.learning.structure.tables import TABLES, MixedTable, generate

from benchmarks.records import table
from socratic.circuit import Node
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian
from socratic.learning import Rows, fit_em
from socratic.learning.structure import chow_liu_tree, hidden_chow_liu, learn_class_spns, learn_spn

Row = tuple[str, ...]
Learner = Callable[[np.ndarray, np.ndarray], tuple[Node, ...]]


def accuracy(learn: Learner, x: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Share of test rows whose class has the largest prior times likelihood."""
    joint = log_likelihood(learn(x[train], y[train]), x[test]) + np.log(np.bincount(y[train]) / len(train))
    return float(np.mean(joint.argmax(1) == y[test]))


def cross_validated(name: str, learn: Learner, x: np.ndarray, y: np.ndarray, n_seeds: int) -> Row:
    """Mean accuracies of a forest and of circuits, and the seconds it takes to learn the circuits once."""
    forest, circuits = [], []
    filled = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    for seed in range(n_seeds):
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, y):
            model = RandomForestClassifier(random_state=seed).fit(filled[train], y[train])
            forest.append(model.score(filled[test], y[test]))
            circuits.append(accuracy(learn, x, y, train, test))
    start = time.perf_counter()
    n_nodes = len(topological(learn(x, y)))
    seconds = time.perf_counter() - start
    return (
        name,
        f"{np.mean(forest):.4f}",
        f"{np.mean(circuits):.4f}",
        f"{100 * (np.mean(circuits) - np.mean(forest)):+.1f}",
        f"{n_nodes:,}",
        f"{seconds:.1f} s",
    )


def accuracy_rows() -> list[Row]:
    """LearnSPN at its defaults on real and generated tables."""

    def spns(families: str | Family | list[Family], min_variance: float = 0.01) -> Learner:
        return lambda x, y: learn_class_spns(x, y, families, min_variance=min_variance)

    rows = []
    for name, load in (("iris", load_iris), ("wine", load_wine), ("breast cancer", load_breast_cancer)):
        x, y = load(return_X_y=True)
        rows.append(cross_validated(name, spns("gaussian"), x, y, n_seeds=3))
    x, y = load_digits(return_X_y=True)
    rows.append(cross_validated("digits, Gaussian", spns("gaussian"), x, y, n_seeds=1))
    rows.append(cross_validated("digits, Gaussian, min_variance=0.1", spns("gaussian", 0.1), x, y, n_seeds=1))
    rows.append(cross_validated("digits, binomial", spns(Binomial(16)), x, y, n_seeds=1))
    for kind in TABLES:
        x, y, families = generate(kind, 1500, missing=0.1, seed=0)
        rows.append(cross_validated(f"{kind.__name__} (generated)", spns(families), x, y, n_seeds=1))
    return rows


def trained_hidden_tree(x: np.ndarray, family: Family, n_states: int) -> Node:
    """A hidden Chow-Liu tree after expectation maximisation, as nodes."""
    circuit = hidden_chow_liu(x, family, n_states=n_states)
    values = torch.from_numpy(x).float()
    fit_em(circuit, Rows(values, torch.zeros(len(x), dtype=torch.long), torch.ones(len(x))), n_epochs=40, batch_size=50)
    return circuit.to_graph().roots[0]


def tree_rows() -> list[Row]:
    """Discrete digits: accuracy, and mean log-likelihood of the true class in nats."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1400], order[1400:]
    rows: list[Row] = []
    for name, values, family in (
        ("two levels", (x > 7).astype(float), Bernoulli()),
        ("five levels", np.floor(x / 4.0).clip(0, 4), Categorical(5)),
    ):
        learners: dict[str, Callable[[np.ndarray, Family], Node]] = {
            "Chow-Liu": chow_liu_tree,
            **{f"hidden Chow-Liu, {n} states": partial(trained_hidden_tree, n_states=n) for n in (2, 4, 8)},
            "LearnSPN": learn_spn,
        }
        for learner, learn in learners.items():
            start = time.perf_counter()
            roots = [learn(values[train][y[train] == c], family) for c in range(10)]
            seconds = time.perf_counter() - start
            found = log_likelihood(roots, values[test])
            rows.append(
                (
                    f"{learner}, {name}",
                    f"{np.mean(found.argmax(1) == y[test]):.4f}",
                    f"{found[np.arange(len(test)), y[test]].mean():.2f}",
                    f"{len(topological(roots)):,}",
                    f"{seconds:.1f} s",
                )
            )
    return rows


def factors(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Twenty mixed columns that all depend on three hidden factors: hard, because no columns are independent."""
    values = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, 20)) + 0.7 * rng.normal(size=(n_rows, 20))
    values[:, 10:15] = values[:, 10:15] > 0
    values[:, 15:] = np.clip(np.round(values[:, 15:]) + 2, 0, 4)
    return MixedTable(values, np.zeros(n_rows, dtype=int), [Gaussian()] * 10 + [Bernoulli()] * 5 + [Categorical(5)] * 5)


def mixture(n_rows: int, rng: np.random.Generator) -> MixedTable:
    """Twenty mixed columns in four independent blocks."""
    parts = [kind(n_rows, rng) for kind in (*TABLES[:2], TABLES[3], TABLES[4])]
    x, families = np.hstack([part.x for part in parts]), [family for part in parts for family in part.families]
    return MixedTable(x[:, :20], parts[0].y, families[:20])


def time_rows() -> list[Row]:
    """LearnSPN on 100,000 rows of 20 mixed columns, 5% of the values missing; likelihood of 2,000 more rows."""
    rows: list[Row] = []
    for kind in (mixture, factors):
        x, _, families = generate(kind, 102_000, missing=0.05, seed=0)
        for min_rows in (30, 300):
            start = time.perf_counter()
            root = learn_spn(x[:100_000], families, min_rows=min_rows)
            seconds = time.perf_counter() - start
            value = log_likelihood([root], x[100_000:]).mean()
            size = f"{len(topological([root])):,}"
            rows.append((kind.__name__, str(min_rows), f"{seconds:.1f} s", size, f"{value:.2f}"))
    return rows


def main() -> None:
    """Measure, print and write the tables."""
    lines = [f"# Learned structures: {platform.machine()} CPU, Python {platform.python_version()}", ""]
    lines += ["LearnSPN, five-fold cross-validation (three seeds for the first three):", ""]
    header = ("table", "random forest", "LearnSPN", "points", "nodes", "time to learn")
    lines += table(header, accuracy_rows())
    lines += ["Digits as categories, 1,400 rows to learn from and 397 to test:", ""]
    lines += table(("learner", "accuracy", "log-likelihood", "nodes", "time to learn"), tree_rows())
    lines += ["LearnSPN on 100,000 rows of 20 mixed columns, 5% of the values missing:", ""]
    lines += table(("columns", "min_rows", "time to learn", "nodes", "log-likelihood of new rows"), time_rows())
    text = "\n".join(lines)
    (Path(__file__).parent / "results" / "learned_structures.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
