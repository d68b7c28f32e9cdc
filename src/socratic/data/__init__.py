"""Readers for the image files people download: IDX (MNIST), MATLAB (SVHN), CIFAR batches, folders of images."""

from socratic.data.catalogue import load_images
from socratic.data.cifar import load_cifar
from socratic.data.folders import load_image_folder
from socratic.data.idx import find_idx, load_idx_dataset, read_idx
from socratic.data.images import Images
from socratic.data.svhn import load_svhn

__all__ = [
    "Images",
    "find_idx",
    "load_cifar",
    "load_idx_dataset",
    "load_image_folder",
    "load_images",
    "load_svhn",
    "read_idx",
]
