"""Model files: read once and whole, and checked against their digest."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import socratic
from socratic.errors import ModelFileError
from socratic.loading import load_bytes
from socratic.model_files import ENTRY, building, read_tensors, write_tensors


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.safetensors"
    socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1).save(found)
    return found


def test_single_flipped_bits_are_noticed(path: Path) -> None:
    """Or they change nothing: those of white space, and of the case of a digit."""
    content = path.read_bytes()
    circuit = socratic.load(path)
    rows = torch.zeros(1, 4)
    refused = 0
    for bit in random.Random(0).sample(range(8 * len(content)), 400):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            loaded = load_bytes(bytes(damaged), path)
        except ModelFileError:
            refused += 1
        else:
            assert torch.equal(loaded.log_likelihood(rows), circuit.log_likelihood(rows))
    assert refused > 390


def test_every_bit_of_a_tensor_is_in_the_digest(path: Path) -> None:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    for byte in range(8 + length, len(content), 7):
        damaged = bytearray(content)
        damaged[byte] ^= 1
        with pytest.raises(ModelFileError, match="is damaged: its content is not what was saved, by its digest"):
            load_bytes(bytes(damaged), path)


def test_files_without_a_digest_are_refused(path: Path) -> None:
    tensors = load_file(path)
    header = {"format": "socratic.circuit", "version": 1, "config": {}}
    save_file(tensors, path, metadata={ENTRY: json.dumps(header)})
    with pytest.raises(ModelFileError, match="has no digest, without which damage cannot be told; save it again"):
        socratic.load(path)


def test_what_is_read_does_not_change_with_the_file(path: Path) -> None:
    """A process that maps a file dies when the file gets shorter."""
    socratic.rat_spn(40, 20, n_sums=20, n_leaves=20, depth=3, n_repetitions=5).save(path)
    rewrites = f"""
from pathlib import Path
path = Path({str(path)!r})
content = path.read_bytes()
half = len(content) // 2
print("begun", flush=True)
while True:
    with path.open("r+b") as file:
        file.truncate(half)
        file.seek(half)
        file.write(content[half:])
"""
    reads = f"""
import socratic
for _ in range(100):
    try:
        socratic.load({str(path)!r})
    except socratic.ModelFileError:
        pass
"""
    with subprocess.Popen([sys.executable, "-c", rewrites], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begun\n"
            assert subprocess.run([sys.executable, "-c", reads], check=False).returncode == 0
        finally:
            writer.kill()


def test_bytes_are_loaded_as_the_file_is(path: Path) -> None:
    rows = torch.zeros(1, 4)
    content = path.read_bytes()
    path.unlink()
    assert load_bytes(content, path).log_likelihood(rows).shape == (1, 2)


def test_digests_are_of_content_alone(tmp_path: Path) -> None:
    """Not of the order of the keys of a mapping in Python, or of a type that JSON does not tell."""
    for number, config in enumerate([{"a": (1, 2.5), 3: np.float64(1.0)}, {"a": [1, 2.5], "3": 1.0}]):
        tensors = {"x": torch.zeros(2, 0), "y": torch.tensor(1.5), "z": torch.tensor([True])}
        write_tensors(tmp_path / str(number), "socratic.test", 1, tensors, config)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()
    found, config = read_tensors(tmp_path / "0", "socratic.test", 1)
    assert config == {"a": [1, 2.5], "3": 1.0}
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in found.items()} == {
        "x": ((2, 0), torch.float32),
        "y": ((), torch.float32),
        "z": ((1,), torch.bool),
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("mean"), r"\(KeyError: 'mean'\)"),
        (IndexError("too far"), r"\(too far\)"),
        (MemoryError(), r"\(MemoryError: \)"),
        (RecursionError("too deep"), r"\(too deep\)"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"), "can't decode"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_whatever_goes_wrong_is_the_fault_of_the_file(error: Exception, message: str) -> None:
    with (
        pytest.raises(ModelFileError, match=f"^it is damaged: it does not describe a hat .*{message}"),
        building("it", "a hat"),
    ):
        raise error


def test_interrupts_and_full_gpus_are_not() -> None:
    for error in (KeyboardInterrupt(), torch.OutOfMemoryError("of a GPU")):
        with pytest.raises(type(error)), building("it", "a hat"):
            raise error
