"""Structures that held-out rows choose, within a time budget."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from socratic import CircuitClassifier, CircuitOutlierDetector, load
from socratic.estimators import comparing
from socratic.estimators.comparing import CANDIDATES, FEWEST_ROWS, MOST_ROWS
from socratic.estimators.preparation import prepare
from socratic.tables.raw import raw_table

Data = tuple[np.ndarray, np.ndarray]
TINY, AMPLE = 1e-9, 600.0

pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # nothing is held out to calibrate on


def smooth(n: int = 80, seed: int = 0) -> Data:
    """Two bell curves around one centre, of which one is wide: trees need many rows to go round them."""
    y = np.arange(n) % 2
    return np.random.default_rng(seed).normal(size=(n, 5)) * np.where(y[:, None], 1.0, 2.5), y


def parity(n: int = 80) -> Data:
    """A class that no column tells by itself, nor any two of three."""
    x = np.random.default_rng(0).integers(2, size=(n, 3))
    return x, x.sum(1) % 2


def classifier(time_budget: float = 0.0, **settings: object) -> CircuitClassifier:
    return CircuitClassifier(
        time_budget=time_budget,
        calibration_fraction=0.0,
        random_state=0,
        n_jobs=1,
        **settings,
    )


@pytest.fixture
def time_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], float]:
    """A clock that only structures move, each by a second, and a budget that so many of them fit in."""
    ticks = count()
    monkeypatch.setattr(comparing, "monotonic", lambda: float(next(ticks)))
    return lambda number: number - 0.5


def test_another_structure_than_the_forest_wins(time_for: Callable[[int], float], tmp_path: Path) -> None:
    x, y = smooth()
    model = classifier(time_for(2)).fit(x, y)
    print(model.structure_reason_)
    assert model.structure_ == "learnspn"
    said = re.fullmatch(
        r"held-out log-loss (0\.\d{3}) of 80 rows, against (0\.\d{3}) of forest, with no time left for random",
        model.structure_reason_,
    )
    assert said is not None
    best, forest = map(float, said.groups())
    assert best < forest - 0.1
    fresh, truth = smooth(1000, seed=1)
    assert log_loss(truth, model.predict_proba(fresh)) == pytest.approx(best, abs=0.1)
    asked = classifier(structure="learnspn").fit(x, y)
    assert np.array_equal(model.predict_proba(fresh), asked.predict_proba(fresh))
    model.save(tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert (again.structure_, again.structure_reason_) == (model.structure_, model.structure_reason_)
        assert again.time_budget == model.time_budget
        assert np.array_equal(again.predict_proba(fresh), model.predict_proba(fresh))
    assert clone(model).get_params() == model.get_params()


def test_the_forest_wins(time_for: Callable[[int], float]) -> None:
    model = classifier(time_for(2)).fit(*parity())
    assert model.structure_ == "forest"
    assert " of 20 rows, against 0." in model.structure_reason_


@pytest.mark.slow
def test_all_structures_are_tried_and_the_choice_can_be_repeated() -> None:
    x, y = smooth(40)
    first, second = (classifier(AMPLE).fit(x, y) for _ in range(2))
    others = [name for name in CANDIDATES if name != first.structure_]
    assert all(f" of {name}" in first.structure_reason_ for name in others)
    assert "time" not in first.structure_reason_
    assert first.structure_reason_ == second.structure_reason_
    assert np.array_equal(first.predict_proba(x), second.predict_proba(x))


def test_a_tiny_budget_tries_the_forest_alone(capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier(TINY, verbose=True).fit(*smooth())
    assert model.structure_ == "forest"
    assert model.structure_reason_.endswith(" of 80 rows, with no time left for learnspn and random")
    assert capsys.readouterr().out == ""


def test_without_a_budget_nothing_is_tried() -> None:
    model = classifier().fit(*smooth())
    assert (model.structure_, model.structure_reason_) == ("forest", "nothing asks for a circuit that is trained")


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater:UserWarning")
def test_too_few_rows_are_not_compared_on() -> None:
    x, y = smooth(60)
    model = classifier(AMPLE).fit(x, y, sample_weight=np.arange(60) < FEWEST_ROWS - 1)
    assert model.structure_ == "forest"
    assert model.structure_reason_ == "39 rows of 2 classes are too few to compare structures on"
    alone = classifier(AMPLE).fit(x, np.arange(60))  # no row can be held out
    assert alone.structure_reason_ == "60 rows of 60 classes are too few to compare structures on"


def test_arguments_for_circuits_that_are_trained_decide() -> None:
    model = classifier(AMPLE, n_epochs=1).fit(*smooth(40))
    assert (model.structure_, model.structure_reason_) == ("random", "n_epochs=1 is for circuits that are trained")


def test_a_budget_is_for_structures_that_are_not_asked_for() -> None:
    with pytest.raises(ValueError, match=r"time_budget=5 is for structure='auto', .*; got structure='forest'"):
        classifier(5, structure="forest").fit(*smooth())
    with pytest.raises(TypeError, match="time_budget"):
        CircuitOutlierDetector(time_budget=5)  # type: ignore[call-arg]


def test_rows_count_by_their_weights_which_learnspn_takes_if_they_are_whole_numbers() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(80, 2))
    coin = x[:, 0] < 0.0
    y = np.where(coin, rng.integers(2, size=80), x[:, 1] > 0.0)
    model = classifier(TINY).fit(x, y, sample_weight=np.where(coin, 0.01, 1.0))
    assert float(model.structure_reason_.split()[2]) < 0.2  # of coins, nobody knows more than log 2
    assert model.structure_reason_.endswith(", with no time left for random, learnspn takes no such weights")


def test_rare_classes_and_values_seen_once(time_for: Callable[[int], float]) -> None:
    x, y = smooth(90)
    frame = pd.DataFrame(x, columns=list("abcde")).assign(kind=np.where(np.arange(90) < 87, "usual", "odd"))
    frame.loc[89, "kind"] = "never again"
    labels = np.array(["no", "yes"], dtype=object)[y]
    labels[:3] = ["rare", "twice", "twice"]
    model = classifier(time_for(2)).fit(frame, labels)
    assert " of 89 rows, against " in model.structure_reason_  # a class of one row has none to spare
    assert model.classes_.tolist() == ["no", "rare", "twice", "yes"]


def test_of_large_tables_a_part_is_compared_on() -> None:
    labels = np.repeat([0, 1, 2], [7000, 2997, 3])
    part = comparing._sample(labels, np.random.default_rng(0))
    assert len(part) == len(np.unique(part)) == MOST_ROWS
    assert np.abs(np.bincount(labels[part]) - 0.4 * np.bincount(labels)).max() <= 1
    rows = prepare(raw_table(np.arange(MOST_ROWS)[:, None] * 0.1), labels[part], np.ones(MOST_ROWS), None)
    folds = comparing._folds(rows, np.random.default_rng(0))
    assert set(folds) == {-1, 0}
    assert (folds == 0).sum() == pytest.approx(0.25 * MOST_ROWS, abs=2)
    assert 2 in rows.labels[folds == -1]
