"""What estimators can say of a table beyond a score: samples, completions and conditional probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count
from socratic.inference.queries import conditional_log_likelihood, conditional_sample, expectation, mpe, sample
from socratic.tables.columns import Table, no_column
from socratic.tables.inputs import check_columns, encode_rows
from socratic.tables.raw import arrow_table

IMPUTE_METHODS = ("mean", "sample", "mpe")


class GenerativeMixin:
    """Queries of a fitted estimator with a ``circuit_`` and a ``table_``; ``class_prior_``, if any, mixes classes."""

    circuit_: Circuit | Graph
    table_: Table

    @torch.no_grad()
    def conditional(self, X: Any, given: Sequence[str | int]) -> np.ndarray:  # noqa: N803
        """Log-probability of the other columns of each row, given some of them.

        Parameters
        ----------
        X : array or data frame (N, V)
            Missing values are integrated out, among the given columns and among the others.
        given : sequence of str or int
            The columns that are known, by name or position.

        Returns
        -------
        ndarray (N,)
            Log-densities in the units of the data.
        """
        check_is_fitted(self)
        rows = encode_rows(self, X)
        known = self._positions(given)
        evidence = torch.full_like(rows, torch.nan)
        evidence[:, known] = rows[:, known]
        values = conditional_log_likelihood(self.circuit_, rows, evidence, class_prior=self._prior_of_classes())
        asked = torch.where(evidence.isnan(), rows, torch.nan).double().cpu().numpy()
        return values.double().cpu().numpy() - self.table_.log_volume(asked)

    def impute(self, X: Any, *, method: str = "mean", random_state: Any = None) -> Any:  # noqa: N803
        """Fill in what is missing, from what is there.

        Parameters
        ----------
        X : array or data frame (N, V)
        method : {"mean", "sample", "mpe"}
            Conditional expectations of numbers and the most probable category, each column by itself; a draw from
            the joint conditional distribution; or the jointly most probable values (by max-product). Of numbers with
            heavy tails, which are drawn in by asinh, expectation and mode are those of what they are drawn in to.
        random_state : int, RandomState or None
            Of the draw.

        Returns
        -------
        Like ``X``: an array or a data frame (N, V), in the units and categories of the data
            What was there is unchanged.
        """
        check_is_fitted(self)
        check_choice("method", method, IMPUTE_METHODS)
        missing = check_columns(self, X, reset=False).missing
        if arrow_table(X) is not None:
            raise ValueError(f"X must be an array or a pandas data frame to be filled in; got {type(X).__name__}")
        filled = self._complete(encode_rows(self, X), method, random_state).double().cpu().numpy()
        columns = self.table_.decode(filled)
        if not hasattr(X, "iloc"):
            return np.where(missing, np.column_stack(columns).astype(np.float64), np.asarray(X, dtype=np.float64))
        result = X.copy()
        for position in np.flatnonzero(missing.any(0)):
            name = X.columns[position]
            result[name] = _filled(X[name], missing[:, position], columns[position])
        return result

    def _complete(self, rows: torch.Tensor, method: str, random_state: Any) -> torch.Tensor:
        """Encoded rows (N, V) without missing values."""
        prior = self._prior_of_classes()
        if method == "sample":
            seed = _seed(random_state)
            return conditional_sample(self.circuit_, rows, class_prior=prior, seed=seed).x.squeeze(1)
        if method == "mpe":
            return mpe(self.circuit_, rows, class_prior=prior).x
        categorical = [index for index, column in enumerate(self.table_.columns) if column.categories is not None]
        expected = expectation(self.circuit_, rows, tables=categorical, class_prior=prior)
        filled = expected.mean.clone()
        for variable, probabilities in expected.probabilities.items():
            filled[:, variable] = probabilities.argmax(1).to(filled.dtype)
        return filled

    def _sample(self, n_samples: int, random_state: Any, class_index: int | None = None) -> tuple[Any, np.ndarray]:
        """Rows, a data frame if it was fitted on one, and the number of each row's class."""
        check_is_fitted(self)
        prior = self._prior_of_classes() if class_index is None else None
        n_samples = check_count("n_samples", n_samples)
        drawn = sample(self.circuit_, n_samples, class_index=class_index, class_prior=prior, seed=_seed(random_state))
        columns = self.table_.decode(drawn.x.double().cpu().numpy())
        classes = drawn.classes.cpu().numpy()
        names = getattr(self, "feature_names_in_", None)
        known = [column.categories or () for column in self.table_.columns]
        if names is None and not any(isinstance(value, str) for values in known for value in values):
            boolean = all(values == (False, True) and isinstance(values[0], bool) for values in known)
            return np.column_stack(columns).astype(bool if boolean else np.float64), classes
        import pandas as pd

        if names is None:  # a frame whose columns have no text as names
            names = [column.name for column in self.table_.columns]
        return pd.DataFrame(dict(zip(names, columns, strict=True))), classes

    def _prior_of_classes(self) -> list[float] | None:
        prior = getattr(self, "class_prior_", None)
        return None if prior is None else prior.tolist()

    def _positions(self, given: Sequence[str | int]) -> list[int]:
        names = [column.name for column in self.table_.columns]
        positions = []
        for column in [given] if isinstance(given, str | int) else given:
            if isinstance(column, bool) or (column not in names and column not in range(len(names))):
                raise no_column("given", column, names)
            positions.append(names.index(column) if isinstance(column, str) else int(column))
        return positions


class LabelledGenerativeMixin(GenerativeMixin):
    """The same for classifiers: samples come with their labels."""

    classes_: np.ndarray

    def sample(self, n_samples: int = 1, *, label: Any = None, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw labelled rows.

        Parameters
        ----------
        n_samples : int
        label : object, optional
            The class to draw from; by default each row's class is drawn, too, with the class prior.
        random_state : int, RandomState or None

        Returns
        -------
        X : array or data frame (n_samples, V)
            A data frame if it was fitted on one.
        y : ndarray (n_samples,)
        """
        check_is_fitted(self)
        class_index = None
        if label is not None:
            (found,) = np.nonzero(self.classes_ == label)
            if not len(found):
                raise ValueError(f"label must be one of {self.classes_.tolist()}; got {label!r}")
            class_index = int(found[0])
        rows, classes = self._sample(n_samples, random_state, class_index)
        return rows, self.classes_[classes]


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))


def _filled(series: Any, missing: np.ndarray, values: np.ndarray) -> Any:
    """A data frame's column with its missing entries replaced, in its own type where that can hold them."""
    if values.dtype.kind == "f":
        return series.astype("float64").mask(missing, values)
    merged = series.astype(object).mask(missing, values).infer_objects()
    kept = merged.astype(series.dtype)
    return merged if series.dtype == object or kept.isna().any() else kept
