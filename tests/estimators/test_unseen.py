"""Values that training never saw count against their rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import socratic
from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitGuard, CircuitOutlierDetector

FEW: dict[str, Any] = {"n_epochs": 5, "n_sums": 3, "n_repetitions": 2, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:values not seen in training", "ignore::socratic.CalibrationWarning")


def table(n: int = 700) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose weight depends on their colour, one of which is rare, and a country that is always the same."""
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    colour[:6] = "amber"
    frame = pd.DataFrame(
        {
            "weight": rng.normal(np.where(colour == "red", 3.0, 0.0), 1.0),
            "colour": colour,
            "visits": rng.poisson(4.0, n).astype(float),
            "country": 49.0,
            "size": rng.normal(size=n),
        }
    )
    return frame, (colour == "red").astype(int)


ROWS, LABELS = table()
LEAF = {"visits": "poisson"}
Judge = Callable[[pd.DataFrame], np.ndarray]


def classifier() -> Judge:
    model = CircuitClassifier(structure="random", leaf=LEAF, **FEW).fit(ROWS, LABELS)
    return lambda rows: model.uncertainty(rows).p_value


def detector() -> Judge:
    return CircuitOutlierDetector(structure="random", leaf=LEAF, **FEW).fit(ROWS).p_value


def learned() -> Judge:
    return CircuitOutlierDetector(structure="learnspn", leaf=LEAF, random_state=0).fit(ROWS).p_value


def guard() -> Judge:
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = make_pipeline(codes, RandomForestClassifier(20, random_state=0)).fit(ROWS[:200], LABELS[:200])
    density = CircuitDensity(structure="random", leaf=LEAF, **FEW)
    return CircuitGuard(model, density=density, random_state=0).fit(ROWS[200:], unseen=True).p_value


@pytest.fixture(scope="module", params=[classifier, detector, learned, guard])
def p_value(request: pytest.FixtureRequest) -> Judge:
    return request.param()


def test_an_unseen_category_is_no_more_familiar_than_the_rarest(p_value: Judge) -> None:
    rows = ROWS[200:400]
    unseen, rarest = (p_value(rows.assign(colour=colour)) for colour in ("mauve", "amber"))
    assert (unseen <= rarest + 1e-12).all()
    assert unseen.mean() < 0.5 * p_value(rows).mean()


def test_an_unseen_category_of_a_well_known_column_is_refused(p_value: Judge) -> None:
    assert (p_value(ROWS[200:400].assign(colour="mauve")) <= 0.05).all()
    assert (p_value(ROWS) <= 0.05).mean() < 0.1


def test_a_constant_that_changes_and_an_impossible_number_are_refused(p_value: Judge) -> None:
    rows = ROWS[200:260]
    assert (p_value(rows.assign(country=1.0)) <= 0.02).all()
    assert (p_value(rows.assign(visits=-1.0)) <= 0.02).all()
    np.testing.assert_array_equal(p_value(rows.assign(country=49.0 + 1e-9)), p_value(rows))  # rounded otherwise


def test_forests_notice_them_too() -> None:
    model = CircuitClassifier(structure="forest", random_state=0).fit(ROWS, LABELS)

    def p_value(**changes: Any) -> np.ndarray:
        return model.uncertainty(ROWS[200:400].assign(**changes)).p_value

    assert (p_value(colour="mauve") <= p_value(colour="amber") + 1e-12).all()
    assert (p_value(country=1.0) <= 0.02).all()


def test_reasons_name_the_column_first() -> None:
    model = CircuitOutlierDetector(structure="random", leaf=LEAF, **FEW).fit(ROWS)
    for strange in ({"colour": "mauve"}, {"country": 1.0}, {"visits": 0.5}):
        reasons = model.explain(ROWS[:3].assign(weight=9.0, **strange))
        assert {row[0].name for row in reasons.top(2)} == {*strange}
        assert {row[1].name for row in reasons.top(2)} == {"weight"}


