"""Folders of images, one subfolder a class: CINIC-10, or your own."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from socratic.errors import DataFileError, check_choice, check_count, import_extra
from socratic.images.labelled import Images, spread_evenly

_SPLITS = {"train": ("train", "training"), "test": ("test", "testing"), "valid": ("valid", "val", "validation")}
_SPLIT_NAMES = {name for names in _SPLITS.values() for name in names}
_ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff", ".gif"}
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "PPM", "TIFF", "GIF")
"""What Pillow may take a file for: not the formats for which it starts another program."""
_LONG_GREY = {"I", "I;16", "I;16B", "I;16L", "I;16N"}
_GREY = {"1", "L", "LA", "La", *_LONG_GREY}
_WITH_ALPHA = {"LA", "La", "PA", "RGBA", "RGBa"}
_CHUNK = 1024  # images decoded before errors are looked at
_MAX_THREADS = 8


def load_image_folder(
    path: str | os.PathLike[str],
    split: str | None = None,
    *,
    size: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Images:
    """Read a folder of PNG, JPEG, BMP, WebP, PPM, TIFF or GIF files; needs Pillow.

    Each subfolder is a class and holds its images, at any depth. Classes are numbered in the order of their
    folders' names, images follow in the order of their paths. Images beside class folders are left out; in a folder
    without subfolders all images have label 0. Hidden files, and files with other endings, are ignored.

    Images are grey if all files are, otherwise coloured. Of 16 bits the upper 8 count. What is transparent
    becomes black, in part or entirely. Images are turned upright as their EXIF data say; of animations the first
    frame is taken.

    Parameters
    ----------
    path : path
        The folder.
    split : str, optional
        ``"train"``, ``"test"`` or ``"valid"``: the subfolder of this name (also ``val`` and the like) is read in
        place of ``path``. A folder without such subfolders is read whole, for every split.
    size : tuple of int, optional
        Height and width that all images are resized to, whatever their proportions. Without it, all must have one size.
    limit : int, optional
        Read at most so many images, spread evenly over the folder.

    Raises
    ------
    DataFileError
        If a file is damaged, is no image, would unpack to more pixels than Pillow holds safe, or differs in size
        from the first. The error names the file.
    """
    height_width = None if size is None else (check_count("height", size[0]), check_count("width", size[1]))
    files = find_images(path, split)
    if limit is not None:
        files = files.take(spread_evenly(len(files.paths), check_count("limit", limit)).tolist())
    images = read_images(files.paths, height_width, resize=size is not None)
    return Images(images, files.labels, Path(path).absolute().name, files.classes)


class ImageFiles(NamedTuple):
    """The image files of a folder."""

    paths: list[Path]
    labels: np.ndarray
    """The class of each: (N,)."""
    classes: tuple[str, ...]
    """The names of the classes by number."""

    def take(self, places: Sequence[int]) -> ImageFiles:
        """Some of the files."""
        return ImageFiles([self.paths[place] for place in places], self.labels[list(places)], self.classes)


def find_images(path: str | os.PathLike[str], split: str | None = None, *, by_class: bool = True) -> ImageFiles:
    """The image files of a folder.

    Parameters
    ----------
    path, split
        See :func:`load_image_folder`.
    by_class : bool
        Whether subfolders are classes. Otherwise all images are found, at any depth, and have label 0.
    """
    folder = _split_folder(Path(path), split) if by_class else Path(path)
    classes = _subfolders(folder) if by_class else []
    if by_class and classes:
        places = [(label, sorted(_images_below(place), key=Path.as_posix)) for label, place in enumerate(classes)]
    else:
        places = [(0, _images_in(folder.iterdir()) if by_class else sorted(_images_below(folder), key=Path.as_posix))]
    paths = [file for _, files in places for file in files]
    if not paths:
        raise FileNotFoundError(f"no images in {folder}: looked for files ending in {', '.join(sorted(_ENDINGS))}")
    labels = np.repeat([label for label, _ in places], [len(files) for _, files in places])
    return ImageFiles(paths, labels.astype(np.int64), tuple(entry.name for entry in classes))


@dataclass(frozen=True)
class EncodedImage:
    """An image file in memory, such as one out of a database or an archive.

    Attributes
    ----------
    name : str
        Where it comes from, for messages.
    content : bytes
        What a file of it would hold.
    """

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name


ImageSource: TypeAlias = Path | EncodedImage


def read_images(
    sources: Sequence[ImageSource],
    size: tuple[int, int] | None = None,
    *,
    resize: bool = False,
    n_channels: int | None = None,
    remedy: str = "pass size=(H, W) to load_image_folder to resize them",
) -> np.ndarray:
    """The images of some files: (N, H, W, C) of uint8.

    Parameters
    ----------
    sources : sequence of Path or EncodedImage
        Where the files lie, or the files themselves.
    size : tuple of int, optional
        Height and width; by default those of the first image.
    resize : bool
        Whether images of another size are resized or refused.
    n_channels : int, optional
        1 for grey images, 3 for coloured ones; by default they are grey if all files are.
    remedy : str
        What to do about images of another size, for the message.
    """
    # Set here, once: filters are shared by all threads.
    with warnings.catch_warnings(), ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        warnings.simplefilter("error", _pillow().DecompressionBombWarning)
        n_channels = n_channels or (1 if _all_grey(pool, sources) else 3)
        return _read_all(pool, sources, n_channels, size, resize, remedy)


def _pillow() -> Any:
    return import_extra("PIL.Image", "images", "reading images")


def _split_folder(path: Path, split: str | None) -> Path:
    """The folder to read: that of the split where there are such."""
    if split is not None:
        check_choice("split", split, _SPLITS)
    if not path.is_dir():
        raise FileNotFoundError(f"path must be a folder of images; there is none at {path}")
    subfolders = _subfolders(path)
    split_folders = {folder.name.lower(): folder for folder in subfolders if folder.name.lower() in _SPLIT_NAMES}
    if split is None:
        if split_folders and len(split_folders) == len(subfolders):
            names = ", ".join(folder.name for folder in split_folders.values())
            raise ValueError(f"split must say which part of {path} to read, as it holds {names}; got None")
        return path
    found = [split_folders[name] for name in _SPLITS[split] if name in split_folders]
    if not found and split_folders:
        names = ", ".join(folder.name for folder in split_folders.values())
        raise FileNotFoundError(f"no {split} images in {path}: looked for a folder {split}, found {names}")
    return found[0] if found else path


def _subfolders(folder: Path) -> list[Path]:
    """Sorted by name, without hidden ones and what archives of macOS add."""
    found = (entry for entry in folder.iterdir() if entry.is_dir() and entry.name != "__MACOSX")
    return sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _images_below(folder: Path) -> Iterable[Path]:
    # Without onerror, a folder that may not be read would count as empty.
    for place, subfolders, names in os.walk(folder, onerror=_fail):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        yield from _images_in(Path(place, name) for name in names)


def _fail(error: OSError) -> None:
    raise error


def _images_in(paths: Iterable[Path]) -> list[Path]:
    found = (path for path in paths if path.suffix.lower() in _ENDINGS and not path.name.startswith("."))
    return sorted(path for path in found if path.is_file())


def _all_grey(pool: ThreadPoolExecutor, sources: Sequence[ImageSource]) -> bool:
    chunks = (sources[start : start + _CHUNK] for start in range(0, len(sources), _CHUNK))
    return all(grey for chunk in chunks for grey in list(pool.map(_is_grey, chunk)))


def _read_all(
    pool: ThreadPoolExecutor,
    sources: Sequence[ImageSource],
    n_channels: int,
    size: tuple[int, int] | None,
    resize: bool,
    remedy: str,
) -> np.ndarray:
    height, width = size or _decode(sources[0], n_channels, None).shape[:2]
    shape = (len(sources), height, width, n_channels)
    try:
        output = np.empty(shape, dtype=np.uint8)
    except MemoryError as error:
        raise DataFileError(
            f"{len(sources)} images such as {sources[0]}, {height} x {width} pixels, do not fit into memory; "
            "pass a smaller size=(H, W) or a limit to load_image_folder"
        ) from error

    def read(place: int) -> tuple[int, ...]:
        image = _decode(sources[place], n_channels, size if resize else None)
        if image.shape == output.shape[1:]:
            output[place] = image
        return image.shape

    expected = f"{sources[0]} has" if size is None else "expected are"
    for start in range(0, len(sources), _CHUNK):
        places = range(start, min(start + _CHUNK, len(sources)))
        for place, (found_height, found_width, _) in zip(places, pool.map(read, places), strict=True):
            if (found_height, found_width) != (height, width):
                raise DataFileError(
                    f"all images must have one size; {expected} {height} x {width} pixels, {sources[place]} has "
                    f"{found_height} x {found_width}: {remedy}"
                )
    return output


def image_size(source: ImageSource) -> tuple[int, int]:
    """Height and width that an image file declares, before it is unpacked or turned upright."""
    return _with_image(source, lambda image: (image.height, image.width))


def _is_grey(source: ImageSource) -> bool:
    return _with_image(source, lambda image: image.mode in _GREY)


def _decode(source: ImageSource, n_channels: int, size: tuple[int, int] | None) -> np.ndarray:
    """The image (H, W, C) of a file, upright and resized."""
    return _with_image(source, lambda image: _pixels(image, n_channels, size))


def _with_image(source: ImageSource, use: Callable[[Any], Any]) -> Any:
    pillow = _pillow()
    file = source if isinstance(source, Path) else io.BytesIO(source.content)
    try:
        with pillow.open(file, formats=FORMATS) as image:
            return use(image)
    except PermissionError:
        raise
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError) as error:
        raise DataFileError(
            f"{source} declares more pixels than can be unpacked safely ({error}); remove it, or raise "
            "PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        ) from error
    except Exception as error:  # a damaged file can make Pillow raise almost anything
        raise DataFileError(f"{source} is damaged or no image ({error}); replace or remove it") from error


def _pixels(image: Any, n_channels: int, size: tuple[int, int] | None) -> np.ndarray:
    import PIL.Image
    import PIL.ImageOps

    image.load()
    image = PIL.ImageOps.exif_transpose(image)
    mode = "L" if n_channels == 1 else "RGB"
    if image.mode in _LONG_GREY:
        values = np.asarray(image).astype(np.int64).clip(0, 65535)
        image = PIL.Image.fromarray((values >> 8).astype(np.uint8))
    elif image.mode in _WITH_ALPHA or "transparency" in image.info:
        black = PIL.Image.new("RGBA", image.size, "black")
        image = PIL.Image.alpha_composite(black, image.convert("RGBA"))
    elif image.mode == "F":
        raise ValueError("it holds real numbers, not bytes")
    image = image.convert(mode)
    if size is not None:
        image = image.resize((size[1], size[0]), PIL.Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(image.height, image.width, n_channels)
