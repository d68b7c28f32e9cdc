"""A model as a model of MLflow: its file, and this one as the code that loads it. Nothing is pickled.

``python -m examples.mlflow_model MODEL FOLDER`` writes a folder that ``mlflow models serve -m FOLDER`` and
``mlflow.pyfunc.load_model(FOLDER)`` know. MODEL is a classifier of tables that ``socratic fit`` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pyarrow as pa

from socratic.scale import Columns, ModelScorer


class Answers(mlflow.pyfunc.PythonModel):
    """Gives the rows of a data frame the columns of ``socratic predict``."""

    def load_context(self, context: Any) -> None:
        """Read the model file."""
        self.scorer = ModelScorer.of(context.artifacts["model"], Columns())

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> pd.DataFrame:  # noqa: ARG002
        """The answers, one row for each."""
        answered = self.scorer(pa.Table.from_pandas(model_input, preserve_index=False))
        return answered.select(self.scorer.schema().names).to_pandas()


mlflow.models.set_model(Answers())  # what MLflow takes when it runs this file


def save(model: Path, folder: Path) -> None:
    """Write a folder of MLflow, with a copy of the model file."""
    mlflow.pyfunc.save_model(
        folder, python_model=__file__, artifacts={"model": str(model)}, pip_requirements=["socratic-circuits[tables]"]
    )


if __name__ == "__main__":
    save(Path(sys.argv[1]), Path(sys.argv[2]))
