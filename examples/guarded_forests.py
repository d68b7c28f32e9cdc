"""Random forests that meet a class they were not taught: alone, and guarded by a circuit.

``python -m examples.guarded_forests penguins.csv:species telco.csv:InternetService`` takes tables with the column that
holds the classes; without arguments it measures scikit-learn's wine and digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from socratic import CircuitGuard
from socratic.uncertainty import auroc

_MOST_CLASSES, _MOST_ROWS, _MOST_VALUES = 4, 6000, 20


def tables(files: list[str]) -> Iterator[tuple[str, pd.DataFrame, pd.Series]]:
    """Name, columns as numbers and classes of each table."""
    if not files:
        for name, load in (("wine", load_wine), ("digits", load_digits)):
            x, y = load(return_X_y=True, as_frame=True)
            yield name, x, y.astype(str)
    for file in files:
        path, _, target = file.rpartition(":")
        table = pd.read_csv(path).dropna(subset=[target]).reset_index(drop=True)
        columns = {name: _numbers(table[name]) for name in table if name != target}
        x = pd.DataFrame({name: column for name, column in columns.items() if column is not None})
        yield file, x.fillna(x.median()), table[target].astype(str)


def _numbers(column: pd.Series) -> pd.Series | None:
    """A column as numbers, few values as their codes; None if it is text of many."""
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(float)
    return column.astype("category").cat.codes.astype(float) if column.nunique() < _MOST_VALUES else None


def measure(x: pd.DataFrame, y: pd.Series) -> np.ndarray:
    """AUROC of the guard and of the forest, and known rows refused at 5 %: means over classes held out."""
    found = []
    for unknown in y.value_counts().index[:_MOST_CLASSES]:
        order = np.random.RandomState(0).permutation(len(y))
        known = order[(y != unknown).to_numpy()[order]][:_MOST_ROWS]
        train, test = train_test_split(known, test_size=0.25, random_state=0)
        train, held_out = train_test_split(train, test_size=0.3, random_state=0)
        forest = RandomForestClassifier(200, random_state=0).fit(x.iloc[train], y.iloc[train])
        guard = CircuitGuard(forest, random_state=0).fit(x.iloc[train], held_out=x.iloc[held_out])
        sets = x.iloc[test], x[y == unknown]
        alone = auroc(*(1.0 - forest.predict_proba(rows).max(1) for rows in sets))
        found.append([auroc(*(-guard.score_samples(rows) for rows in sets)), alone, guard.reject(sets[0]).mean()])
    return np.mean(found, axis=0)


def main() -> None:
    """Print a row for each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE:COLUMN", help="CSV files with the column of the classes")
    for name, x, y in tables(parser.parse_args().files):
        guard, alone, refused = measure(x, y)
        print(f"{name}: guard {guard:.3f}, forest {alone:.3f}, known rows refused {refused:.1%}", flush=True)


if __name__ == "__main__":
    main()
