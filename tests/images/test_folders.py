from __future__ import annotations

import contextlib
import io
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from socratic.errors import DataFileError
from socratic.images import EncodedImage, load_image_folder, read_images
from socratic.images.folders import find_images

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(256, size=(6, 5, 4, 3), dtype=np.uint8)
GREY = RNG.integers(256, size=(6, 5, 4), dtype=np.uint8)


def write(path: Path, pixels: np.ndarray | Image.Image, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(path, **options)
    return path


def encoded(pixels: np.ndarray, kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def png_header(width: int, height: int) -> bytes:
    """The start of a PNG of such a size."""

    def part(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(bytes(100))) + part(b"IEND", b"")


def test_subfolders_are_classes(tmp_path: Path) -> None:
    for place, name in enumerate(["b/2.png", "b/10.png", "a/z.PNG", "c/deep/er/1.bmp", "B/x.ppm", "a/y.tiff"]):
        write(tmp_path / "set" / name, COLOUR[place])
    write(tmp_path / "set" / "beside.png", COLOUR[0])  # no class: left out
    found = load_image_folder(tmp_path / "set")
    assert found.images.dtype == np.uint8
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.images, COLOUR[[4, 5, 2, 1, 0, 3]])
    assert found.labels.tolist() == [0, 1, 1, 2, 2, 3]
    assert found.name == "set"


def test_files_in_memory_are_read_like_those_of_a_folder(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{place}.png", COLOUR[place]) for place in range(3)]
    files = [EncodedImage(f"archive, {path.name}", path.read_bytes()) for path in paths]
    np.testing.assert_array_equal(read_images(files), COLOUR[:3])
    np.testing.assert_array_equal(
        read_images([files[0], paths[1]], (3, 3), resize=True), read_images(paths[:2], (3, 3), resize=True)
    )
    broken = EncodedImage("archive, 7.png", files[0].content[:50])
    with pytest.raises(DataFileError, match=r"^archive, 7\.png is damaged or no image \(.*\); replace or remove it$"):
        read_images([files[0], broken], n_channels=3)


def test_what_may_not_be_read_is_named(ordinary_folder: Path) -> None:
    folder = ordinary_folder / "a"
    folder.mkdir()
    content = encoded(COLOUR[0], "PNG")
    (folder / "1.png").write_bytes(content)
    (folder / "2.png").write_bytes(content)
    (folder / "2.png").chmod(0)
    with pytest.raises(PermissionError, match=r"Permission denied: .*2\.png"):
        load_image_folder(ordinary_folder)
    (ordinary_folder / "b").mkdir()
    (ordinary_folder / "b").chmod(0)
    with pytest.raises(PermissionError, match=r"Permission denied: .*b'"):
        load_image_folder(ordinary_folder)


def test_a_flat_folder_has_one_class(tmp_path: Path) -> None:
    for place in range(3):
        write(tmp_path / f"{place}.png", COLOUR[place])
    found = load_image_folder(str(tmp_path))
    np.testing.assert_array_equal(found.images, COLOUR[:3])
    assert found.labels.tolist() == [0, 0, 0]


def test_other_and_hidden_files_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.png", COLOUR[0])
    for name in (
        "a/._1.png",
        "a/notes.txt",
        "a/Thumbs.db",
        ".hidden/1.png",
        "a/.deep/1.png",
        "__MACOSX/1.png",
        ".x.png",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no image")
    (tmp_path / "a" / "folder.png").mkdir()
    assert load_image_folder(tmp_path).images.shape == (1, 5, 4, 3)


def test_an_empty_class_keeps_its_number(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write(tmp_path / "b" / "1.png", COLOUR[0])
    assert load_image_folder(tmp_path).labels.tolist() == [1]


@pytest.mark.parametrize(
    ("split", "name"), [("train", "train"), ("test", "Test"), ("valid", "valid"), ("valid", "val"), ("test", "testing")]
)
def test_the_folder_of_a_split_is_taken(tmp_path: Path, split: str, name: str) -> None:
    write(tmp_path / "set" / name / "a" / "1.png", COLOUR[0])
    write(tmp_path / "set" / ("other" if split == "train" else "train") / "a" / "1.png", COLOUR[1])
    found = load_image_folder(tmp_path / "set", split)
    np.testing.assert_array_equal(found.images, COLOUR[:1])
    assert found.name == "set"


def test_a_folder_without_splits_is_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "a" / "1.png", COLOUR[0])
    assert len(load_image_folder(tmp_path, "train")) == len(load_image_folder(tmp_path, "test")) == 1


def test_a_split_that_is_missing_or_not_named_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train" / "a" / "1.png", COLOUR[0])
    with pytest.raises(FileNotFoundError, match=r"no test images in .*: looked for a folder test, found train"):
        load_image_folder(tmp_path, "test")
    with pytest.raises(ValueError, match=r"split must say which part of .* to read, as it holds train; got None"):
        load_image_folder(tmp_path)
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', 'valid'; got 'all'"):
        load_image_folder(tmp_path, "all")


def test_folders_without_images_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no images in .*: looked for files ending in \.bmp, \.gif, \.jpeg"):
        load_image_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"path must be a folder of images; there is none at .*nothing"):
        load_image_folder(tmp_path / "nothing")


def test_jpeg_and_webp_are_close(tmp_path: Path) -> None:
    flat = np.broadcast_to(np.array([200, 100, 50], np.uint8), (16, 16, 3)).copy()
    for name in ("1.jpg", "2.jpeg", "3.webp"):
        write(tmp_path / name, flat, quality=95)
    found = load_image_folder(tmp_path).images.astype(int)
    assert found.shape == (3, 16, 16, 3)
    assert np.abs(found - flat).max() <= 4


def test_grey_stays_grey(tmp_path: Path) -> None:
    write(tmp_path / "1.png", GREY[0])
    write(tmp_path / "2.png", Image.fromarray(GREY[1]).convert("1", dither=Image.Dither.NONE))
    long = GREY[2].astype(np.uint16) * 256 + 17
    write(tmp_path / "3.png", long)
    write(tmp_path / "4.tif", long)
    write(tmp_path / "5.pgm", GREY[3])
    found = load_image_folder(tmp_path).images
    black_white = np.where(GREY[1] >= 128, 255, 0)
    np.testing.assert_array_equal(found[..., 0], np.stack([GREY[0], black_white, GREY[2], GREY[2], GREY[3]]))
    write(tmp_path / "6.png", COLOUR[0])
    mixed = load_image_folder(tmp_path).images
    np.testing.assert_array_equal(mixed[:5], found.repeat(3, axis=3))
    np.testing.assert_array_equal(mixed[5], COLOUR[0])


def test_palettes_are_colours(tmp_path: Path) -> None:
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[:2] = (255, 0, 0)
    write(tmp_path / "1.png", Image.fromarray(pixels).quantize(4))
    write(tmp_path / "2.gif", Image.fromarray(pixels).quantize(4))
    np.testing.assert_array_equal(load_image_folder(tmp_path).images, np.stack([pixels, pixels]))


def test_transparent_parts_become_black(tmp_path: Path) -> None:
    alpha = np.full((5, 4, 1), 255, np.uint8)
    alpha[0], alpha[1] = 0, 128
    expected = COLOUR[0] * (alpha / 255.0)
    write(tmp_path / "colour" / "1.png", np.concatenate([COLOUR[0], alpha], axis=2))
    found = load_image_folder(tmp_path / "colour").images[0]
    assert not found[0].any()
    np.testing.assert_allclose(found, expected, atol=1)
    write(tmp_path / "grey" / "1.png", np.concatenate([GREY[0][..., None], alpha], axis=2))
    assert load_image_folder(tmp_path / "grey").images.shape == (1, 5, 4, 1)
    np.testing.assert_allclose(
        load_image_folder(tmp_path / "grey").images[0], GREY[0][..., None] * (alpha / 255), atol=1
    )
    palette = Image.fromarray(np.full((5, 4, 3), 200, np.uint8)).quantize(2)
    write(tmp_path / "palette" / "1.png", palette, transparency=bytes([0, 0]))
    assert not load_image_folder(tmp_path / "palette").images.any()


@pytest.mark.parametrize(("orientation", "turn"), [(3, 2), (6, 3), (8, 1)])
def test_images_are_turned_upright(tmp_path: Path, orientation: int, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    write(tmp_path / "1.png", COLOUR[0], exif=exif)
    np.testing.assert_array_equal(load_image_folder(tmp_path).images[0], np.rot90(COLOUR[0], turn))


def test_images_of_other_sizes_are_named_or_resized(tmp_path: Path) -> None:
    write(tmp_path / "1.png", COLOUR[0])
    write(tmp_path / "2.png", COLOUR[1])
    write(tmp_path / "3.png", np.full((9, 7, 3), 60, np.uint8))
    write(tmp_path / "4.png", np.full((4, 5, 3), 70, np.uint8))
    message = r"all images must have one size; \S+1\.png has 5 x 4 pixels, \S+3\.png has 9 x 7: pass size"
    with pytest.raises(DataFileError, match=message):
        load_image_folder(tmp_path)
    found = load_image_folder(tmp_path, size=(5, 4)).images
    np.testing.assert_array_equal(found[:2], COLOUR[:2])
    assert (found[2] == 60).all()
    assert (found[3] == 70).all()
    assert load_image_folder(tmp_path, size=(2, 3)).images.shape == (4, 2, 3, 3)


@pytest.mark.parametrize("size", [(0, 3), (3, -1), (2.5, 3)], ids=str)
def test_sizes_must_be_whole_and_positive(tmp_path: Path, size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"(height|width) must be a whole number of at least 1"):
        load_image_folder(tmp_path, size=size)


def test_a_limit_spreads_over_the_folder(tmp_path: Path) -> None:
    for place in range(6):
        write(tmp_path / f"class{place // 2}" / f"{place}.png", COLOUR[place])
    found = load_image_folder(tmp_path, limit=3)
    np.testing.assert_array_equal(found.images, COLOUR[[0, 2, 5]])
    assert found.labels.tolist() == [0, 1, 2]
    assert len(load_image_folder(tmp_path, limit=100)) == 6
    with pytest.raises(ValueError, match="limit must be a whole number of at least 1; got 0"):
        load_image_folder(tmp_path, limit=0)


def test_many_files_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.images.folders._CHUNK", 64)
    content = [encoded(np.full((1, 1), value, np.uint8), "BMP") for value in range(256)]
    for place in range(300):
        (tmp_path / f"{place:04d}.bmp").write_bytes(content[place % 256])
    assert load_image_folder(tmp_path).images.ravel().tolist() == [place % 256 for place in range(300)]


@pytest.mark.parametrize("content", [b"", b"text", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n"], ids=repr)
def test_files_that_are_no_images_are_named(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "1.png", COLOUR[0])
    (tmp_path / "2.png").write_bytes(content)
    with pytest.raises(DataFileError, match=r"2\.png is damaged or no image \(.*\); replace or remove it"):
        load_image_folder(tmp_path)


def test_real_numbers_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "1.tif", np.zeros((3, 3), np.float32))
    with pytest.raises(DataFileError, match=r"1\.tif is damaged or no image \(it holds real numbers, not bytes\)"):
        load_image_folder(tmp_path)


@pytest.mark.parametrize("size", [None, (8, 8)], ids=["as stored", "resized"])
@pytest.mark.parametrize("side", [10_000, 20_000, 2**31 - 1])
def test_decompression_bombs_are_refused(tmp_path: Path, side: int, size: tuple[int, int] | None) -> None:
    (tmp_path / "1.png").write_bytes(png_header(side, side))
    filters = list(warnings.filters)
    with pytest.raises(DataFileError, match=r"1\.png declares more pixels than can be unpacked safely"):
        load_image_folder(tmp_path, size=size)
    assert warnings.filters == filters


def test_pillow_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"reading images needs Pillow; .* pip install .socratic-circuits\[images\]"):
        load_image_folder(tmp_path)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "WEBP", "PPM", "TIFF", "GIF"])
def test_an_image_cut_short_anywhere_gives_an_error_or_an_image(tmp_path: Path, kind: str) -> None:
    content = encoded(RNG.integers(256, size=(12, 9, 3), dtype=np.uint8), kind)
    refused = 0
    lengths = range(0, len(content), 3)
    for keep in lengths:
        path = tmp_path / "1.png"
        path.write_bytes(content[:keep])
        try:
            assert load_image_folder(tmp_path).images.shape == (1, 12, 9, 3)
        except DataFileError:
            refused += 1
    assert refused > 0.9 * len(lengths)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_an_image_with_a_byte_wrong_gives_an_error_or_an_image(tmp_path: Path, kind: str) -> None:
    content = encoded(RNG.integers(256, size=(12, 9, 3), dtype=np.uint8), kind)
    path = tmp_path / "1.png"
    for place in range(0, len(content), 2):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with contextlib.suppress(DataFileError):
            assert load_image_folder(tmp_path).images.ndim == 4


def test_all_images_of_a_folder(tmp_path: Path) -> None:
    for place, name in enumerate(["b/2.png", "b/deep/1.png", "a/z.PNG", "beside.png"]):
        write(tmp_path / name, COLOUR[place])
    found = find_images(tmp_path, by_class=False)
    assert [path.relative_to(tmp_path).as_posix() for path in found.paths] == [
        "a/z.PNG",
        "b/2.png",
        "b/deep/1.png",
        "beside.png",
    ]
    assert found.labels.tolist() == [0] * 4
    np.testing.assert_array_equal(read_images(found.paths), COLOUR[[2, 0, 1, 3]])
    assert read_images(found.paths, n_channels=1).shape == (4, 5, 4, 1)
    assert read_images(found.paths[:1], (10, 8), resize=True).shape == (1, 10, 8, 3)
    with pytest.raises(DataFileError, match=r"expected are 10 x 8 pixels, \S+z\.PNG has 5 x 4: buy a bigger camera"):
        read_images(found.paths, (10, 8), remedy="buy a bigger camera")
