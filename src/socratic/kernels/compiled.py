"""Kernels in CUDA C++ (``kernels/cuda``): compiled for a GPU when they are first needed, and launched.

NVIDIA's compiler for this, NVRTC, comes with torch for CUDA. It is given the sizes of a layer, too, so that all that
depends on them is known when it compiles.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Mapping
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer
from functools import cache
from pathlib import Path
from typing import Any

import torch

SOURCES = Path(__file__).parent / "cuda"
NUMBER_BYTES = 4
_MOST_SHARED_BYTES = 8
"""The number of the driver's attribute of a function that says how much memory its blocks may share."""


class CompiledKernel:
    """A kernel for one GPU.

    Parameters
    ----------
    function : c_void_p
        The driver's.
    """

    def __init__(self, function: c_void_p) -> None:
        self._function = function

    def __call__(self, grid: tuple[int, int, int], n_threads: int, shared_bytes: int, *arguments: Any) -> None:
        """Start the kernel on the current device and stream; arguments are of types of ctypes."""
        _take_context(torch.cuda.current_device())
        places = (c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        _check(_driver().cuLaunchKernel(self._function, *grid, n_threads, 1, 1, shared_bytes, stream, places, None))


@cache
def compiled_kernel(name: str, device: int, shared_bytes: int, sizes: tuple[tuple[str, int], ...]) -> CompiledKernel:
    """The kernel of the file ``name``, for layers of these sizes and blocks that share so much memory."""
    with torch.cuda.device(device):
        binary = _compile(name, torch.cuda.get_device_capability(device), dict(sizes))
        _take_context(device)
        module, function = c_void_p(), c_void_p()
        _check(_driver().cuModuleLoadData(byref(module), binary))
        _check(_driver().cuModuleGetFunction(byref(function), module, name.encode()))
        _check(_driver().cuFuncSetAttribute(function, _MOST_SHARED_BYTES, shared_bytes))
    return CompiledKernel(function)


def _take_context(device: int) -> None:
    """Let the driver know in this thread what torch works in."""
    context = c_void_p()
    _check(_driver().cuCtxGetCurrent(byref(context)))
    if not context:
        _check(_driver().cuDevicePrimaryCtxRetain(byref(context), c_int(device)))
        _check(_driver().cuCtxSetCurrent(context))


def takes_compiled(device: torch.device, shared_numbers: int) -> bool:
    """Whether a kernel can be compiled for a device whose blocks share so many numbers in float32."""
    if device.type != "cuda" or not _can_compile_for(*torch.cuda.get_device_capability(device)):
        return False
    most = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return NUMBER_BYTES * shared_numbers <= most


@cache
def _can_compile_for(major: int, minor: int) -> bool:
    """Whether the driver is there, and a compiler that knows a GPU of this kind."""
    number = c_int()
    try:
        _driver()
        _check(_compiler().nvrtcGetNumSupportedArchs(byref(number)))
        known = (c_int * number.value)()
        _check(_compiler().nvrtcGetSupportedArchs(known))
    except (OSError, AttributeError, RuntimeError):  # there is none, or an old one
        return False
    return 10 * major + minor in known


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@cache
def _compiler() -> ctypes.CDLL:
    """The compiler of the version that torch was built with."""
    name = f"libnvrtc.so.{(torch.version.cuda or '').split('.')[0]}"
    found = [folder / name for folder in folders_of_compiler() if (folder / name).exists()]
    return ctypes.CDLL(str(found[0]) if found else name)


def folders_of_compiler() -> Iterator[Path]:
    """Where Python packages have put libraries of the compiler."""
    packages = importlib.util.find_spec("nvidia")
    for folder in [] if packages is None else packages.submodule_search_locations or []:
        yield from sorted({path.parent for path in Path(folder).glob("*/lib/libnvrtc.so.*")})


def _compile(name: str, capability: tuple[int, int], sizes: Mapping[str, int]) -> bytes:
    """The binary of a file."""
    compiler = _compiler()
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17", "-default-device"]
    options += [f"-D{size}={value}" for size, value in sizes.items()]
    source = (SOURCES / f"{name}.cu").read_bytes()
    program = c_void_p()
    _check(compiler.nvrtcCreateProgram(byref(program), c_char_p(source), f"{name}.cu".encode(), 0, None, None))
    try:
        given = (c_char_p * len(options))(*(option.encode() for option in options))
        if compiler.nvrtcCompileProgram(program, c_int(len(options)), given):
            raise RuntimeError(f"{name}.cu could not be compiled:\n{_output(compiler, 'ProgramLog', program).decode()}")
        return _output(compiler, "CUBIN", program)
    finally:
        compiler.nvrtcDestroyProgram(byref(program))


def _output(compiler: ctypes.CDLL, kind: str, program: c_void_p) -> bytes:
    size = c_size_t()
    _check(getattr(compiler, f"nvrtcGet{kind}Size")(program, byref(size)))
    output = create_string_buffer(size.value)
    _check(getattr(compiler, f"nvrtcGet{kind}")(program, output))
    return output.raw


def _check(result: int) -> None:
    if result:
        raise RuntimeError(f"a call of CUDA's driver or compiler ended with {result}")
