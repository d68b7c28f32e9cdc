"""Model files: tensors as safetensors, everything else as JSON in their metadata, and a digest of both.

Nothing is ever unpickled. A file is read once and whole, so that what was checked is what is used, whatever happens to
the file meanwhile; and what is built from it is built in :func:`building`, so that a file can fail in one way alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from socratic.errors import ModelFileError
from socratic.files import replacing
from socratic.signing import is_signed, signature_of

ENTRY = "socratic"
"""The name of the metadata entry that holds everything but the tensors."""
_HEADER_LENGTH = 8
"""Bytes of a safetensors file that say how long its header is."""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """What the bytes of a model file hold. :meth:`content` gives it away once it is checked.

    Attributes
    ----------
    source : Path
        For messages.
    kind : str
        What the file says that it holds.
    version, config, digest, signature : object
        As the file has them.
    tensors : dict of Tensor
    """

    source: Path
    kind: str
    version: object
    config: object
    digest: object
    signature: object
    tensors: dict[str, Tensor]

    @classmethod
    def read(cls, path: Path) -> ModelFile:
        """Read a file, once and whole."""
        return cls.of(read_bytes(path), path)

    @classmethod
    def of(cls, content: bytes, source: Path) -> ModelFile:
        """From the content of a file."""
        try:
            tensors = from_bytes(content)
            length = _HEADER_LENGTH + int.from_bytes(content[:_HEADER_LENGTH], "little")
            metadata = json.loads(content[_HEADER_LENGTH:length]).get("__metadata__", {})
        except Exception as error:  # whatever a library does not expect
            raise ModelFileError(
                f"{source} is damaged or no model file ({_reason(error)}); save the model again"
            ) from error
        if ENTRY not in metadata:
            raise ModelFileError(f"{source} is a safetensors file, but no model: socratic did not write it")
        try:
            header = json.loads(metadata[ENTRY])
            kind, version, config = (header[name] for name in ("format", "version", "config"))
            return cls(source, str(kind), version, config, header.get("digest"), header.get("signature"), tensors)
        except Exception as error:
            raise ModelFileError(
                f"{source} is damaged: its configuration is not readable ({_reason(error)})"
            ) from error

    def check_signature(self, trusted: str | os.PathLike[str]) -> None:
        """Raise unless the digest is signed with the public key in the file ``trusted``."""
        if self.signature is None:
            raise ModelFileError(f"{self.source} is not signed; sign it with the private key of {trusted}")
        if not is_signed(self.digest, self.signature, trusted):
            raise ModelFileError(f"{self.source} is not signed with the key in {trusted}")

    def content(self, kind: str, version: object) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and configuration of a file of this kind, checked against their digest."""
        if self.kind != kind:
            raise ModelFileError(f"{self.source} is no {kind}: it is a {self.kind}")
        if self.version != version:
            raise ModelFileError(
                f"{self.source} has format version {self.version!r}; this version of socratic reads {version!r}"
            )
        if self.digest is None:
            raise ModelFileError(f"{self.source} has no digest, without which damage cannot be told; save it again")
        if self.digest != digest_of(self.kind, self.version, self.config, self.tensors):
            raise ModelFileError(
                f"{self.source} is damaged: its content is not what was saved, by its digest; save the model again"
            )
        if not isinstance(self.config, dict):
            raise ModelFileError(f"{self.source} is damaged: its configuration is no mapping")
        return self.tensors, self.config


def read_bytes(path: Path) -> bytes:
    """The content of a model file."""
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    return path.read_bytes()


def read_tensors(path: Path, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and configuration of a file that :func:`write_tensors` wrote."""
    return ModelFile.read(path).content(kind, version)


def sign(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> str:
    """Add a signature with the private key in the file ``key`` to a model file; return the digest that is signed."""
    file = ModelFile.read(Path(path))
    tensors, config = file.content(file.kind, file.version)
    digest = str(file.digest)
    write_tensors(file.source, file.kind, file.version, tensors, config, signature_of(digest, key))
    return digest


def write_tensors(
    path: Path,
    kind: str,
    version: object,
    tensors: Mapping[str, Tensor],
    config: object,
    signature: str | None = None,
) -> None:
    """Write tensors and a JSON configuration to ``path``, completely or not at all."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    # Copies: parts of a model may share memory, as models of folds do, and safetensors refuses that.
    plain = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    config = json.loads(json.dumps(config))  # as it will be read
    header = {"format": kind, "version": version, "config": config}
    header["digest"] = digest_of(kind, version, config, plain)
    if signature is not None:
        header["signature"] = signature
    # One entry: safetensors writes several in random order, and equal models should be equal files.
    content = to_bytes(plain, {ENTRY: json.dumps(header)})
    with replacing(path) as draft:
        draft.write_bytes(content)


def digest_of(kind: str, version: object, config: object, tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of all that a model file says, in hexadecimal digits."""
    facts = [[name, str(tensor.dtype), list(tensor.shape)] for name, tensor in sorted(tensors.items())]
    digest = hashlib.sha256(json.dumps([kind, version, config, facts]).encode())
    for _, tensor in sorted(tensors.items()):
        # A copy, as a single number can have any stride, with which it cannot be viewed as bytes.
        flat = tensor.flatten().clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def building(source: str | os.PathLike[str], what: str) -> Iterator[None]:
    """While something is built from the content of a file: whatever goes wrong is the fault of the file.

    Parts of a model check what they are given, and raise what fits the mistake; what no check foresaw raises anything.
    """
    try:
        yield
    except torch.OutOfMemoryError:  # of a GPU, which is too small for the model
        raise
    except Exception as error:
        raise ModelFileError(f"{source} is damaged: it does not describe {what} ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if not text or isinstance(error, KeyError) else text
