"""Readers for the image files people download: the MNIST family (IDX) and SVHN (MATLAB)."""

from socratic.data.idx import Images, find_idx, load_idx_dataset, read_idx
from socratic.data.svhn import load_svhn

__all__ = ["Images", "find_idx", "load_idx_dataset", "load_svhn", "read_idx"]
