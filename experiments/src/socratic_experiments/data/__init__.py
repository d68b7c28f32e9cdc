"""Readers of published image sets: IDX (MNIST), MATLAB (SVHN), CIFAR batches, LSUN's databases, folders of images."""

from socratic_experiments.data.catalogue import load_images
from socratic_experiments.data.cifar import load_cifar
from socratic_experiments.data.conversion import at_most, convert, like
from socratic_experiments.data.idx import find_idx, load_idx_dataset, read_idx
from socratic_experiments.data.lsun import load_lsun
from socratic_experiments.data.svhn import load_svhn

__all__ = [
    "at_most",
    "convert",
    "find_idx",
    "like",
    "load_cifar",
    "load_idx_dataset",
    "load_images",
    "load_lsun",
    "load_svhn",
    "read_idx",
]
