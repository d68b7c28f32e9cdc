from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import socratic
from socratic.errors import ModelFileError
from socratic.families import Binomial, Categorical, Gaussian
from socratic.model_files import digest_of


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    socratic.rat_spn(5, 3, n_sums=3, n_leaves=2, depth=2, seed=4).save(path)
    return path


def header_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["socratic"])


def rewrite(path: Path, header: dict[str, Any] | str, tensors: dict[str, torch.Tensor] | None = None) -> None:
    """Write a model file anew with another header or other tensors, and the digest of these."""
    tensors = load_file(path) if tensors is None else tensors
    if isinstance(header, dict):
        kind, version, config = (header.get(name) for name in ("format", "version", "config"))
        header = json.dumps({**header, "digest": digest_of(str(kind), version, config, tensors)})
    save_file(tensors, path, metadata={"socratic": header})


def reconfigure(path: Path, **changes: object) -> None:
    """Change the configuration of a model file, keeping its tensors."""
    header = header_of(path)
    header["config"].update(changes)
    rewrite(path, header)


@pytest.mark.parametrize(
    "circuit",
    [
        socratic.rat_spn(5, 3, n_sums=3, n_leaves=2, depth=2, seed=4),
        socratic.rat_spn(3, 2, depth=1, leaf=["bernoulli", Categorical(3), Gaussian(max_variance=None)]).double(),
        socratic.spatial_spn(3, 4, 2, n_repetitions=3, leaf=Binomial(3), product="element-wise"),
    ],
    ids=["gaussian", "mixed", "image"],
)
def test_a_saved_circuit_comes_back_to_the_last_bit(circuit: socratic.Circuit, tmp_path: Path) -> None:
    circuit.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert isinstance(loaded, socratic.Circuit)
    assert loaded.dtype == circuit.dtype
    assert loaded.to_config() == circuit.to_config()
    x = torch.ones(2, circuit.n_features)
    assert torch.equal(loaded.log_likelihood(x), circuit.log_likelihood(x))
    assert all(parameter.requires_grad for parameter in loaded.parameters())


def test_saving_leaves_nothing_else_and_replaces_whole_files(tmp_path: Path) -> None:
    circuit = socratic.rat_spn(4, 2, depth=1)
    circuit.save(tmp_path / "model")
    circuit.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        circuit.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(IsADirectoryError, match="name a file to write to"):
        circuit.save(tmp_path)


def test_endless_nesting_is_refused(model: Path) -> None:
    rewrite(model, "[" * 200_000)
    with pytest.raises(ModelFileError, match="its configuration is not readable"):
        socratic.load(model)


def test_an_unknown_device_is_no_damage(model: Path) -> None:
    with pytest.raises(RuntimeError, match="device"):
        socratic.load(model, device="nonsense")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no model file at"):
        socratic.load(tmp_path / "nothing")


@pytest.mark.parametrize("keep", [0, 4, 8, 50, 500, -1])
def test_truncated_files_are_refused(model: Path, keep: int) -> None:
    model.write_bytes(model.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"is damaged or no model file .*; save the model again"):
        socratic.load(model)


