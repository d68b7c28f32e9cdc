"""Many rows: folders of tables of any size, trained on and scored in bounded memory."""

from socratic.scale.files import FileScorer, Outcome
from socratic.scale.fitting import fit_files
from socratic.scale.manifest import InputFile, Record
from socratic.scale.places import Place
from socratic.scale.run import Summary, score_files
from socratic.scale.scorer import ModelScorer
from socratic.scale.spark import spark_udf
from socratic.scoring import Columns

__all__ = [
    "Columns",
    "FileScorer",
    "InputFile",
    "ModelScorer",
    "Outcome",
    "Place",
    "Record",
    "Summary",
    "fit_files",
    "score_files",
    "spark_udf",
]
