"""Kernels: the same as PyTorch's own, on a GPU and in Triton's interpreter, and only where they may be taken."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

import socratic
from socratic.kernels import choice, compiled
from socratic.kernels.small_covariance import takes_small_covariance
from socratic.kernels.sums import takes_sums
from tests.kernels import cases

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
with_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


@contextmanager
def _precision(name: str) -> Iterator[None]:
    """Torch's own setting of how many digits a product may drop."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.slow
@with_triton
def test_the_interpreter_agrees_with_pytorch() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.cases"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    root = Path(__file__).parents[2]
    found = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout == f"{len(cases.CHECKS)} checks passed\n", found.stderr


@pytest.mark.parametrize(
    ("n_folds", "n_rows", "rows"), [(80, 8192, 128), (80, 200, 64), (5, 8192, 128), (5, 200, 16), (1, 1, 16)]
)
def test_small_layers_are_cut_into_more_programs(n_folds: int, n_rows: int, rows: int) -> None:
    assert choice.rows_of_program(n_folds, n_rows) == rows


def test_tiles_have_sides_that_tensor_cores_know() -> None:
    assert [choice.padded(n) for n in (1, 16, 17, 20, 32, 33, 64)] == [16, 16, 32, 32, 32, 64, 64]


def test_fewer_digits_are_torchs_own_choice() -> None:
    digits: tuple[choice.Digits, ...] = ("three", "five", "all")
    assert [choice.precision(number) for number in digits] == [choice.FLOAT32] * 3
    with _precision("high"):
        assert [choice.precision(number) for number in digits] == ["tf32", "bf16x3", choice.FLOAT32]


@on_gpu
@with_triton
@pytest.mark.parametrize("layer", [*cases.LAYERS, *cases.LARGE_LAYERS])
def test_sums_on_a_gpu(layer: cases.Layer) -> None:
    cases.check_sums(layer, "cuda")


@on_gpu
@with_triton
@pytest.mark.parametrize("layer", [*cases.LAYERS, *cases.LARGE_LAYERS])
def test_sums_of_values_on_a_gpu(layer: cases.Layer) -> None:
    cases.check_pair_sums(layer, "cuda")


@on_gpu
@with_triton
@pytest.mark.parametrize("size", [*cases.PRODUCTS, *cases.LARGE_PRODUCTS])
def test_picked_products_on_a_gpu(size: tuple[int, ...]) -> None:
    cases.check_picked(size, "cuda")


@on_gpu
@with_triton
@pytest.mark.parametrize("size", [*cases.PRODUCTS, *cases.LARGE_PRODUCTS])
def test_products_with_powers_on_a_gpu(size: tuple[int, ...]) -> None:
    cases.check_powers(size, "cuda")


@on_gpu
@with_triton
@pytest.mark.parametrize("check", [cases.check_rescale, cases.check_softmax, cases.check_join])
def test_weights_and_values_on_a_gpu(check: Callable[[str], None]) -> None:
    check("cuda")


@on_gpu
@with_triton
@pytest.mark.parametrize("case", [*cases.COVARIANCES, *cases.LARGE_COVARIANCES])
@pytest.mark.parametrize("in_cuda", [True, False])
def test_covariances_on_a_gpu(case: cases.Covariance, in_cuda: bool) -> None:
    with patch.object(compiled, "_can_compile_for", return_value=in_cuda):
        cases.check_covariance(case, "cuda")


@on_gpu
@with_triton
@torch.no_grad()
def test_small_layers_are_left_to_the_kernel_in_cuda() -> None:
    weights, values, matrices = (torch.rand(2, *shape, device="cuda") for shape in ((20, 400), (20, 5), (5, 20, 20)))
    assert takes_small_covariance(weights, values, values, matrices, matrices)


@on_gpu
@with_triton
def test_a_thread_that_has_not_used_the_gpu_can_start_a_kernel() -> None:
    with ThreadPoolExecutor(1) as threads:
        threads.submit(cases.check_covariance, cases.LARGE_COVARIANCES[0], "cuda").result()


@on_gpu
@with_triton
@torch.no_grad()
@pytest.mark.parametrize("layer", [*cases.LAYERS, *cases.LARGE_LAYERS])
def test_largest_shares_on_a_gpu(layer: cases.Layer) -> None:
    cases.check_top_shares(layer, "cuda")


@on_gpu
@with_triton
@torch.no_grad()
@pytest.mark.parametrize("case", [*cases.LOG_MOMENTS, *cases.LARGE_LOG_MOMENTS])
def test_moves_of_logarithms_on_a_gpu(case: cases.LogMoment) -> None:
    cases.check_moved(case, "cuda")


@on_gpu
@with_triton
@torch.no_grad()
def test_they_are_taken_where_they_may_be() -> None:
    weights, left, right = cases.children(cases.LAYERS[1], "cuda")
    layer = (weights, left.log_value, right.log_value)
    assert takes_sums(*layer)
    assert not takes_sums(weights.double(), *layer[1:])
    with torch.enable_grad():
        assert not takes_sums(*layer)
    with socratic.acceleration(kernels=False):
        assert not takes_sums(*layer)
    wide = torch.zeros(1, choice.MOST_NODES + 1, 4, device="cuda")
    assert not takes_sums(wide, torch.zeros(1, 2, 3, device="cuda"), torch.zeros(1, 2, 3, device="cuda"))


