from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.tests.data.batches import cifar10, cifar100, cifar100_binary, write_archive, write_folder
from experiments.tests.data.databases import colours, picture, write_database
from experiments.tests.data.test_idx import LABELS, PIXELS, idx
from PIL import Image
from scipy.io import savemat

from socratic.errors import DataFileError
from socratic_experiments.data import load_images

COLOUR = np.random.default_rng(0).integers(256, size=(3, 32, 32, 3), dtype=np.uint8)


def write_idx(folder: Path, prefix: str = "", ending: str = "") -> None:
    """Train images, and their negatives to test."""
    folder.mkdir(parents=True, exist_ok=True)
    for word, pixels in (("train", PIXELS), ("t10k", 255 - PIXELS)):
        for name, array in (("images-idx3", pixels), ("labels-idx1", LABELS)):
            content = gzip.compress(idx(array)) if ending else idx(array)
            (folder / f"{prefix}{word}-{name}-ubyte{ending}").write_bytes(content)


def write_svhn(folder: Path, *, extra: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    for split, pixels in (("train", COLOUR), ("test", 255 - COLOUR), *([("extra", COLOUR // 2)] if extra else [])):
        savemat(folder / f"{split}_32x32.mat", {"X": pixels.transpose(1, 2, 3, 0), "y": np.array([[1], [10], [3]])})


def write_images(folder: Path, *splits: str) -> None:
    for split in splits:
        for place, name in enumerate(("cat", "cat", "dog")):
            path = folder / split / name / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(COLOUR[place] if split != "test" else 255 - COLOUR[place]).save(path)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mnist", "MNIST/raw"),
        ("MNIST", "mnist"),
        ("notmnist", "notMNIST/raw"),
        ("fashion-mnist", "FashionMNIST/raw"),
        ("Fashion-MNIST", "fashion_mnist"),
        ("kmnist", "KMNIST/raw"),
        ("emnist", "EMNIST/gzip"),
        ("my letters", "My-Letters"),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"], ids=["plain", "gzip"])
def test_idx_sets_are_found(tmp_path: Path, name: str, place: str, ending: str) -> None:
    write_idx(tmp_path / place, "emnist-letters-" if name == "emnist" else "", ending)
    found = load_images(name, tmp_path, "train")
    np.testing.assert_array_equal(found.images[..., 0], PIXELS)
    assert found.labels.tolist() == LABELS.tolist()
    assert found.name == name.lower()
    np.testing.assert_array_equal(load_images(name, str(tmp_path), "test").images[..., 0], 255 - PIXELS)


@pytest.mark.parametrize("place", ["SVHN", "svhn", "."])
def test_svhn_is_found(tmp_path: Path, place: str) -> None:
    write_svhn(tmp_path / place)
    found = load_images("svhn", tmp_path, "test")
    np.testing.assert_array_equal(found.images, 255 - COLOUR)
    assert found.labels.tolist() == [1, 0, 3]
    assert found.name == "svhn"


@pytest.mark.parametrize("place", ["SVHN", "svhn-extra", "."])
@pytest.mark.parametrize("name", ["svhn-extra", "SVHN_extra", "svhnextra"])
def test_extra_images_of_svhn_are_to_train_on(tmp_path: Path, name: str, place: str) -> None:
    write_svhn(tmp_path / place, extra=True)
    train, test = load_images(name, tmp_path), load_images(name, tmp_path, "test")
    np.testing.assert_array_equal(train.images, np.concatenate([COLOUR, COLOUR // 2]))
    assert train.labels.tolist() == [1, 0, 3, 1, 0, 3]
    np.testing.assert_array_equal(test.images, 255 - COLOUR)
    assert train.name == test.name == "svhn-extra"
    if place != "svhn-extra":
        assert len(load_images("svhn", tmp_path)) == 3


def test_extra_images_that_are_missing_are_named(tmp_path: Path) -> None:
    write_svhn(tmp_path / "SVHN")
    assert len(load_images("svhn-extra", tmp_path, "test")) == 3
    with pytest.raises(FileNotFoundError) as caught:
        load_images("svhn-extra", tmp_path)
    assert f"no SVHN file at {tmp_path / 'SVHN' / 'extra_32x32.mat'}; download the set from http://ufl" in str(
        caught.value
    )
    assert str(caught.value).endswith(
        f"as this does: curl -fL --create-dirs --output-dir {tmp_path / 'SVHN'} -O "
        '"http://ufldl.stanford.edu/housenumbers/{train,test,extra}_32x32.mat"'
    )


@pytest.mark.parametrize("place", [".", "CIFAR10", "cifar-10"])
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_cifar_is_found(tmp_path: Path, place: str, packed: bool) -> None:
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    if packed:
        write_archive(folder / "cifar-10-python.tar.gz", cifar10())
        write_archive(tmp_path / "cifar-100-python.tar.gz", cifar100())
    else:
        write_folder(folder / "cifar-10-batches-py", cifar10())
        write_folder(tmp_path / "cifar-100-python", cifar100())
    write_svhn(tmp_path)  # beside it: not taken for it
    found = load_images("cifar10", tmp_path, "train")
    assert found.labels.tolist() == [number for number in range(1, 6) for _ in range(4)]
    assert found.name == "cifar10"
    assert load_images("CIFAR-100", tmp_path, "train").labels.tolist() == [99] * 4
    assert load_images("cifar100", tmp_path, "test").name == "cifar100"


def test_batches_right_in_the_folder_of_the_set_are_found(tmp_path: Path) -> None:
    write_folder(tmp_path / "CIFAR10", cifar10())
    assert load_images("cifar10", tmp_path, "test").labels.tolist() == [0] * 4


def test_extra_images_are_not_left_out_where_svhn_lies_in_another_format(tmp_path: Path) -> None:
    write_images(tmp_path / "SVHN", "train", "test")
    assert len(load_images("svhn", tmp_path)) == 3
    with pytest.raises(FileNotFoundError, match=r"no SVHN file at .*train_32x32\.mat; download the set from "):
        load_images("svhn-extra", tmp_path)


@pytest.mark.parametrize("place", [".", "CIFAR100"])
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_the_binary_version_of_cifar_is_found(tmp_path: Path, place: str, packed: bool) -> None:
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    if packed:
        write_archive(folder / "cifar-100-binary.tar.gz", cifar100_binary())
    else:
        write_folder(folder / "cifar-100-binary", cifar100_binary())
    assert load_images("cifar100", tmp_path, "test").labels.tolist() == [10, 99, 0, 7]


@pytest.mark.parametrize("place", ["CINIC10", "CINIC-10", "cinic", "cinic_10"])
@pytest.mark.parametrize("name", ["cinic", "cinic10", "CINIC-10", "cinic_10"])
def test_cinic_is_found_as_downloaded(tmp_path: Path, name: str, place: str) -> None:
    write_images(tmp_path / place, "train", "valid", "test")
    (tmp_path / place / "synsets-to-cifar-10-classes.txt").write_text("comes with it")
    train, test = load_images(name, tmp_path, "train"), load_images(name, tmp_path, "test")
    np.testing.assert_array_equal(train.images, COLOUR)
    np.testing.assert_array_equal(test.images, 255 - COLOUR)
    assert test.labels.tolist() == [0, 0, 1]
    assert test.classes == ("cat", "dog")
    assert train.name == test.name == "cinic"


def test_images_of_cinic_may_be_grey_transparent_or_of_another_size(tmp_path: Path) -> None:
    write_images(tmp_path / "CINIC10", "train", "test")
    folder = tmp_path / "CINIC10" / "test" / "cat"
    Image.fromarray(COLOUR[0]).convert("L").save(folder / "2.png")
    Image.fromarray(COLOUR[1]).convert("RGBA").save(folder / "3.png")
    found = load_images("cinic", tmp_path, "test")
    grey = np.asarray(Image.fromarray(COLOUR[0]).convert("L"))
    np.testing.assert_array_equal(found.images[2], np.stack([grey] * 3, axis=-1))
    np.testing.assert_array_equal(found.images[3], COLOUR[1])
    Image.fromarray(COLOUR[0]).resize((40, 50)).save(folder / "4.png")
    with pytest.raises(DataFileError, match=r"all images must have one size; .* 32 x 32 pixels, .*4\.png has 50 x 40"):
        load_images("cinic", tmp_path, "test")
    assert load_images("cinic", tmp_path, "test", size=(32, 32)).images.shape == (6, 32, 32, 3)
    (folder / "5.png").write_bytes((folder / "4.png").read_bytes()[:200])
    with pytest.raises(DataFileError, match=r"5\.png is damaged or no image"):
        load_images("cinic", tmp_path, "test", size=(32, 32))


@pytest.mark.parametrize("name", ["lsun", "LSUN"])
def test_lsun_is_found_as_downloaded(tmp_path: Path, name: str) -> None:
    write_database(tmp_path / "LSUN" / "church_outdoor_val_lmdb", [picture((200, 0, 0))])
    write_database(tmp_path / "LSUN" / "bedroom_val_lmdb", [picture((0, 0, 200))])
    write_database(tmp_path / "LSUN" / "bedroom_train_lmdb", [picture((0, 200, 0))])
    found = load_images(name, tmp_path, "test", size=(28, 30))
    assert found.images.shape == (2, 28, 30, 3)
    assert colours(found.images) == [[0, 0, 20], [20, 0, 0]]
    assert found.classes == ("bedroom", "church_outdoor")
    assert found.name == "lsun"
    assert load_images(name, tmp_path, "train").images.shape == (1, 32, 32, 3)
    one = load_images(tmp_path / "LSUN" / "bedroom_val_lmdb", split="test")
    assert colours(one.images) == [[0, 0, 20]]
    assert one.name == "bedroom_val_lmdb"


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    write_images(tmp_path / "CINIC10", "test")
    for broken in ("cat/1.png", "dog/2.png"):
        (tmp_path / "CINIC10" / "test" / broken).write_bytes(b"not looked at")
    assert len(load_images("cinic", tmp_path, "test", limit=1)) == 1
    write_database(tmp_path / "LSUN" / "a_val_lmdb", {b"0": picture((9, 9, 9)), b"1": b"not looked at"})
    assert len(load_images("lsun", tmp_path, "test", limit=1)) == 1
    write_svhn(tmp_path)
    np.testing.assert_array_equal(load_images("svhn", tmp_path, limit=2).images, COLOUR[[0, 2]])
    assert load_images("svhn", tmp_path, limit=9).labels.tolist() == [1, 0, 3]
    with pytest.raises(ValueError, match="limit must be"):
        load_images("svhn", tmp_path, limit=0)


@pytest.mark.parametrize(("name", "place"), [("cifar10", "CIFAR10"), ("scenes", "scenes"), ("lsun", "LSUN")])
def test_image_folders_are_found(tmp_path: Path, name: str, place: str) -> None:
    write_images(tmp_path / place, "train", "test")
    found = load_images(name, tmp_path, "test")
    np.testing.assert_array_equal(found.images, 255 - COLOUR)
    assert found.labels.tolist() == [0, 0, 1]
    assert found.name == name


def test_a_set_in_two_places_is_read_where_the_split_is(tmp_path: Path) -> None:
    write_images(tmp_path / "CIFAR10", "test")
    write_folder(tmp_path / "cifar-10-batches-py", cifar10())
    assert len(load_images("cifar10", tmp_path, "test")) == 3
    assert len(load_images("cifar10", tmp_path, "train")) == 20


def test_the_folder_may_be_that_of_the_set(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw")
    assert len(load_images("mnist", tmp_path / "MNIST", "test")) == 3
    with pytest.raises(FileNotFoundError, match="no test images of 'kmnist'"):
        load_images("kmnist", tmp_path / "MNIST", "test")


def test_paths_are_read_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_images(tmp_path / "digits", "train")
    write_svhn(tmp_path / "numbers")
    write_folder(tmp_path / "cifar", cifar10())
    assert load_images(tmp_path / "digits").images.shape == (3, 32, 32, 3)
    assert load_images(str(tmp_path / "numbers"), split="test").name == "numbers"
    assert load_images(tmp_path / "numbers" / "test_32x32.mat", split="test").name == "test_32x32"
    assert len(load_images(tmp_path / "cifar" / "test_batch", split="test")) == 4
    monkeypatch.chdir(tmp_path)
    assert load_images("numbers").name == "numbers"
    assert load_images("./digits").name == "digits"
    with pytest.raises(FileNotFoundError, match="no image set at nothing: name one of digits, mnist, notmnist, "):
        load_images("nothing")


def test_one_idx_file_is_not_a_set(tmp_path: Path) -> None:
    write_idx(tmp_path)
    with pytest.raises(DataFileError, match=r"is one of a pair of IDX files: use load_idx_dataset"):
        load_images(tmp_path / "train-images-idx3-ubyte")


@pytest.mark.parametrize(
    ("name", "looked", "page"),
    [
        ("mnist", "a folder mnist in upper or lower case;", "https://yann.lecun.com/exdb/mnist"),
        ("svhn", "a folder svhn in upper or lower case, train_32x32.mat;", "http://ufldl.stanford.edu/housenumbers"),
        ("cifar10", "cifar-10-batches-py, cifar-10-python.tar.gz, ", "https://www.cs.toronto.edu/~kriz/cifar.html"),
        ("cinic", "a folder cinic or cinic10 in upper or lower case;", "https://github.com/BayesWatch/cinic-10"),
        ("lsun", "a folder lsun in upper or lower case;", "https://github.com/fyu/lsun"),
    ],
)
def test_what_is_missing_is_explained(tmp_path: Path, name: str, looked: str, page: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_images(name, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"no train images of {name!r} in {tmp_path}: looked for ")
    assert looked in message
    assert f"download the set from {page} and put it into {tmp_path}" in message


def test_the_places_looked_at_are_named(tmp_path: Path) -> None:
    write_images(tmp_path / "CIFAR10", "test")
    (tmp_path / "Empty").mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        load_images("cifar10", tmp_path, "train")
    assert (
        f"looked in {tmp_path / 'CIFAR10'} for IDX files (also in raw and gzip), train_32x32.mat, cifar-10-ba"
        in str(caught.value)
    )
    assert "looked for a folder train, found test" in str(caught.value)
    with pytest.raises(
        FileNotFoundError, match=r"looked in \S+Empty for .*; the sets with known names are digits, mni"
    ):
        load_images("empty", tmp_path, "train")
    with pytest.raises(FileNotFoundError, match="looked for a folder gsv in upper or lower case; the sets with known"):
        load_images("gsv", tmp_path, "train")


def test_archives_that_were_not_unpacked_are_explained(tmp_path: Path) -> None:
    (tmp_path / "LSUN").mkdir()
    (tmp_path / "LSUN" / "test_lmdb.zip").write_bytes(b"as downloaded")
    with pytest.raises(FileNotFoundError) as caught:
        load_images("lsun", tmp_path, "test")
    assert "databases of LSUN (such as test_lmdb)" in str(caught.value)
    assert str(caught.value).endswith(f"&& unzip {tmp_path}/LSUN/test_lmdb.zip -d {tmp_path}/LSUN")


def test_commands_quote_places(tmp_path: Path) -> None:
    (tmp_path / "my images").mkdir()
    with pytest.raises(FileNotFoundError, match=r"mkdir -p '.*my images/CINIC10' && curl .* -C '.*my images/CINIC10'$"):
        load_images("cinic", tmp_path / "my images", "test")


@pytest.mark.parametrize("name", ["svhn-extra", "cifar100", "cinic", "lsun"])
def test_the_documentation_has_the_commands(tmp_path: Path, name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "data.md"
    with pytest.raises(FileNotFoundError) as caught:
        load_images(name, tmp_path)
    command = str(caught.value).partition("as this does: ")[2].replace(str(tmp_path), "images")
    assert command
    assert command in page.read_text().replace(" \\\n  ", " ")


def test_half_a_set_names_the_page(tmp_path: Path) -> None:
    write_idx(tmp_path / "notMNIST" / "raw")
    for path in (tmp_path / "notMNIST" / "raw").glob("train-*"):
        path.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"no train images with labels in .*raw: .*; download the set from http"
    ):
        load_images("notmnist", tmp_path, "train")


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; got 'valid'"):
        load_images("mnist", tmp_path, "valid")
    with pytest.raises(ValueError, match="folder must name the folder that 'fashion-mnist' lies in; got None"):
        load_images("FashionMNIST")
    with pytest.raises(FileNotFoundError, match=r"folder must be the folder of the image sets; there is none at .*not"):
        load_images("mnist", tmp_path / "not")
    with pytest.raises(ValueError, match="name must be the name of an image set or a path; got '-'"):
        load_images("-", tmp_path)


def test_digits_come_with_scikit_learn() -> None:
    train, test = load_images("digits"), load_images("Digits", split="test")
    assert train.images.shape == (1297, 8, 8, 1)
    assert test.images.shape == (500, 8, 8, 1)
    assert train.images.dtype == np.uint8
    assert train.labels.dtype == np.int64
    assert train.images.max() == 255
    assert train.name == test.name == "digits"
    # Always the same split, and no image in both.
    assert test.labels[:8].tolist() == load_images("digits", split="test").labels[:8].tolist() == FIRST_TEST_DIGITS
    from sklearn.datasets import load_digits

    every = load_digits().data
    both = np.concatenate([train.images, test.images]).reshape(1797, 64)
    np.testing.assert_array_equal(np.sort(np.round(both * (16 / 255)), axis=0), np.sort(every, axis=0))


FIRST_TEST_DIGITS = [2, 8, 2, 6, 6, 7, 1, 9]


def test_scikit_learn_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(
        ImportError, match=r"the digits come with scikit-learn; install it by: pip install scikit-learn"
    ):
        load_images("digits")
