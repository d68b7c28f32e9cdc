"""Structures learned from data: LearnSPN, forests, kernels, and Chow-Liu trees, hidden ones and others."""

from socratic.learning.structure.chow_liu import chow_liu_tree
from socratic.learning.structure.forest import grow_forest
from socratic.learning.structure.hidden_chow_liu import hidden_chow_liu
from socratic.learning.structure.kernels import divided_kernels, kernel_circuit, least_typical
from socratic.learning.structure.learn_spn import learn_class_spns, learn_spn

__all__ = [
    "chow_liu_tree",
    "divided_kernels",
    "grow_forest",
    "hidden_chow_liu",
    "kernel_circuit",
    "learn_class_spns",
    "learn_spn",
    "least_typical",
]
