"""Image sets by name, wherever in a folder and in whatever format they lie."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from socratic.errors import DataFileError, check_choice, check_count
from socratic.images import Images, load_image_folder
from socratic_experiments.data.cifar import holds_cifar, load_cifar
from socratic_experiments.data.conversion import at_most
from socratic_experiments.data.derived import EMPTY, derive, empty_images
from socratic_experiments.data.idx import find_idx, load_idx_dataset
from socratic_experiments.data.lsun import holds_lsun, load_lsun
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
    command : str
        A command that gets it where it belongs, ``{place}``.
    also : tuple of str
        Other names that it or its folder goes by, plain. Of two sets with one name, the first is meant.
    """

    page: str
    place: str
    own: tuple[str, ...] = ()
    command: str = ""
    also: tuple[str, ...] = ()


_SVHN = "http://ufldl.stanford.edu/housenumbers"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_GET = "curl -fL --create-dirs --output-dir {place} -O"
_SETS = {
    "mnist": _Set("https://yann.lecun.com/exdb/mnist", "MNIST/raw"),
    "notmnist": _Set("https://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html", "notMNIST/raw"),
    "fashion-mnist": _Set("https://github.com/zalandoresearch/fashion-mnist", "FashionMNIST/raw"),
    "kmnist": _Set("https://codh.rois.ac.jp/kmnist", "KMNIST/raw"),
    "emnist": _Set("https://www.nist.gov/itl/products-and-services/emnist-dataset", "EMNIST/raw"),
    "svhn": _Set(_SVHN, "SVHN", ("{split}_32x32.mat",), f'{_GET} "{_SVHN}/{{train,test}}_32x32.mat"'),
    "svhn-extra": _Set(
        _SVHN,
        "SVHN",
        ("{split}_32x32.mat",),
        f'{_GET} "{_SVHN}/{{train,test,extra}}_32x32.mat"',
        also=("svhn",),
    ),
    "cifar10": _Set(
        f"{_CIFAR}/cifar.html",
        "CIFAR10",
        ("cifar-10-batches-py", "cifar-10-python.tar.gz", "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
        f"{_GET} {_CIFAR}/cifar-10-python.tar.gz",
    ),
    "cifar100": _Set(
        f"{_CIFAR}/cifar.html",
        "CIFAR100",
        ("cifar-100-python", "cifar-100-python.tar.gz", "cifar-100-binary", "cifar-100-binary.tar.gz"),
        f"{_GET} {_CIFAR}/cifar-100-python.tar.gz",
    ),
    "cinic": _Set(
        "https://github.com/BayesWatch/cinic-10",
        "CINIC10",
        command="mkdir -p {place} && "
        "curl -fL https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz | tar xz -C {place}",
        also=("cinic10",),
    ),
    "lsun": _Set(
        "https://github.com/fyu/lsun",
        "LSUN",
        command=_GET + " http://dl.yf.io/lsun/scenes/test_lmdb.zip && unzip {place}/test_lmdb.zip -d {place}",
    ),
    "scenes": _Set("https://www.kaggle.com/datasets/puneet6060/intel-image-classification", "scenes"),
}
_CIFAR_NAMES = _SETS["cifar10"].own + _SETS["cifar100"].own


@dataclass(frozen=True)
class _Wanted:
    """What is wanted of a set: see :func:`load_images`."""

    split: str
    size: tuple[int, int] | None
    limit: int | None
    extra: bool = False
    """Whether SVHN's extra images belong to its training images."""


def load_images(
    name: str | os.PathLike[str],
    folder: str | os.PathLike[str] | None = None,
    split: str = "train",
    *,
    size: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Images:
    """Read a set of images by its name.

    Parameters
    ----------
    name : str or path
        ``"mnist"``, ``"notmnist"``, ``"fashion-mnist"``, ``"kmnist"``, ``"emnist"``, ``"svhn"``, ``"svhn-extra"``
        (the same with SVHN's extra images among those to train on), ``"cifar10"``, ``"cifar100"``, ``"cinic"``,
        ``"lsun"`` or ``"scenes"``; ``"digits"``, the 8 x 8 digits that come with scikit-learn: always the same
        1,297 to train and 500 to test; the name of another folder in ``folder``; or the path of a set that lies
        elsewhere, folder or file. Case, hyphens and underscores make no difference in names. ``"mnist:0-4"`` is a part
        of a set, ``"cifar10:blurred"`` another set made from one (see :func:`~.derived.derive`), and ``"blank"`` and
        ``"colours"`` have nothing in their images.
    folder : path, optional
        Folder of all sets. A set is looked for in the subfolder of its name, as IDX files (also in ``raw`` and
        ``gzip`` there), SVHN's MATLAB files, CIFAR's folder or archive, LSUN's databases, and then as a folder of
        images; SVHN's and CIFAR's files are found in ``folder`` itself, too. ``"digits"`` and paths need none.
    split : str
        ``"train"`` or ``"test"``. A folder of images that is not divided gives all of them for both.
    size : tuple of int, optional
        Height and width that folders of images and LSUN are read in; the other formats have one size.
    limit : int, optional
        At most so many images, spread over the set. Of folders of images and of LSUN no others are read; of LSUN, never
        more than 10,000 unless ``limit`` says so.

    Returns
    -------
    Images
        Under the name of the set.

    Raises
    ------
    FileNotFoundError
        If the set is not there: with the places looked at, the page that publishes the set and, for some, a command
        that downloads it.
    """
    check_choice("split", split, _SPLITS)
    if limit is not None:
        check_count("limit", limit)
    return at_most(_load(name, folder, _Wanted(split, size, limit)), limit)


def _load(name: str | os.PathLike[str], folder: str | os.PathLike[str] | None, wanted: _Wanted) -> Images:
    text = os.fspath(name)
    if isinstance(name, os.PathLike) or os.sep in text or "/" in text:
        return _at_path(Path(name), wanted)
    base, colon, change = text.partition(":")
    if colon:
        return derive(_load(base, folder, replace(wanted, limit=None)), change)
    key = _plain(text)
    if not key:
        raise ValueError(f"name must be the name of an image set or a path; got {name!r}")
    if key in EMPTY:
        return empty_images(key, wanted.size)
    if key == "digits":
        return _digits(wanted.split)
    known = next((title for title in _SETS if key in _names(title)), None)
    if folder is None:
        if known is None:
            return _at_path(Path(name), wanted)
        raise ValueError(
            f"folder must name the folder that {known!r} lies in; got None (on the command line: --data FOLDER)"
        )
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"folder must be the folder of the image sets; there is none at {place}")
    return _find(known or text, place, replace(wanted, extra=known == "svhn-extra" and wanted.split == "train"))


def _names(name: str) -> set[str]:
    """The names that a set or its folder goes by, plain."""
    return {_plain(name), *(_SETS[name].also if name in _SETS else ())}


def _find(name: str, folder: Path, wanted: _Wanted) -> Images:
    known = _SETS.get(name)
    own = [template.format(split=wanted.split) for template in known.own] if known else []
    names = _names(name)
    candidates = sorted(entry for entry in folder.iterdir() if entry.is_dir() and _plain(entry.name) in names)
    if _plain(folder.absolute().name) in names:
        candidates.append(folder)
    candidates += [folder / entry for entry in own if (folder / entry).exists()]
    failures = []
    for candidate in candidates:
        images, failure = _attempt(candidate, wanted)
        if images is not None:
            return replace(images, name=name)
        failures.append(failure)
    if not failures:
        title = " or ".join((name, *known.also)) if known else name
        failures.append(f"looked for {', '.join([f'a folder {title} in upper or lower case', *own])}")
    raise FileNotFoundError(
        f"no {wanted.split} images of {name!r} in {folder}: {'; '.join(failures)}; {_advice(known, folder)}"
    )


def _advice(known: _Set | None, folder: Path) -> str:
    """What to do about a set that is not there."""
    if known is None:
        return f"the sets with known names are {', '.join(('digits', *_SETS))}"
    place = folder / known.place
    advice = f"download the set from {known.page} and put it into {place}"
    command = known.command.replace("{place}", shlex.quote(str(place)))
    return f"{advice}, as this does: {command}" if command else advice


def _attempt(place: Path, wanted: _Wanted) -> tuple[Images | None, str]:
    """The images, or where they were looked for in vain."""
    try:
        if wanted.extra:
            train = _matlab(place, "train")
            return load_svhn(train, train.with_name("extra_32x32.mat")), ""
        return _read(place, wanted), ""
    except FileNotFoundError as error:
        return None, str(error)


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _matlab(place: Path, split: str) -> Path:
    """SVHN's file of a split, in a folder or named."""
    return place if place.is_file() else place / f"{split}_32x32.mat"


def _read(place: Path, wanted: _Wanted) -> Images:
    """The images of a file or a folder, in whatever format they lie there."""
    split = wanted.split
    if place.is_file() and place.suffix != ".mat":
        return load_cifar(place, split)
    for folder in (place, place / "raw", place / "gzip"):
        if any(folder.glob("*[-.]idx[13]-ubyte*")):
            return load_idx_dataset(*find_idx(folder, split))
    matlab = _matlab(place, split)
    if matlab.is_file():
        return load_svhn(matlab)
    for source in (place, *(place / name for name in _CIFAR_NAMES)):
        if source.is_file() or holds_cifar(source):
            return load_cifar(source, split)
    if holds_lsun(place):
        return load_lsun(place, split, size=wanted.size, limit=wanted.limit)
    try:
        return load_image_folder(place, split, size=wanted.size, limit=wanted.limit)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"looked in {place} for IDX files (also in raw and gzip), {matlab.name}, {', '.join(_CIFAR_NAMES)}, "
            f"databases of LSUN (such as test_lmdb) and a folder of images ({error})"
        ) from error


def _at_path(path: Path, wanted: _Wanted) -> Images:
    if not path.exists():
        names = ", ".join(("digits", *_SETS))
        raise FileNotFoundError(
            f"no image set at {path}: name one of {names}, a folder in the folder of the image sets, or a path"
        )
    if path.is_file() and "idx" in path.name:
        raise DataFileError(f"{path} is one of a pair of IDX files: use load_idx_dataset(images_path, labels_path)")
    images = _read(path, wanted)
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
