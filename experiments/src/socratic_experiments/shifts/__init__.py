"""Shifted images for evaluation: rotation, and the 15 common corruptions in five severities."""

from socratic_experiments.shifts.corruptions import CORRUPTIONS, corrupt
from socratic_experiments.shifts.rotation import rotate

__all__ = ["CORRUPTIONS", "corrupt", "rotate"]
