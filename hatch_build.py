"""Builds the kernels for processors with the package, where there is a compiler; without them PyTorch computes."""

from __future__ import annotations

import os
import platform
import runpy
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = "src/socratic/kernels"
MACHINES = {"x86_64": ["avx512", "avx2"], "amd64": ["avx512", "avx2"], "arm64": ["arm64"], "aarch64": ["arm64"]}


class KernelBuild(BuildHookInterface):  # type: ignore[type-arg]
    """Compile the kernels once for each kind of processor that may run them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Compile, and make the wheel one for this system if that worked."""
        kernels = runpy.run_path(str(Path(self.root) / KERNELS / "sources.py"))
        targets = [] if sys.platform == "win32" else MACHINES.get(platform.machine().lower(), [])
        current = {kernels["library_path"](target) for target in targets}
        kernels["BUILT"].mkdir(exist_ok=True)
        for path in set(kernels["BUILT"].glob("*.so")) - current:  # of other sources; another build may do so, too
            path.unlink(missing_ok=True)
        for target in targets:
            flags = [*kernels["FLAGS"].split(), *kernels["TARGETS"][target].split()]
            problem = _compile([*flags, *map(str, kernels["sources"]())], kernels["library_path"](target))
            if problem:
                kernels["library_path"](target).unlink(missing_ok=True)
                self.app.display_warning(f"no kernels for {target}, PyTorch computes instead: {problem}")
        if any(path.exists() for path in current):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"].append(f"/{KERNELS}/built/*.so")


def _compile(arguments: list[str], target: Path) -> str | None:
    """Compile a library; why it could not be."""
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    # A build that is stopped leaves no half of a library, and two at once do not meet.
    draft = target.with_suffix(f".{os.getpid()}.draft")
    try:
        found = subprocess.run([*compiler, *arguments, "-o", str(draft)], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    if found.returncode:
        draft.unlink(missing_ok=True)
        return found.stderr.strip()[-1000:] or f"the compiler ended with {found.returncode}"
    draft.replace(target)
    return None
