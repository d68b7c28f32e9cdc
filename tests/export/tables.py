"""A mixed table with missing values, and rows that hold what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def mixed(n_rows: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows and their classes, which differ in all columns but one that is always the same."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    frame = pd.DataFrame(
        {
            "size": rng.normal(2 * y, 1.0, n_rows),
            "income": np.exp(rng.normal(9 + y, 1.2, n_rows)),
            "always": np.full(n_rows, 4.0),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "kind": np.where(rng.random(n_rows) < 0.7, y, rng.integers(4, size=n_rows)).astype(str),
            "member": rng.random(n_rows) < 0.2 + 0.3 * y,
        }
    )
    for name in ("size", "colour", "kind"):
        frame.loc[rng.random(n_rows) < 0.1, name] = None
    return frame, np.array(["no", "maybe", "yes"])[y]


def strange(n_rows: int, seed: int = 1) -> Any:
    """Rows of the same kind, with holes, far values, unknown categories and constants that have changed."""
    rng = np.random.default_rng(seed)
    frame = mixed(n_rows, seed)[0]
    frame.loc[::5, "colour"] = "pink"
    frame.loc[2::7, "kind"] = "9"
    frame.loc[3::11, "always"] = 5.0
    frame.loc[4::13, "income"] = 1e12
    frame.loc[rng.random(n_rows) < 0.3, "income"] = np.nan
    frame.loc[6::17, ["size", "income", "always"]] = np.nan
    return frame
