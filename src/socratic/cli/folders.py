"""Folders of images in commands: to train on, to predict and to evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from socratic.cli.failures import UserError
from socratic.tables.batches import import_pyarrow
from socratic.tables.reading import Chunk, Source, open_source

if TYPE_CHECKING:
    from socratic.images.folders import ImageFiles

PATH, CLASS = "path", "class"
"""The columns of a folder of images."""
CHUNK_IMAGES = 1_024


def open_rows(path: Path, *, by_class: bool = False) -> Source:
    """A table, or a folder of images; with ``by_class``, its subfolders are classes."""
    return FolderSource(path, by_class=by_class) if path.is_dir() else open_source(path)


class FolderSource(Source):
    """The files of a folder of images, one row each: its path and, if asked for, its class."""

    def __init__(self, path: Path, *, by_class: bool) -> None:
        from socratic.images.folders import find_images

        self.path = path
        self._files = _labelled_files(path) if by_class else find_images(path, by_class=False)
        self.names = [PATH, CLASS] if by_class else [PATH]
        self.size = len(self._files.paths)

    def chunks(self) -> Iterator[Chunk]:
        """The files, some at a time; they are not read yet."""
        pa = import_pyarrow()
        paths = [str(path) for path in self._files.paths]
        classes = np.array([*self._files.classes, ""])[self._files.labels]
        for start in range(0, self.size, CHUNK_IMAGES):
            part = slice(start, start + CHUNK_IMAGES)
            columns = {PATH: pa.array(paths[part]), CLASS: pa.array(classes[part])}
            batch = pa.record_batch({name: columns[name] for name in self.names})
            yield Chunk(batch, start, start + batch.num_rows)


def read_training_images(folder: Path, shape: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, H, W, C) and their labels (N,), from a folder with a subfolder for each class."""
    from socratic.cli.training_table import class_labels
    from socratic.images.folders import read_images
    from socratic.tables.raw import Coded

    files = _labelled_files(folder)
    every = np.ones(len(files.labels), dtype=bool)
    labels = class_labels(Coded(files.labels, files.classes).take(every), str(folder))
    images = read_images(
        files.paths,
        None if shape is None else (shape[0], shape[1]),
        resize=shape is not None,
        n_channels=shape[2] if shape is not None and len(shape) == 3 else None,
        remedy="have all of them resized with --image-shape, such as --image-shape 32x32",
    )
    return images, labels


def _labelled_files(folder: Path) -> ImageFiles:
    from socratic.images.folders import find_images

    try:
        files = find_images(folder)
    except ValueError:
        parts = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        raise UserError(f"{folder} holds {', '.join(parts)}; name one of them, such as {folder / parts[-1]}") from None
    if not files.classes:
        raise UserError(f"{folder} has no subfolders; put the images of each class into a subfolder of its own")
    return files
