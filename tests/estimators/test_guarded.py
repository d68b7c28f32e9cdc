"""How a model is asked, whatever kind of model it is, and what is said of answers that are no probabilities."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from socratic.estimators.guarded import ask, check_model, classes_of, entropy

ROWS = np.random.default_rng(0).normal(size=(2500, 3))


def halves(rows: Any) -> np.ndarray:
    """Two classes, by the sum of a row."""
    right = 1.0 / (1.0 + np.exp(-np.asarray(rows, dtype=np.float64).sum(1).clip(-30.0, 30.0)))
    return np.column_stack([1.0 - right, right])


def test_a_classifier_is_asked_as_it_is() -> None:
    model = LogisticRegression().fit(ROWS, np.where(ROWS[:, 0] > 0, "right", "left"))
    answer = ask(model, ROWS)
    np.testing.assert_array_equal(answer, model.predict_proba(ROWS))
    assert classes_of(model, answer).tolist() == ["left", "right"]


@pytest.mark.parametrize("rows", [ROWS, pd.DataFrame(ROWS, columns=list("abc")), torch.as_tensor(ROWS)])
def test_a_callable_gets_rows_of_the_kind_that_was_given_some_at_a_time(rows: Any) -> None:
    seen: list[tuple[type, int]] = []

    def model(batch: Any) -> np.ndarray:
        seen.append((type(batch), len(batch)))
        return halves(batch)

    answer = ask(model, rows)
    np.testing.assert_array_equal(answer, halves(ROWS))
    assert seen == [(type(rows), 1000), (type(rows), 1000), (type(rows), 500)]
    assert classes_of(model, answer).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_network_gets_tensors_of_its_type(dtype: torch.dtype) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softmax(1)).to(dtype).eval()
    answer = ask(network, ROWS.astype(np.float32))
    with torch.no_grad():
        expected = network(torch.as_tensor(ROWS.astype(np.float32)).to(dtype)).double().numpy()
    np.testing.assert_array_equal(answer, expected)
    assert answer.dtype == np.float64


def test_a_callable_may_answer_with_a_tensor_that_has_a_gradient() -> None:
    layer = torch.nn.Linear(3, 2)
    answer = ask(lambda rows: layer(torch.as_tensor(rows, dtype=torch.float32)).softmax(1), ROWS)
    assert answer.shape == (2500, 2)


def test_a_network_in_training_is_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(), torch.nn.Softmax(1))
    with pytest.raises(ValueError, match=r"network in training mode, .*: call model\.eval\(\)"):
        ask(network, ROWS)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: halves(rows)[:-1], "of the shape (1000, C); got (999, 2)"),
        (lambda rows: halves(rows)[:, 1], "got (1000,): for two classes return both, np.column_stack([1 - p, p])"),
        (lambda rows: [halves(rows), halves(rows)], "of the shape (1000, C); got (2, 1000, 2)"),
        (lambda rows: 2.0 * halves(rows), "with a sum of 2: scores of a network become probabilities by softmax"),
        (lambda rows: np.tile([1.5, -0.5], (len(rows), 1)), "those of row 0 are [ 1.5 -0.5]"),
        (lambda rows: np.tile(np.inf, (len(rows), 2)), "those of row 0 are [inf inf]"),
    ],
)
def test_answers_that_are_no_probabilities_are_refused(answer: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"model must give probabilities .*{re.escape(message)}"):
        ask(answer, ROWS)


def test_every_batch_has_the_same_classes() -> None:
    widths = iter([2, 3, 2])
    with pytest.raises(ValueError, match="model must give each batch as many classes; got 2 and 3"):
        ask(lambda rows: np.full((len(rows), width := next(widths)), 1.0 / width), ROWS)


def test_half_precision_and_rows_without_an_answer_pass() -> None:
    assert np.allclose(ask(lambda rows: halves(rows).astype(np.float16), ROWS).sum(1), 1.0, atol=1e-3)
    answer = ask(lambda rows: np.where(np.asarray(rows)[:, :1] > 1.0, np.nan, halves(rows)), ROWS)
    np.testing.assert_array_equal(np.isnan(entropy(answer)), ROWS[:, 0] > 1.0)


def test_no_rows_have_no_answers() -> None:
    assert ask(halves, ROWS[:0]).shape == (0, 2)


def test_entropy() -> None:
    np.testing.assert_allclose(entropy(np.array([[1.0, 0.0], [0.5, 0.5]])), [0.0, np.log(2.0)], atol=1e-15)


@pytest.mark.parametrize("model", [LinearSVC(), 3, None, LogisticRegression])
def test_what_cannot_be_asked_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="model must be a fitted classifier with predict_proba, or a callable from"):
        check_model("model", model)


def test_classes_that_do_not_fit_the_answer_are_refused() -> None:
    model = LogisticRegression().fit(ROWS, np.arange(2500) % 3)
    with pytest.raises(ValueError, match="model must give a probability for each of its 3 classes; got 2"):
        classes_of(model, halves(ROWS))
