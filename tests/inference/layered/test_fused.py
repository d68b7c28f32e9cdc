"""The fused step: the same as the reference, on a GPU and in Triton's interpreter, and only where it may be taken."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import socratic
from socratic.inference.layered import fused
from tests.inference.layered.fused_cases import LAYERS, Layer, check, children

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
with_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


@pytest.mark.slow
@with_triton
def test_the_interpreter_agrees_with_the_reference() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.inference.layered.fused_cases"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[3]
    found = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout == f"{len(LAYERS)} layers and a circuit agree\n", found.stderr


@pytest.mark.parametrize(("n_folds", "n_sums", "n_rows", "block"), [
    (80, 20, 8192, 128),
    (80, 64, 8192, 64),
    (10, 20, 8192, 64),
    (80, 20, 200, 32),
    (1, 1, 1, 32),
])  # fmt: skip
def test_small_layers_are_cut_into_more_blocks(n_folds: int, n_sums: int, n_rows: int, block: int) -> None:
    assert fused._block(n_folds, n_sums, n_rows) == block


@torch.no_grad()
def test_a_cpu_keeps_to_the_reference() -> None:
    with socratic.acceleration():
        assert not fused.can_fuse(*children(LAYERS[1], "cpu"))


@on_gpu
@with_triton
@pytest.mark.parametrize("layer", [*LAYERS, Layer(80, 20, 20, 20, 1000), Layer(7, 64, 8, 16, 300)])
def test_a_gpu_agrees_with_the_reference(layer: Layer) -> None:
    check(layer, "cuda")


@on_gpu
@with_triton
@torch.no_grad()
def test_it_is_taken_where_it_may_be() -> None:
    layer = children(LAYERS[1], "cuda")
    assert not fused.can_fuse(*layer)
    with socratic.acceleration():
        assert fused.can_fuse(*layer)
        assert not fused.can_fuse(layer[0].double(), *layer[1:])
        with torch.enable_grad():
            assert not fused.can_fuse(*layer)
    with socratic.acceleration(kernels=False):
        assert not fused.can_fuse(*layer)


@on_gpu
@with_triton
@torch.no_grad()
@pytest.mark.parametrize("graphs", [False, True])
def test_log_likelihoods_are_those_of_float64(graphs: bool) -> None:
    circuit = socratic.rat_spn(64, 10, n_sums=20, n_leaves=20, depth=4, n_repetitions=3)
    x = torch.randn(300, 64)
    x[:, 5] = torch.nan
    expected = socratic.rat_spn(64, 10, n_sums=20, n_leaves=20, depth=4, n_repetitions=3).double().log_likelihood(x)
    circuit.to("cuda")
    with socratic.acceleration(graphs=graphs):
        for _ in range(3):
            found = circuit.log_likelihood(x.to("cuda"))
    torch.testing.assert_close(found.double().cpu(), expected, rtol=1e-5, atol=1e-4)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from socratic.inference.layered.kernels import log_sum_kernel as kernel

sizes = {"n_sums": 20, "n_left": 20, "n_right": 20, "block": 128}
kinds = dict.fromkeys(kernel.arg_names, "i32") | dict.fromkeys(sizes, "constexpr")
kinds |= dict.fromkeys(["left", "right", "weights", "log_value"], "*fp32")
kinds |= dict.fromkeys(["left_scale", "right_scale", "log_scale"], "*fp64")
source = ASTSource(kernel, kinds, {(kernel.arg_names.index(name),): value for name, value in sizes.items()})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1})
print("fma.rn.f32" in compiled.asm["ptx"], len(compiled.asm["cubin"]) > 0)
"""


@pytest.mark.slow
@with_triton
def test_it_compiles_for_a_gpu_where_there_is_none() -> None:
    found = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False)
    assert found.stdout == "True True\n", found.stderr
