"""A scorer says what the model says, here and in other processes."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from socratic import rat_spn
from socratic.estimators import (
    CircuitClassifier,
    CircuitDensity,
    CircuitImageClassifier,
    CircuitImageDensity,
    CircuitOutlierDetector,
)
from socratic.scoring import ANSWER_COLUMNS, Columns, ImageScorer, TableScorer, scorer_of
from socratic.tables.columns import Unknown

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 5, 200),
            "member": rng.random(200) < 0.5,
            "colour": rng.choice(["red", "green", "blue"], 200),
        }
    )


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> CircuitClassifier:
    labels = np.where(frame["member"], "yes", "no")
    return CircuitClassifier(n_epochs=2, n_sums=2, n_repetitions=1, random_state=0, n_jobs=1).fit(frame, labels)


def batch_of(frame: pd.DataFrame) -> Any:
    return pa.RecordBatch.from_pandas(frame, preserve_index=False)


def test_it_says_what_the_model_says(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    found = TableScorer(model)(batch_of(frame.assign(more=1)[["colour", "more", "member", "age"]])).to_pydict()
    assert tuple(found) == ANSWER_COLUMNS
    doubt, shares = model.uncertainty(frame), model.predict_proba(frame)
    best = shares.argmax(1)
    assert found["label"] == model.predict(frame).tolist()
    assert np.array_equal(found["probability"], shares.max(1))
    assert np.array_equal(found["entropy"], doubt.entropy)
    assert np.array_equal(found["std"], doubt.std[np.arange(200), best])
    assert np.array_equal(found["p_value"], doubt.p_value)
    assert np.array_equal(found["risk"], model.risks(model.answer(frame)))
    assert found["verdict"] == np.where(model.reject(frame), "unfamiliar", "familiar").tolist()


def test_columns_are_those_asked_for(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    scorer, batch = TableScorer(model), batch_of(frame.head(20).assign(age=4000.0))
    full = scorer(batch, columns=Columns())
    assert full.schema.names == scorer.added(Columns()) == [*ANSWER_COLUMNS, "p(no)", "p(yes)", "reasons"]
    assert np.array_equal(full.column("p(no)"), model.predict_proba(frame.head(20).assign(age=4000.0))[:, 0])
    assert full.column("reasons").to_pylist()[0].startswith("age; ")
    less = scorer(batch, columns=Columns("my_", probabilities=False))
    assert less.schema.names == [*(f"my_{name}" for name in ANSWER_COLUMNS), "my_reasons"]
    assert less.column(Columns("my_").verdict).equals(full.column("verdict"))
    with pytest.raises(ValueError, match=r"rows has a column 'risk' already; .* prefix my_"):
        scorer.check_names(Columns(), [*scorer.names, "risk"], "rows")
    scorer.check_names(Columns("my_"), [*scorer.names, "risk"], "rows")
    with pytest.raises(ValueError, match="rows has no column 'member'; the model was trained on it"):
        scorer.check_names(Columns(), ["age", "colour"], "rows")


def test_reasons_are_of_rows_that_are_not_answered(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    scorer, odd = TableScorer(model), frame.head(20).assign(age=[4000.0, *frame["age"][1:20]])
    reasons = scorer(batch_of(odd), columns=Columns()).column("reasons").to_pylist()
    assert reasons[0].startswith("age; ")
    model.set_params(risk=0.001)
    again = scorer(batch_of(odd), columns=Columns()).column("reasons").to_pylist()
    verdict = model.verdicts(model.answer(odd))
    model.set_params(risk=None)
    assert again[0] == reasons[0]
    ambiguous = verdict == "ambiguous"
    assert set(np.array(again)[ambiguous]) <= {"yes or no", "no or yes"}
    assert set(np.array(reasons)[ambiguous]) == {""}


def test_rows_that_are_not_answered_are_read_once(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    class Counting(TableScorer):
        n_read = 0

        def _read(self, batch: Any, start: int, unknown: dict[str, Unknown]) -> torch.Tensor:
            self.n_read += batch.num_rows
            return super()._read(batch, start, unknown)

    scorer, odd = Counting(model), frame.head(20).assign(age=4000.0)
    found = scorer(batch_of(odd), columns=Columns())
    assert set(found.column("verdict").to_pylist()) == {"unfamiliar"}
    assert scorer.n_read == 20


def test_text_stands_for_what_it_says(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    words = frame.assign(age=frame["age"].map(repr), member=frame["member"].map(lambda yes: " TRUE" if yes else "0"))
    assert TableScorer(model)(batch_of(words)).equals(TableScorer(model)(batch_of(frame)))


def test_unknown_values_are_counted(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    scorer = TableScorer(model)
    strange = frame.head(6).assign(colour=["mauve", "red", "pink", None, "mauve", "red"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            scorer.answer(batch_of(strange))
    assert scorer.unknown == {"colour": (6, "mauve")}


def test_missing_columns_are_named(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="the rows have no column 'member'; the model was trained on it"):
        TableScorer(model).answer(batch_of(frame.drop(columns="member")))


def test_models_of_arrays_know_their_columns_by_number(frame: pd.DataFrame) -> None:
    x = frame[["age", "member"]].to_numpy(dtype=float)
    model = CircuitClassifier(n_epochs=1, n_sums=2, n_repetitions=1, random_state=0, n_jobs=1).fit(x, frame["colour"])
    found = TableScorer(model)(pa.record_batch({"x1": x[:, 1], "x0": x[:, 0]}))
    assert found.column("label").to_pylist() == model.predict(x).tolist()


def written_images(folder: Path, number: int) -> tuple[np.ndarray, list[str]]:
    """Grey images (N, 6, 6, 1), and the files that hold them."""
    images = np.random.default_rng(0).integers(0, 256, (number, 6, 6, 1), dtype=np.uint8)
    paths = [str(folder / f"{place}.png") for place in range(number)]
    for path, pixels in zip(paths, images, strict=True):
        Image.fromarray(pixels[..., 0]).save(path)
    return images, paths


def test_images_are_read_by_their_paths(tmp_path: Path) -> None:
    images, paths = written_images(tmp_path, 40)
    model = CircuitImageClassifier(n_epochs=1, n_sums=2, rejection_rate=0.2, random_state=0, n_jobs=1)
    model.set_params(calibration_fraction=0.5).fit(images, [0, 1] * 20)
    scorer = scorer_of(model)
    found = scorer(pa.record_batch({"path": paths}))
    assert np.array_equal(found.column("p_value"), model.answer(images).uncertainty.p_value)
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(tmp_path / "small.png")
    small = pa.record_batch({"path": [str(tmp_path / "small.png")]})
    with pytest.raises(ValueError, match="expected are 6 x 6 pixels"):
        scorer(small)
    resizing = pickle.loads(pickle.dumps(ImageScorer(model, resize=True)))
    assert resizing(small).num_rows == 1
    assert resizing(pa.record_batch({"path": paths})).equals(found)


def test_outlier_detectors(frame: pd.DataFrame) -> None:
    model = CircuitOutlierDetector(rejection_rate=0.1, random_state=0, n_jobs=1).fit(frame)
    odd = frame.head(30).assign(age=[4000.0, *frame["age"][1:30]], colour=["red", "mauve", *frame["colour"][2:30]])
    scorer, columns = scorer_of(model), Columns("a_")
    found = scorer(batch_of(odd), columns=columns)
    names = ["log_likelihood", "log_std", "p_value", "verdict", "reasons"]
    assert found.schema.names == scorer.added(columns) == [f"a_{name}" for name in names]
    assert found.schema.equals(scorer.schema(columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doubt, p_value, labels = model.uncertainty(odd), model.p_value(odd), model.predict(odd)
    assert np.array_equal(found.column("a_log_likelihood"), doubt.log_likelihood)
    assert np.array_equal(found.column("a_log_std"), doubt.log_std)
    assert np.array_equal(found.column("a_p_value"), p_value)
    verdict = np.where(labels < 0, "unfamiliar", "familiar").tolist()
    assert columns.verdicts(found) == verdict
    assert {"familiar", "unfamiliar"} == set(verdict)
    reasons = found.column("a_reasons").to_pylist()
    assert [bool(text) for text in reasons] == [each == "unfamiliar" for each in verdict]
    assert [text.partition(";")[0] for text in reasons[:2]] == ["age", "colour"]
    assert scorer.unknown == {"colour": (1, "mauve")}
    assert scorer(batch_of(odd)).schema.names == names[:4]
    assert pickle.loads(pickle.dumps(scorer))(batch_of(odd), columns=columns).equals(found)
    with pytest.raises(ValueError, match="probabilities are those of classes; a CircuitOutlierDetector has none"):
        scorer.added(Columns(probabilities=True))


def test_densities(frame: pd.DataFrame) -> None:
    model = CircuitDensity(n_epochs=1, n_sums=2, n_repetitions=1, random_state=0, n_jobs=1).fit(frame)
    scorer, columns = scorer_of(model), Columns()
    found = scorer(batch_of(frame), columns=columns)
    assert found.schema.equals(scorer.schema(columns))
    assert found.schema.names == ["log_likelihood", "log_std"]
    assert np.array_equal(found.column("log_likelihood"), model.score_samples(frame))
    assert columns.verdicts(found) == [None] * len(frame)
    with pytest.raises(ValueError, match="explain says why rows are refused; a CircuitDensity refuses none"):
        scorer.chosen(Columns(explain=True))


def test_densities_of_images(tmp_path: Path) -> None:
    images, paths = written_images(tmp_path, 20)
    model = CircuitImageDensity(n_epochs=1, n_sums=2, random_state=0, n_jobs=1).fit(images)
    scorer, columns = scorer_of(model), Columns()
    found = scorer(pa.record_batch({"path": paths}), columns=columns)
    assert found.schema.equals(scorer.schema(columns))
    assert found.schema.names == ["log_likelihood"]
    assert np.array_equal(found.column("log_likelihood"), model.score_samples(images))


def test_models_from_older_files_give_no_reasons(frame: pd.DataFrame) -> None:
    model = CircuitOutlierDetector(random_state=0, n_jobs=1).fit(frame)
    del model.familiar_
    scorer = scorer_of(model)
    assert scorer.added(Columns())[-1] == "verdict"
    with pytest.raises(ValueError, match="explain needs familiar rows to compare with, and the model has none"):
        scorer.chosen(Columns(explain=True))


def test_other_models_have_no_scorer() -> None:
    expected = "model must be a classifier, an outlier detector or a density of tables or images; got Circuit"
    with pytest.raises(ValueError, match=expected):
        scorer_of(rat_spn(4, 2, depth=1))


def test_pickles_hold_a_model_file(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    scorer = TableScorer(model)
    content = pickle.dumps(scorer)
    assert b"socratic.estimators" not in content
    expected = scorer(batch_of(frame))
    assert pickle.loads(content)(batch_of(frame)).equals(expected)


@pytest.mark.slow
def test_another_process_says_the_same(model: CircuitClassifier, frame: pd.DataFrame) -> None:
    scorer = TableScorer(model)
    expected = scorer(batch_of(frame))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        assert other.submit(scorer, batch_of(frame)).result().equals(expected)
