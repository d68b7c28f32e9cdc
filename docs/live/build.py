"""The page of the documentation that runs a model of digits in the browser: ``python docs/live/build.py FOLDER``.

ONNX Runtime for browsers comes from npm; without npm there is no such page.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from socratic import CircuitImageClassifier
from socratic.export import export_onnx

HERE = Path(__file__).parent
PACKAGE = "onnxruntime-web@1.22.0"
INTEGRITY = "Ud/+EBo6mhuaQWt/OjaOk0iNWjXqJoeeMFr6xQEERZdIZH2OWpGzuujz7lfuOBjUa6TEE/sc4nb7Da5dNL34fg=="
"""SHA-512 of the package."""
RUNTIME = "ort-wasm-simd-threaded.wasm"
SCRIPTS = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs")
PAGE = ("index.html", "live.css", "live.js", "model.js", "scaling.js", "strokes.json")
SHARED = ("answer.js", "api.js", "drawing.js", "elements.js", "icon.svg", "picture.js", "playground.css", "style.css")
"""What the page has in common with the playground of the server."""
OUTPUTS = ("probabilities", "std", "entropy", "mutual_information", "p_value")
N_TRAINED = 1700
"""Digits that the model is made from; the others can be asked about."""


def digits() -> tuple[np.ndarray, np.ndarray]:
    """All digits of scikit-learn as bytes (N, 8, 8), and their labels (N,)."""
    x, labels = load_digits(return_X_y=True)
    return (x.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8), labels


def trained() -> CircuitImageClassifier:
    """The model, always the same."""
    images, labels = digits()
    return CircuitImageClassifier(n_epochs=12, random_state=0).fit(images[:N_TRAINED], labels[:N_TRAINED])


def build(folder: Path) -> bool:
    """Write the page to a folder, and say whether it could be made; a model that is there is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        add_runtime(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder)
        print(f"the site is built without the live page: {PACKAGE} could not be had from npm ({error})")
        return False
    for name in PAGE:
        shutil.copy(HERE / name, folder)
    for name in SHARED:
        (folder / name).write_bytes((files("socratic.serve") / "static" / name).read_bytes())
    if not (folder / "model.onnx.gz").exists():
        add_model(folder)
    return True


def add_runtime(folder: Path) -> None:
    """Add what runs models in a browser."""
    if (folder / f"{RUNTIME}.gz").exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([npm, "pack", PACKAGE], cwd=place, check=True, capture_output=True)
        (package,) = Path(place).glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
        if found != INTEGRITY:
            raise OSError(f"the package is not the one that is known: its SHA-512 is {found}")
        with tarfile.open(package) as archive:
            for name in (*SCRIPTS, RUNTIME):
                member = archive.extractfile(f"package/dist/{name}")
                assert member is not None
                write(folder / name, member.read(), packed=name == RUNTIME)


def add_model(folder: Path) -> None:
    """Add the exported model."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        export_onnx(trained(), path, OUTPUTS)
        shutil.copy(path.with_suffix(".json"), folder)
        write(folder / path.name, path.read_bytes(), packed=True)


def write(path: Path, content: bytes, *, packed: bool) -> None:
    """Write a file; packed, it has the ending .gz."""
    if packed:
        path, content = path.with_name(f"{path.name}.gz"), gzip.compress(content, mtime=0)
    path.write_bytes(content)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if build(target):
        sizes = {path.name: path.stat().st_size for path in target.iterdir()}
        print(f"live page: {sum(sizes.values()) / 1e6:.2f} MB in {len(sizes)} files")
