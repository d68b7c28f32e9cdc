"""Many rows: folders of tables of any size, scored in bounded memory, by one process or many."""

from socratic.scale.files import FileScorer, Outcome
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
    "score_files",
    "spark_udf",
]
