"""Kernels in CUDA C++, compiled for a processor: what they compute can be checked where there is no GPU."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from socratic.kernels import compiled

HEADER = Path(__file__).parent / "cuda_on_cpu.h"
SOURCE = """
#include "{header}"
#include "{source}"
#include <tuple>
#include <utility>

template <typename... Arguments, std::size_t... Numbers>
void call(void (*kernel)(Arguments...), int columns, int lines, int layers, int n_threads, void **given,
          std::index_sequence<Numbers...>)
{{
    run_on_cpu(columns, lines, layers, n_threads, [&] {{ kernel(*static_cast<Arguments *>(given[Numbers])...); }});
}}
template <typename... Arguments>
void start(void (*kernel)(Arguments...), int columns, int lines, int layers, int n_threads, void **given)
{{
    call(kernel, columns, lines, layers, n_threads, given, std::index_sequence_for<Arguments...>());
}}
extern "C" void start_kernel(int columns, int lines, int layers, int n_threads, void **given)
{{
    start({name}, columns, lines, layers, n_threads, given);
}}
"""


@cache
def kernel_on_cpu(name: str, device: int, shared_bytes: int, sizes: tuple[tuple[str, int], ...]) -> Callable[..., None]:
    """What :func:`socratic.kernels.compiled.compiled_kernel` gives, for tensors on a CPU."""
    assert device == -1
    assert shared_bytes <= 2**18
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-w"]
    flags += ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]  # which a GPU does not forgive
    flags += [f"-D{size}={value}" for size, value in sizes]
    with TemporaryDirectory() as name_of_folder:
        folder = Path(name_of_folder)
        source = SOURCE.format(header=HEADER, source=compiled.SOURCES / f"{name}.cu", name=name)
        (folder / "kernel.cpp").write_text(source, encoding="utf-8")
        command = ["c++", *flags, str(folder / "kernel.cpp"), "-o", str(folder / "kernel.so")]
        subprocess.run(command, check=True)
        library = ctypes.CDLL(str(folder / "kernel.so"))

    def launch(grid: tuple[int, int, int], n_threads: int, shared: int, *arguments: Any) -> None:
        assert shared == shared_bytes
        given = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        library.start_kernel(*grid, n_threads, given)

    return launch
