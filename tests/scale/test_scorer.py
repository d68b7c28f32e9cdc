"""A scorer that holds no more than the name of a model file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from socratic import load, rat_spn
from socratic.estimators import CircuitDensity
from socratic.loading import load_bytes
from socratic.scale import Columns, ModelScorer, score_files
from socratic.scale import scorer as module
from tests.scale.conftest import table, write_tables

pa = pytest.importorskip("pyarrow")


def test_it_adds_the_columns_of_answers(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.Table.from_pandas(table(50, 0), preserve_index=False)
    scorer = ModelScorer.of(models / "model", Columns("my_", explain=False))
    found = pickle.loads(pickle.dumps(scorer))(rows)
    added = scorer.load().added(scorer.columns)
    assert found.select(rows.schema.names).equals(rows)
    assert found.schema.names == [*rows.schema.names, *added]
    assert added[:2] == ["my_label", "my_probability"]
    assert added[-1] == "my_p(yes)"
    assert scorer.schema().equals(found.select(added).schema)
    full = ModelScorer.of(models / "model")
    assert full.schema().equals(full(rows).select(full.load().added(full.columns)).schema)
    expected = load(models / "model").predict(table(50, 0)[["age", "colour"]])
    assert found.column("my_label").to_pylist() == expected.tolist()
    monkeypatch.setattr("socratic.tables.reading.CHUNK_ROWS", 7)
    assert scorer(rows).column("my_label").to_pylist() == expected.tolist()
    with pytest.raises(ValueError, match="the table has a column 'my_label' already"):
        scorer(found)


def test_pickles_hold_no_model(models: Path) -> None:
    scorer = ModelScorer.of(models / "model")
    assert len(pickle.dumps(scorer)) < 1000
    assert pickle.loads(pickle.dumps(scorer)) == scorer


def test_a_model_is_read_once(models: Path) -> None:
    first = ModelScorer.of(models / "model").load()
    assert ModelScorer.of(models / "model").load().model is first.model
    assert ModelScorer.of(models / "model").load() is not first  # each counts its own unknown values
    assert ModelScorer.of(models / "other").load().model is not first.model
    assert len(module._loaded) == 1


def test_another_model_under_the_same_name_is_refused(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes((models / "model").read_bytes())
    scorer = ModelScorer.of(path)
    path.write_bytes((models / "other").read_bytes())
    module._loaded.clear()
    with pytest.raises(ValueError, match="model has changed since the scoring began; start it again"):
        scorer.load()


def test_a_model_that_is_replaced_between_its_check_and_its_use(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes((models / "model").read_bytes())
    scorer = ModelScorer.of(path)
    module._loaded.clear()

    def late(content: bytes, source: str, **settings: Any) -> Any:
        path.write_bytes((models / "other").read_bytes())
        return load_bytes(content, source, **settings)

    monkeypatch.setattr("socratic.scale.scorer.load_bytes", late)
    found = table(50, 1)[["age", "colour"]]
    expected = load(models / "model").predict_proba(found)
    model = scorer.load().model
    assert path.read_bytes() == (models / "other").read_bytes()
    assert model.predict_proba(found).tolist() == expected.tolist()


def test_densities_score_too(tmp_path: Path) -> None:
    frame = table(100, 0)
    model = CircuitDensity(n_epochs=1, n_sums=2, n_repetitions=1, n_jobs=1).fit(frame[["age"]])
    model.save(tmp_path / "density")
    scorer = ModelScorer.of(tmp_path / "density")
    found = scorer(pa.Table.from_pandas(frame, preserve_index=False)).select(["log_likelihood", "log_std"])
    assert found.schema.equals(scorer.schema())
    assert found.column(0).to_pylist() == model.score_samples(frame[["age"]]).tolist()
    summary = score_files(scorer, write_tables(tmp_path / "data"), tmp_path / "out")
    assert (summary.verdicts, summary.problems) == ({"unjudged": 120}, [])


def test_circuits_do_not_score(tmp_path: Path) -> None:
    rat_spn(4, 2, depth=1).save(tmp_path / "circuit")
    with pytest.raises(ValueError, match=r"circuit cannot score: model must be a classifier, .*; got Circuit"):
        ModelScorer.of(tmp_path / "circuit")
