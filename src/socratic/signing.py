"""Signatures: who vouches for a digest. Ed25519, with keys in PEM files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from socratic.errors import import_extra

_MEANT = b"socratic model file\n"
"""Signed before the digest: a signature of something else is none of a model file."""


def new_key(path: str | os.PathLike[str]) -> Path:
    """Write a new private key to ``path``, for its owner alone, and its public key beside it; return the latter's path.

    Raises
    ------
    FileExistsError
        If either file is there: a key is never replaced.
    """
    private, public = Path(path), Path(f"{os.fspath(path)}.pub")
    if public.exists():
        raise FileExistsError(f"{public} is there already; name another file for the key")
    _, serialization, ed25519 = _cryptography()
    pem, key = serialization.Encoding.PEM, ed25519.Ed25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    try:
        file = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExistsError(f"{private} is there already; name another file for the key") from None
    with open(file, "wb") as opened:
        opened.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return public


def signature_of(digest: str, key: str | os.PathLike[str]) -> str:
    """The signature of a digest with the private key in a file, in hexadecimal digits."""
    _, serialization, ed25519 = _cryptography()
    content = Path(key).read_bytes()
    try:
        private = serialization.load_pem_private_key(content, password=None)
    except Exception as error:
        raise ValueError(f"key must be a file with a private key that needs no password; {key} is none") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise ValueError(f"key must be a file with an Ed25519 key; {key} holds one of another kind")
    return str(private.sign(_MEANT + digest.encode()).hex())


def public_key(trusted: str | os.PathLike[str]) -> Any:
    """The public key in a file, or an error that says why there is none."""
    _, serialization, ed25519 = _cryptography()
    content = Path(trusted).read_bytes()
    try:
        public = serialization.load_pem_public_key(content)
    except Exception as error:
        raise ValueError(
            f"trusted must be a file with a public key, such as socratic sign --new-key writes; {trusted} is none"
        ) from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise ValueError(f"trusted must be a file with an Ed25519 key; {trusted} holds one of another kind")
    return public


def is_signed(digest: object, signature: object, trusted: str | os.PathLike[str]) -> bool:
    """Whether a signature of a digest is by the public key in a file."""
    exceptions, _, _ = _cryptography()
    public = public_key(trusted)
    if not isinstance(digest, str) or not isinstance(signature, str):
        return False
    try:
        public.verify(bytes.fromhex(signature), _MEANT + digest.encode())
    except (exceptions.InvalidSignature, ValueError):
        return False
    return True


def _cryptography() -> tuple[Any, Any, Any]:
    names = ("exceptions", "hazmat.primitives.serialization", "hazmat.primitives.asymmetric.ed25519")
    found = [import_extra(f"cryptography.{name}", "sign", "signatures of model files") for name in names]
    return found[0], found[1], found[2]
