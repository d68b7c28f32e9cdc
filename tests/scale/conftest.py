"""A model, and folders of tables for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from socratic.estimators import CircuitClassifier

pytest.importorskip("pyarrow")


def table(n_rows: int, seed: int) -> pd.DataFrame:
    """Two classes that differ in every column; some ages are missing."""
    rng = np.random.default_rng(seed)
    yes = rng.random(n_rows) < 0.5
    age = np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(40 + 10 * yes, 5))
    colours = np.where(yes, rng.choice(["red", "blue"], n_rows), rng.choice(["green", "blue"], n_rows))
    return pd.DataFrame({"row": np.arange(n_rows) + 1000 * seed, "age": age, "colour": colours, "outcome": yes})


def fit_model(path: Path, seed: int) -> Path:
    frame = table(200, seed)
    model = CircuitClassifier(n_epochs=1, n_sums=2, n_repetitions=1, random_state=seed, n_jobs=1)
    model.fit(frame[["age", "colour"]], np.where(frame["outcome"], "yes", "no")).save(path)
    return path


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model`` and ``other``, which no test changes."""
    folder = tmp_path_factory.mktemp("models")
    fit_model(folder / "model", 100)
    fit_model(folder / "other", 101)
    return folder


def write_tables(folder: Path, n_files: int = 4, n_rows: int = 30) -> Path:
    """``folder`` with Parquet and CSV files at two depths."""
    for place in range(n_files):
        path = folder / ("more" if place % 2 else "") / f"part{place}.{'csv' if place % 4 == 3 else 'parquet'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame = table(n_rows, place)
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder but the lock, which is there where files can be locked, by their paths in it."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != "_manifest/lock"}
