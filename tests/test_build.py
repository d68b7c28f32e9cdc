"""The wheel: with kernels where there is a compiler and without where there is none, also if two are built at once."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
has_kernels = pytest.mark.skipif(
    shutil.which("c++") is None or platform.machine() not in {"x86_64", "arm64", "aarch64"},
    reason="needs a compiler and a processor that kernels are built for",
)


def start_build(tree: Path, out: Path, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(tree)]
    environment = {**os.environ, **variables}
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What a wheel is built of."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("built", "__pycache__"))
    return tmp_path


def libraries(out: Path) -> list[str]:
    (wheel,) = out.glob("*.whl")
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".draft"))]


@has_kernels
@pytest.mark.slow
def test_two_builds_at_once_have_all_kernels(tree: Path) -> None:
    outs = [tree / "first", tree / "second"]
    built = tree / "src" / "socratic" / "kernels" / "built"
    built.mkdir()
    (built / "kernels-avx2-0.1.draft").write_text("of a third build")
    for build in [start_build(tree, out) for out in outs]:
        said, _ = build.communicate(timeout=300)
        assert build.returncode == 0, said
    expected = 2 if platform.machine() == "x86_64" else 1
    for out in outs:
        assert len(libraries(out)) == expected
        assert all(name.endswith(".so") for name in libraries(out))


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_for_any_system(tree: Path) -> None:
    build = start_build(tree, tree / "out", CXX="/there/is/no/compiler")
    said, _ = build.communicate(timeout=300)
    assert build.returncode == 0, said
    assert libraries(tree / "out") == []
    (wheel,) = (tree / "out").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    sources = {f"socratic/kernels/cuda/{path.name}" for path in (ROOT / "src/socratic/kernels/cuda").glob("*.cu")}
    assert sources
    assert sources.issubset(names)  # which a GPU's are compiled from when they are needed
