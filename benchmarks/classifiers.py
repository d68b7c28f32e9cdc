"""Classifiers of tables that are compared: circuits, a random forest, and gradient boosting.

Circuits read data frames as they are. The others get codes for text, one-hot (forest) or native categories (boosting),
medians and most frequent values for missing cells, and no text that is different in most rows, such as names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from socratic import CircuitClassifier

Model = Callable[[pd.DataFrame, int], Any]
"""A classifier to fit, for such columns and by a seed."""

_MOST_CATEGORIES = 50


def circuit(x: pd.DataFrame, seed: int, structure: str | None = None) -> CircuitClassifier:  # noqa: ARG001
    """The classifier with its defaults, but for the structure if one is given."""
    model = CircuitClassifier(random_state=seed)
    return model if structure is None else model.set_params(structure=structure)


def forest(x: pd.DataFrame, seed: int) -> Any:
    """A random forest of imputed cells and one-hot codes."""
    one_hot = OneHotEncoder(handle_unknown="ignore", max_categories=_MOST_CATEGORIES, sparse_output=False)
    return make_pipeline(_encoder(x, one_hot), RandomForestClassifier(random_state=seed))


def boosting(x: pd.DataFrame, seed: int, imputed: bool = True) -> Any:
    """Gradient boosting that stops early, of categories as such; with missing cells as such, too, unless imputed."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_MOST_CATEGORIES)
    encoder = _encoder(x, codes, imputed)
    n_numbers, n_texts = (len(columns) for _, _, columns in encoder.transformers)
    categorical = np.arange(n_numbers + n_texts) >= n_numbers
    model = HistGradientBoostingClassifier(
        early_stopping=True, categorical_features=categorical if n_texts else None, random_state=seed
    )
    return make_pipeline(encoder, model)


def _encoder(x: pd.DataFrame, categories: Any, imputed: bool = True) -> ColumnTransformer:
    """Numbers first, then codes of the text that is the same in many rows."""
    numbers = list(x.select_dtypes("number"))
    texts = [name for name in x if name not in numbers and x[name].nunique() < len(x) / 2]
    most_frequent = make_pipeline(SimpleImputer(strategy="most_frequent"), categories)
    return ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="median") if imputed else "passthrough", numbers),
            ("texts", most_frequent if imputed else categories, texts),
        ]
    )


def classifiers(structures: Sequence[str]) -> dict[str, Model]:
    """All by name: the circuits' default, those of other structures, and the others."""
    others = {f"circuit, {structure}": partial(circuit, structure=structure) for structure in structures}
    return {
        "circuit": circuit,
        **others,
        "random forest": forest,
        "boosting": boosting,
        "boosting, missing as such": partial(boosting, imputed=False),
    }
