"""Structures learned from data: LearnSPN and hidden Chow-Liu trees for tables, Chow-Liu trees for categories."""

from socratic.learning.structure.chow_liu import chow_liu_tree
from socratic.learning.structure.hidden_chow_liu import hidden_chow_liu
from socratic.learning.structure.learn_spn import learn_class_spns, learn_spn

__all__ = ["chow_liu_tree", "hidden_chow_liu", "learn_class_spns", "learn_spn"]
