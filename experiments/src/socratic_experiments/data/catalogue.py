"""Image sets by name, wherever in a folder and in whatever format they lie."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from socratic.errors import DataFileError, check_choice
from socratic.images import Images, load_image_folder
from socratic_experiments.data.cifar import holds_cifar, load_cifar
from socratic_experiments.data.idx import find_idx, load_idx_dataset
from socratic_experiments.data.svhn import load_svhn

_SPLITS = ("train", "test")
_N_TEST_DIGITS = 500


@dataclass(frozen=True)
class _Set:
    """A set with a name of its own.

    Attributes
    ----------
    page : str
        Where it is published.
    place : str
        Where it is best put, in the folder of all sets.
    own : tuple of str
        Files and folders of names that no other set uses, also looked for outside the set's folder.
    """

    page: str
    place: str
    own: tuple[str, ...] = ()


_SETS = {
    "mnist": _Set("https://yann.lecun.com/exdb/mnist", "MNIST/raw"),
    "notmnist": _Set("https://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html", "notMNIST/raw"),
    "fashion-mnist": _Set("https://github.com/zalandoresearch/fashion-mnist", "FashionMNIST/raw"),
    "kmnist": _Set("https://codh.rois.ac.jp/kmnist", "KMNIST/raw"),
    "emnist": _Set("https://www.nist.gov/itl/products-and-services/emnist-dataset", "EMNIST/raw"),
    "svhn": _Set("http://ufldl.stanford.edu/housenumbers", "SVHN", ("{split}_32x32.mat",)),
    "cifar10": _Set(
        "https://www.cs.toronto.edu/~kriz/cifar.html", "CIFAR10", ("cifar-10-batches-py", "cifar-10-python.tar.gz")
    ),
    "cifar100": _Set(
        "https://www.cs.toronto.edu/~kriz/cifar.html", "CIFAR100", ("cifar-100-python", "cifar-100-python.tar.gz")
    ),
    "scenes": _Set("https://www.kaggle.com/datasets/puneet6060/intel-image-classification", "scenes"),
}
_CIFAR = _SETS["cifar10"].own + _SETS["cifar100"].own


def load_images(
    name: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    split: str = "train",
    *,
    size: tuple[int, int] | None = None,
) -> Images:
    """Read a set of images by its name.

    Parameters
    ----------
    name : str or path
        ``"mnist"``, ``"notmnist"``, ``"fashion-mnist"``, ``"kmnist"``, ``"emnist"``, ``"svhn"``, ``"cifar10"``,
        ``"cifar100"`` or ``"scenes"``; ``"digits"``, the 8 x 8 digits that come with scikit-learn: always the same
        1,297 to train and 500 to test; the name of another folder in ``folder``; or the path of a set that lies
        elsewhere, folder or file. Case, hyphens and underscores make no difference in names.
    folder : path, optional
        Folder of all sets. A set is looked for in the subfolder of its name, as IDX files (also in ``raw`` and
        ``gzip`` there), SVHN's MATLAB files, CIFAR's folder or archive, and then as a folder of images; SVHN's and
        CIFAR's files are found in ``folder`` itself, too. ``"digits"`` and paths need none.
    split : str
        ``"train"`` or ``"test"``. A folder of images that is not divided gives all of them for both.
    size : tuple of int, optional
        Height and width that folders of images are read in; the other formats have one size.

    Returns
    -------
    Images
        Under the name of the set.

    Raises
    ------
    FileNotFoundError
        If the set is not there: with the places looked at, and the page that publishes the set.
    """
    check_choice("split", split, _SPLITS)
    text = os.fspath(name)
    if isinstance(name, os.PathLike) or os.sep in text or "/" in text:
        return _at_path(Path(name), split, size)
    key = _plain(text)
    if not key:
        raise ValueError(f"name must be the name of an image set or a path; got {name!r}")
    if key == "digits":
        return _digits(split)
    known = next((title for title in _SETS if _plain(title) == key), None)
    if folder is None:
        if known is None:
            return _at_path(Path(name), split, size)
        raise ValueError(
            f"folder must name the folder that {known!r} lies in; got None (on the command line: --data FOLDER)"
        )
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"folder must be the folder of the image sets; there is none at {place}")
    return _find(known or text, place, split, size)


def _find(name: str, folder: Path, split: str, size: tuple[int, int] | None) -> Images:
    own = [template.format(split=split) for template in _SETS[name].own] if name in _SETS else []
    candidates = sorted(entry for entry in folder.iterdir() if entry.is_dir() and _plain(entry.name) == _plain(name))
    if _plain(folder.absolute().name) == _plain(name):
        candidates.append(folder)
    candidates += [folder / entry for entry in own if (folder / entry).exists()]
    failures = []
    for candidate in candidates:
        images, failure = _attempt(candidate, split, size)
        if images is not None:
            return replace(images, name=name)
        failures.append(failure)
    if not failures:
        wanted = ", ".join([f"a folder {name} in upper or lower case", *own])
        failures.append(f"looked for {wanted}")
    known = _SETS.get(name)
    advice = (
        f"download the set from {known.page} and put it into {folder / known.place}"
        if known
        else f"the sets with known names are {', '.join(('digits', *_SETS))}"
    )
    raise FileNotFoundError(f"no {split} images of {name!r} in {folder}: {'; '.join(failures)}; {advice}")


def _attempt(place: Path, split: str, size: tuple[int, int] | None) -> tuple[Images | None, str]:
    """The images, or where they were looked for in vain."""
    try:
        return _read(place, split, size), ""
    except FileNotFoundError as error:
        return None, str(error)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _read(place: Path, split: str, size: tuple[int, int] | None) -> Images:
    """The images of a file or a folder, in whatever format they lie there."""
    if place.is_file():
        return load_svhn(place) if place.suffix == ".mat" else load_cifar(place, split)
    for folder in (place, place / "raw", place / "gzip"):
        if any(folder.glob("*[-.]idx[13]-ubyte*")):
            return load_idx_dataset(*find_idx(folder, split))
    matlab = place / f"{split}_32x32.mat"
    if matlab.is_file():
        return load_svhn(matlab)
    for source in (place, *(place / name for name in _CIFAR)):
        if source.is_file() or holds_cifar(source):
            return load_cifar(source, split)
    try:
        return load_image_folder(place, split, size=size)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"looked in {place} for IDX files (also in raw and gzip), {matlab.name}, {', '.join(_CIFAR)} "
            f"and a folder of images ({error})"
        ) from error


def _at_path(path: Path, split: str, size: tuple[int, int] | None) -> Images:
    if not path.exists():
        names = ", ".join(("digits", *_SETS))
        raise FileNotFoundError(
            f"no image set at {path}: name one of {names}, a folder in the folder of the image sets, or a path"
        )
    if path.is_file() and "idx" in path.name:
        raise DataFileError(f"{path} is one of a pair of IDX files: use load_idx_dataset(images_path, labels_path)")
    images = _read(path, split, size)
    return replace(images, name=path.absolute().name) if path.is_dir() else images


def _digits(split: str) -> Images:
    try:
        from sklearn.datasets import load_digits
        from sklearn.utils import check_random_state
    except ImportError as error:
        raise ImportError("the digits come with scikit-learn; install it by: pip install scikit-learn") from error
    images, labels = load_digits(return_X_y=True)
    order = check_random_state(0).permutation(len(images))
    chosen = order[:_N_TEST_DIGITS] if split == "test" else order[_N_TEST_DIGITS:]
    pixels = np.round(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    return Images(pixels[chosen], labels[chosen].astype(np.int64), "digits")