def test_an_oversized_header_is_refused(model: Path) -> None:
    model.write_bytes(struct.pack("<Q", 2**62) + model.read_bytes()[8:])
    with pytest.raises(ModelFileError, match="is damaged"):
        socratic.load(model)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(b"PK\x03\x04 something else entirely, and longer than a header")
    with pytest.raises(ModelFileError, match="is damaged or no model file"):
        socratic.load(path)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="but no model: socratic did not write it"):
        socratic.load(path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "pickle"
    torch.save({"x": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError):
        socratic.load(path)


def test_another_version_is_named(model: Path) -> None:
    rewrite(model, {**header_of(model), "version": 99})
    with pytest.raises(ModelFileError, match="format version 99; this version of socratic reads 1"):
        socratic.load(model)
    rewrite(model, {**header_of(model), "format": "socratic.other"})
    with pytest.raises(ModelFileError, match=r"holds no model: it is a socratic\.other"):
        socratic.load(model)
    rewrite(model, {"format": "socratic.circuit"})
    with pytest.raises(ModelFileError, match="its configuration is not readable"):
        socratic.load(model)


def test_equal_circuits_are_equal_files(tmp_path: Path) -> None:
    files = []
    for number in range(10):
        socratic.rat_spn(4, 2, depth=1).save(tmp_path / str(number))
        files.append((tmp_path / str(number)).read_bytes())
    assert len(set(files)) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_sums": 4}, r"has the shape \(.*\), expected \(.*\)"),
        ({"n_sums": 10**9}, "is damaged"),
        ({"n_classes": 0}, "does not describe a circuit"),
        ({"n_sums": "3"}, "does not describe a circuit"),
        ({"product": "other"}, "does not describe a circuit"),
        ({"families": [{"family": "gaussian", "surprise": 1}]}, "does not describe a circuit"),
        ({"families": []}, "does not describe a circuit"),
        ({"family_of": [7] * 5}, "does not describe a circuit"),
        ({"family_of": [-1] * 5}, "does not describe a circuit"),
        ({"region_graph": {"n_features": 10**9, "regions": [[0]], "partitions": []}}, "does not describe a circuit"),
        ({"region_graph": {"n_features": 5, "regions": [[0]], "partitions": []}}, "does not describe a circuit"),
        ({"region_graph": []}, "does not describe a circuit"),
        ({"region_graph": {"n_features": 5, "regions": 3, "partitions": []}}, "does not describe a circuit"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(model: Path, changes: dict[str, object], message: str) -> None:
    reconfigure(model, **changes)
    with pytest.raises(ModelFileError, match=message):
        socratic.load(model)


def test_missing_and_unknown_parameters_are_named(model: Path) -> None:
    header, tensors = header_of(model), load_file(model)
    rewrite(model, header, {**tensors, "extra": torch.zeros(1)})
    with pytest.raises(ModelFileError, match="the parameter 'extra' is unknown"):
        socratic.load(model)
    name = sorted(tensors)[0]
    rewrite(model, header, {key: value for key, value in tensors.items() if key != name})
    with pytest.raises(ModelFileError, match=f"the parameter '{name}' is missing"):
        socratic.load(model)


def test_parameters_of_other_types_are_refused(model: Path) -> None:
    rewrite(model, header_of(model), {name: tensor.long() for name, tensor in load_file(model).items()})
    with pytest.raises(ModelFileError, match=r"its parameters are of the types \['torch.int64'\]"):
        socratic.load(model)


def test_a_loaded_circuit_does_not_depend_on_its_file(model: Path) -> None:
    loaded = socratic.load(model)
    x = torch.zeros(2, 5)
    before = loaded.log_likelihood(x)
    model.write_bytes(b"")
    assert torch.equal(loaded.log_likelihood(x), before)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "model")
    socratic.rat_spn(4, 2, depth=1).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]


def test_settings_given_as_numpy_numbers_can_be_saved(tmp_path: Path) -> None:
    leaf = [Categorical(np.int64(3)), Binomial(np.int32(4)), Gaussian(np.float32(0.5), np.float64(2.0))]
    circuit = socratic.rat_spn(np.int64(3), np.int64(2), depth=1, leaf=leaf, seed=np.int64(3))
    circuit.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert isinstance(loaded, socratic.Circuit)
    assert loaded.to_config() == circuit.to_config()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_parameters_that_are_no_numbers_are_neither_saved_nor_read(model: Path, tmp_path: Path, value: float) -> None:
    circuit = socratic.rat_spn(4, 2, depth=1)
    with torch.no_grad():
        next(circuit.parameters())[0, 0] = value
    with pytest.raises(ValueError, match=r"parameters that are NaN or infinite, and cannot be saved"):
        circuit.save(tmp_path / "nan")
    tensors = load_file(model)
    tensors[sorted(tensors)[0]].fill_(value)
    rewrite(model, header_of(model), tensors)
    with pytest.raises(ModelFileError, match=r"its parameters are NaN or infinite"):
        socratic.load(model)
