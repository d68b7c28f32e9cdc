"""Learning: initialisation from data, gradient training, expectation maximisation, checkpoints."""

from socratic.learning.checkpoint import Checkpoint
from socratic.learning.em import fit_em
from socratic.learning.gradient import fit_gradient, learning_rate_factor
from socratic.learning.initialise import initialise_leaves
from socratic.learning.settings import Epoch, History, Rows, TrainingSettings

__all__ = [
    "Checkpoint",
    "Epoch",
    "History",
    "Rows",
    "TrainingSettings",
    "fit_em",
    "fit_gradient",
    "initialise_leaves",
    "learning_rate_factor",
]
