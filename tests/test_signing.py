"""Signatures of model files: only what is signed with a trusted key is read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import socratic
from socratic import signing
from socratic.cli.app import main
from socratic.errors import ModelFileError
from socratic.model_files import ENTRY, digest_of, sign
from tests.circuit.test_storage import header_of

pytest.importorskip("cryptography")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "model.safetensors"
    socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1).save(found)
    return found


@pytest.fixture
def key(tmp_path: Path) -> Path:
    signing.new_key(tmp_path / "key")
    return tmp_path / "key"


def test_signed_files_are_read(path: Path, key: Path) -> None:
    before = socratic.load(path)
    sign(path, key)
    rows = torch.zeros(1, 4)
    for trusted in (None, f"{key}.pub", Path(f"{key}.pub")):
        assert torch.equal(socratic.load(path, trusted=trusted).log_likelihood(rows), before.log_likelihood(rows))


def test_other_files_are_not(path: Path, key: Path, tmp_path: Path) -> None:
    trusted = Path(f"{key}.pub")
    with pytest.raises(ModelFileError, match=r"is not signed; sign it with the private key of .*key\.pub$"):
        socratic.load(path, trusted=trusted)
    signing.new_key(tmp_path / "other")
    sign(path, tmp_path / "other")
    with pytest.raises(ModelFileError, match=r"is not signed with the key in .*key\.pub$"):
        socratic.load(path, trusted=trusted)


def test_a_signature_goes_with_one_content(path: Path, key: Path) -> None:
    sign(path, key)
    header, tensors = header_of(path), load_file(path)
    tensors[sorted(tensors)[0]] += 1.0
    forged = digest_of(header["format"], header["version"], header["config"], tensors)
    for digest, message in ((header["digest"], "by its digest"), (forged, "is not signed with the key")):
        save_file(tensors, path, metadata={ENTRY: json.dumps({**header, "digest": digest})})
        with pytest.raises(ModelFileError, match=message):
            socratic.load(path, trusted=f"{key}.pub")


@pytest.mark.parametrize("signature", [None, "", "zz", "00" * 64, 3, [], "00" * 10**6])
def test_what_is_no_signature_is_none(path: Path, key: Path, signature: object) -> None:
    save_file(load_file(path), path, metadata={ENTRY: json.dumps({**header_of(path), "signature": signature})})
    socratic.load(path)
    with pytest.raises(ModelFileError, match="is not signed"):
        socratic.load(path, trusted=f"{key}.pub")


def test_damaged_files_are_not_signed(path: Path, key: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(ModelFileError, match="by its digest"):
        sign(path, key)


def test_private_keys_are_for_their_owner_and_never_replaced(key: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match=r"key\.pub is there already; name another file"):
        signing.new_key(key)
    Path(f"{key}.pub").unlink()
    with pytest.raises(FileExistsError, match="key is there already; name another file"):
        signing.new_key(key)


def test_files_without_keys_are_named(path: Path, key: Path) -> None:
    for wrong in (path, Path(f"{key}.pub")):
        with pytest.raises(ValueError, match="key must be a file with a private key that needs no password"):
            sign(path, wrong)
    sign(path, key)
    for wrong in (path, key):
        with pytest.raises(ValueError, match="trusted must be a file with a public key"):
            socratic.load(path, trusted=wrong)
    with pytest.raises(FileNotFoundError):
        socratic.load(path, trusted=path.with_name("nothing"))


def test_the_command_signs(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: object) -> int:
        with pytest.raises(SystemExit) as end:
            main(["sign", *map(str, arguments)])
        return int(end.value.code or 0)

    key = tmp_path / "mine"
    assert run("--new-key", key) == 0
    assert run(path, "--key", key) == 0
    out = capsys.readouterr().out
    assert f"wrote {key}, which you keep to yourself, and {key}.pub, for others" in out
    assert f"signed {path}" in out
    socratic.load(path, trusted=f"{key}.pub")
    signing.new_key(tmp_path / "other")
    other, table = tmp_path / "other.pub", tmp_path / "rows.csv"
    table.write_text("x\n1\n")
    for command in (["predict", path, table, "-o", tmp_path / "out.csv"], ["serve", path]):
        with pytest.raises(SystemExit) as end:
            main([*map(str, command), "--trusted", str(other)])
        assert end.value.code == 2
        assert f"is not signed with the key in {other}" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["predict", str(path), str(table), "-o", str(tmp_path / "out.csv"), "--trusted", str(key)])
    assert end.value.code == 2
    assert capsys.readouterr().err.strip().endswith(f"such as socratic sign --new-key writes; {key} is none")
    for arguments in ((), (path,), ("--key", key), ("--new-key", key), (tmp_path / "none", "--key", key)):
        assert run(*arguments) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
