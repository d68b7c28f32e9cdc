"""Structures: region graphs and their builders."""

from socratic.structure.image_grid import spatial_binary_trees
from socratic.structure.random_tree import random_binary_trees
from socratic.structure.region_graph import Partition, Region, RegionGraph

__all__ = ["Partition", "Region", "RegionGraph", "random_binary_trees", "spatial_binary_trees"]
