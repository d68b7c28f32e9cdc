"""Answers as a column of a Spark data frame."""

from __future__ import annotations

from typing import Any

from socratic.errors import import_extra
from socratic.scale.places import PlaceLike
from socratic.scale.scorer import ModelScorer
from socratic.scoring import Columns
from socratic.tables.batches import import_pyarrow


def spark_udf(model: PlaceLike | ModelScorer, columns: Columns | None = None) -> Any:
    """A column of structs with the answers of a model: ``frame.withColumn("answer", spark_udf("churn.model"))``.

    It reads the columns that the model was trained on, by their names. Each process of Spark loads the model once.

    Parameters
    ----------
    model : path, URI, Place or ModelScorer
        A file written by ``socratic fit`` or an estimator's ``save``, which all workers can read.
    columns : Columns, optional
        Which fields the structs have.

    Returns
    -------
    pyspark.sql.Column
    """
    functions = import_extra("pyspark.sql.functions", "spark", "spark_udf")
    from pyspark.sql.pandas.types import from_arrow_schema

    scorer = model if isinstance(model, ModelScorer) else ModelScorer.of(model, columns)
    names = scorer.load().names

    def answer(rows: Any) -> Any:
        pa = import_pyarrow()
        table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
        return scorer(table).drop_columns(names).to_struct_array().combine_chunks()

    udf = functions.arrow_udf(answer, from_arrow_schema(scorer.schema()), functions.ArrowUDFType.SCALAR)
    return udf(functions.struct(*(functions.col(f"`{name}`") for name in names)))
