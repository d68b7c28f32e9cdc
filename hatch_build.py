"""Builds the kernels for processors with the package, where there is a compiler; without them PyTorch computes."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path("src/socratic/kernels")
FLAGS = "-std=c++17 -O3 -shared -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-math-errno -ffp-contract=fast"
TARGETS = {
    "avx512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mprefer-vector-width=512",
    "avx2": "-mavx2 -mfma",
}
"""Instructions of x86-64, by the names that torch has for them."""


class KernelBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Compile the kernels once for each kind of processor that may run them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Compile, and make the wheel one for this system if that worked."""
        root = Path(self.root)
        built = root / KERNELS / "built"
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir()
        sources = sorted((root / KERNELS / "cpp").glob("*.cpp"))
        for name, flags in _targets().items():
            problem = _compile([*FLAGS.split(), *flags.split(), *map(str, sources)], built / f"kernels-{name}.so")
            if problem:
                self.app.display_warning(f"no kernels for {name}, PyTorch computes instead: {problem}")
        if any(built.iterdir()):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"].append(f"/{KERNELS}/built/*.so")


def _targets() -> dict[str, str]:
    """The kinds of processors to compile for."""
    machine = platform.machine().lower()
    if sys.platform == "win32":
        return {}
    if machine in {"x86_64", "amd64"}:
        return TARGETS
    return {"arm64": ""} if machine in {"arm64", "aarch64"} else {}


def _compile(arguments: list[str], target: Path) -> str | None:
    """Compile a library; why it could not be."""
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    draft = target.with_suffix(".draft")  # a build that is stopped leaves no half of a library
    try:
        found = subprocess.run([*compiler, *arguments, "-o", str(draft)], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    if found.returncode:
        return found.stderr.strip()[-1000:] or f"the compiler ended with {found.returncode}"
    draft.replace(target)
    return None
