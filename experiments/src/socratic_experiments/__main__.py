"""``python -m socratic_experiments`` is the program ``socratic-experiments``."""

from socratic_experiments.app import main

main()