@on_gpu
@with_triton
@torch.no_grad()
@pytest.mark.parametrize(("graphs", "precision"), [(False, "highest"), (True, "highest"), (False, "high")])
def test_queries_are_those_of_float64(graphs: bool, precision: str) -> None:
    circuit = socratic.rat_spn(64, 10, n_sums=20, n_leaves=20, depth=4, n_repetitions=3)
    x = cases.numbers(300, 64)
    x[:, 5] = torch.nan
    wide = socratic.rat_spn(64, 10, n_sums=20, n_leaves=20, depth=4, n_repetitions=3).double()
    circuit.to("cuda")
    with socratic.acceleration(graphs=graphs), _precision(precision):
        for _ in range(3):
            found = circuit.log_likelihood(x.to("cuda"))
        rtol = 1e-5 if precision == "highest" else 1e-3
        torch.testing.assert_close(found.double().cpu(), wide.log_likelihood(x), rtol=rtol, atol=1e-4)
        for masks in ("edge", "unit"):
            for _ in range(3):
                moments = socratic.tdi(circuit, x.to("cuda"), dropout=0.2, masks=masks)
            expected = socratic.tdi(wide, x, dropout=0.2, masks=masks)
            relative = moments.relative_covariance.double().cpu() / expected.relative_covariance
            torch.testing.assert_close(relative, torch.ones_like(relative), rtol=1e-3, atol=0.0)
            posterior = socratic.dropout_posterior(
                circuit, x.to("cuda"), dropout=0.2, masks=masks, method="log-moments"
            )
            known = socratic.dropout_posterior(wide, x, dropout=0.2, masks=masks, method="log-moments")
            for name in ("mean", "std", "entropy"):
                found, expected_value = getattr(posterior, name).double().cpu(), getattr(known, name)
                torch.testing.assert_close(found, expected_value, rtol=1e-3, atol=1e-3)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from socratic.kernels import log_programs, programs, value_programs

SIZES = {
    "log_sum_kernel": {"n_sums": 20, "n_left": 20, "n_right": 20, "sum_side": 32, "right_side": 32, "block": 128},
    "picked_product_kernel": {"n_nodes": 20, "n_statistics": 2, "side": 32, "depth": 16, "block": 64},
    "power_product_kernel": {"n_nodes": 20, "n_statistics": 3, "side": 32, "depth": 16, "block": 64},
    "softmax_kernel": {"n_children": 400, "width": 512},
    "join_kernel": {"n_classes": 10, "side": 16, "block": 64},
    "rescale_kernel": {"n_nodes": 20, "side": 32, "block": 128},
    "pair_sum_kernel": {
        "n_sums": 210, "n_left": 20, "n_right": 20, "sum_side": 64, "right_side": 32, "block": 128, "by_row": True,
    },
    "times_weights_kernel": {
        "n_nodes": 20, "n_weights": 400, "side": 32, "block": 64, "width": 64, "relative": True, "in_parts": False,
    },
    "pair_covariance_kernel": {
        "n_sums": 20, "n_left": 20, "n_right": 20, "sum_side": 32, "left_side": 32, "right_side": 32,
        "left_matrix": True, "right_matrix": True, "started": True,
    },
    "top_shares_kernel": {
        "n_sums": 20, "n_left": 20, "n_right": 20, "n_shares": 16, "sum_side": 32, "share_side": 16, "width": 512,
    },
    "moved_kernel": {
        "n_sums": 20, "n_left": 20, "n_right": 20, "left_shares": 16, "right_shares": 16, "sum_side": 32,
        "left_side": 32, "right_side": 32, "matrices": True, "shared": True,
    },
}
WIDE = ("left_scale", "right_scale", "log_scale", "shift")
STRIDES = ("left_fold", "left_node", "right_fold", "right_node", "left_scale_fold", "right_scale_fold")
REAL = ("limit", "rounding", "rate", "negligible", "deep_fall")
NUMBERS = ("n_rows", "n_lines", "n_terms", "n_picked", "n_repetitions", *STRIDES)
for name, sizes in SIZES.items():
    (kernel,) = (getattr(module, name) for module in (programs, log_programs, value_programs) if hasattr(module, name))
    if "precision" in kernel.arg_names:
        sizes["precision"] = "tf32x3"
    kinds = {}
    for argument in kernel.arg_names:
        kinds[argument] = (
            "constexpr" if argument in sizes else "i32" if argument in NUMBERS else "fp32" if argument in REAL
            else "*fp64" if argument in WIDE else "*i64" if argument == "picked" else "*fp32"
        )
    source = ASTSource(kernel, kinds, {(kernel.arg_names.index(key),): value for key, value in sizes.items()})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print(name, len(compiled.asm["cubin"]) > 0, "mma" in compiled.asm["ptx"])
"""


@pytest.mark.slow
@with_triton
def test_they_compile_for_a_gpu_where_there_is_none() -> None:
    found = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, check=False)
    assert found.stdout.splitlines() == [
        "log_sum_kernel True True",
        "picked_product_kernel True True",
        "power_product_kernel True True",
        "softmax_kernel True False",
        "join_kernel True False",
        "rescale_kernel True False",
        "pair_sum_kernel True True",
        "times_weights_kernel True True",
        "pair_covariance_kernel True True",
        "top_shares_kernel True False",
        "moved_kernel True True",
    ], found.stderr