def test_posteriors_and_completions_take_them_as_missing() -> None:
    model = CircuitClassifier(structure="random", leaf=LEAF, **FEW).fit(ROWS, LABELS)
    strange, missing = ROWS[:5].assign(colour="mauve", country=1.0), ROWS[:5].assign(colour=None, country=np.nan)
    np.testing.assert_allclose(model.predict_proba(strange), model.predict_proba(missing))
    np.testing.assert_allclose(model.conditional(strange, ["weight"]), model.conditional(missing, ["weight"]))


def test_the_mass_of_unseen_values_comes_from_singletons() -> None:
    rng = np.random.default_rng(1)
    names = np.append(rng.choice(list("abc"), 90), [f"once {k}" for k in range(10)])
    frame = pd.DataFrame({"name": names, "flag": np.arange(100) % 2 == 0, "never": False})
    model = CircuitDensity(structure="random", validation_fraction=0.0, **FEW).fit(frame)
    name, flag, never = model.table_.columns
    assert name.unseen == pytest.approx(10 / 101)
    assert flag.unseen == never.unseen == pytest.approx(0.5 / 101)
    assert (flag.log_seen, never.log_seen) == (0.0, math.log1p(-0.5 / 101))
    assert len(name.rarest) == 8  # of ten equally rare ones
    known, unseen = model.score_samples(frame[:1]), model.score_samples(frame[:1].assign(name="twice"))
    missing = model.score_samples(frame[:1].assign(name=None))
    np.testing.assert_allclose(unseen - missing, math.log(10 / 101))
    assert known[0] > unseen[0]
    np.testing.assert_allclose(
        model.score_samples(frame[:1].assign(never=True)) - model.score_samples(frame[:1].assign(never=None)),
        math.log(0.5 / 101),
    )


def test_how_rare_unseen_categories_are_adds_up_over_columns() -> None:
    rng = np.random.default_rng(1)
    often, once = rng.choice(list("abc"), (100, 2)).T, [f"once {k}" for k in range(10)]
    frame = pd.DataFrame({"a": often[0], "b": often[1], "c": [*often[0][:90], *once], "d": rng.normal(size=100)})
    table = CircuitDensity(structure="random", validation_fraction=0.0, **FEW).fit(frame).table_
    half, ten = 0.5 / 101, 10 / 101
    np.testing.assert_allclose(table.unseen_of_columns, [2 * half, 2 * half, 2 * half + ten, 1.0])
    codes = np.zeros((4, 4))
    codes[1, 0] = codes[2, 2] = codes[3, [0, 2, 3]] = np.inf
    np.testing.assert_allclose(table.unseen(codes), [1.0, 2 * half, 2 * half + ten, 2 * half])


def test_values_of_held_out_rows_alone_are_unseen() -> None:
    frame = pd.DataFrame({"name": [f"{k % 3}" for k in range(700)], "size": np.random.default_rng(0).normal(size=700)})
    frame.loc[:200, "name"] = [f"rare {k}" for k in range(201)]
    model = CircuitOutlierDetector(structure="random", **FEW).fit(frame)
    counts = np.array(model.table_.columns[0].counts)
    assert (counts == 0).sum() > 20
    assert set(counts[counts > 0][3:]) == {1.0}
    fresh = frame[:200].assign(name=[f"fresh {k}" for k in range(200)])
    assert (model.p_value(fresh) <= 0.05).mean() < 0.25  # nearly every third row is one of them


def test_files_keep_them(tmp_path: Path) -> None:
    model = CircuitClassifier(structure="random", leaf=LEAF, **FEW).fit(ROWS, LABELS)
    model.save(tmp_path / "model")
    strange = ROWS[:20].assign(colour="mauve")
    again = socratic.load(tmp_path / "model")
    np.testing.assert_array_equal(again.uncertainty(strange).p_value, model.uncertainty(strange).p_value)
    assert again.table_ == model.table_
