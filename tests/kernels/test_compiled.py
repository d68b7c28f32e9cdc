"""Kernels in CUDA C++: the same as PyTorch's own, block by block on a processor, and compiled for a GPU."""

from __future__ import annotations

import shutil
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from socratic.inference.layered.sum_product import sum_products
from socratic.kernels import compiled, covariance, leaves, many_powers, processor, small_covariance
from socratic.kernels.small_covariance import takes_small_covariance
from tests.kernels import cases
from tests.kernels.cases import Covariance
from tests.kernels.cuda_on_cpu import kernel_on_cpu

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a compiler")

COVARIANCES = [
    *(case for case in cases.COVARIANCES if case.left == case.right != 1 and case.n_sums <= 20),
    Covariance(2, 20, 20, 20, 5, 2, 2, 0.25),
    Covariance(1, 10, 20, 20, 3, 2, 2, 0.25, shared=False),
    Covariance(1, 7, 18, 5, 3, 2, 2),
    Covariance(1, 20, 3, 20, 3, 0, 0, 0.25),
]


def sums_by_pytorch(weights: Tensor, a: Tensor, b: Tensor, *, by_row: bool = False, digits: str) -> Tensor:
    sums = sum_products(weights, a, b)
    return sums.mT.contiguous() if by_row else sums


@needs_compiler
@torch.no_grad()
@pytest.mark.parametrize("case", COVARIANCES)
@pytest.mark.parametrize("n_blocks", [1, 1024])
def test_covariances(case: Covariance, n_blocks: int) -> None:
    with (
        patch.object(processor, "kernels", return_value=None),
        patch.object(covariance, "takes_small_covariance", return_value=True),
        patch.object(covariance, "sums_of_pairs", sums_by_pytorch),
        patch.object(small_covariance, "compiled_kernel", kernel_on_cpu),
        patch.object(small_covariance, "_ENOUGH_BLOCKS", n_blocks),  # blocks have several rows, or one
    ):
        cases.check_covariance(case, "cpu")


@needs_compiler
def test_covariances_of_views_are_cut_off_at_the_limit() -> None:
    values, of_folds = torch.rand(4, 24, 9), torch.rand(4, 2, 9, 13, 13)
    weights, a, b, sums, own = (
        torch.rand(2, 6, 35),
        values[1:3, :14:2],
        values[1:3, 14:19],
        values[:2, :6],
        values[:2, 6:12],
    )
    left, right = of_folds[1:3, 0, :, :7, 2:9], of_folds[:2, 1, :, 1:6, :5].mT
    views = (weights, a, b, left, right, sums)
    evaluate: Any = small_covariance.small_covariance
    with patch.object(small_covariance, "compiled_kernel", kernel_on_cpu):
        expected = evaluate(*(part.clone() for part in views), None, own.clone(), 1e30)
        limit = float(expected.diagonal(dim1=-2, dim2=-1).median())
        found = evaluate(*views, None, own, limit)
        left[1, 2, 3, 4] = torch.nan
        broken = evaluate(*views, None, own, limit)
    cut = expected > limit
    assert 0 < int(cut.diagonal(dim1=-2, dim2=-1).sum()) < int(cut.sum()) < cut.numel()
    torch.testing.assert_close(found, expected.clamp_max(limit), rtol=0.0, atol=0.0)
    assert broken.isnan().flatten(2).any(2).nonzero().tolist() == [[1, 2]]


def test_matrices_begin_where_four_numbers_can_be_read_at_once() -> None:
    flat = torch.rand(1 + 2 * 4 * 4)
    matrices = flat[1:].view(1, 2, 4, 4)
    aligned = small_covariance._aligned(matrices)
    assert aligned.data_ptr() % 16 == 0
    assert torch.equal(aligned, matrices)
    assert small_covariance._aligned(aligned) is aligned


@needs_compiler
@torch.no_grad()
@pytest.mark.parametrize("size", [(3, 5, 4, 2, 7, 37), (2, 20, 40, 3, 50, 600)])
@pytest.mark.parametrize("rows", [4, 2])
def test_powers_of_many_rows(size: tuple[int, ...], rows: int) -> None:
    with (
        patch.object(processor, "kernels", return_value=None),
        patch.object(leaves, "rows_of_thread", return_value=rows),
        patch.object(many_powers, "compiled_kernel", kernel_on_cpu),
    ):
        cases.check_powers(size, "cpu")


def test_powers_of_many_rows_are_left_to_threads() -> None:
    natural, few, many = (torch.zeros(shape) for shape in ((160, 20, 75), (784, 200), (784, 8192)))
    with patch.object(many_powers, "takes_compiled", return_value=True):
        assert [many_powers.rows_of_thread(natural, values, 25) for values in (few, many[:, :1000], many)] == [
            None,
            2,
            4,
        ]
        assert many_powers.rows_of_thread(natural.repeat(1, 2, 1), many, 25) is None
        assert many_powers.rows_of_thread(natural, many, 15) is None
    assert many_powers.rows_of_thread(natural, many, 25) is None


def layer(n_nodes: int, n_rows: int = 2) -> tuple[Tensor, ...]:
    """Weights, values of both sides, and their covariances."""
    values = torch.rand(1, n_nodes, n_rows)
    return torch.rand(1, n_nodes, n_nodes**2), values, values, *2 * (torch.rand(1, n_rows, n_nodes, n_nodes),)


def test_they_are_taken_where_tiles_would_be_full_of_zeros() -> None:
    sizes = (5, 10, 16, 20, 24, 32, 40)
    with patch.object(small_covariance, "takes_compiled", return_value=True):
        layers = {size: layer(size) for size in sizes}
        assert [size for size in sizes if takes_small_covariance(*layers[size])] == [5, 10, 20]
        weights, a, b, left, right = layers[20]
        assert takes_small_covariance(weights, a, b, None, None)
        assert not takes_small_covariance(weights, a, b, None, right)
        assert not takes_small_covariance(weights, a, b, left, right.double())
        assert not takes_small_covariance(weights, a, b, *(x.diagonal(dim1=-2, dim2=-1).mT for x in (left, right)))


def test_they_are_not_taken_where_there_is_no_gpu_or_too_little_memory_to_share() -> None:
    assert not compiled.takes_compiled(torch.device("cpu"), 1)

    class Properties:
        shared_memory_per_block_optin = 400

    with (
        patch.object(compiled, "_can_compile_for", lambda *capability: capability == (9, 0)),
        patch.object(torch.cuda, "get_device_properties", return_value=Properties),
        patch.object(torch.cuda, "get_device_capability", return_value=(9, 0)) as capability,
    ):
        gpu = torch.device("cuda")
        assert [compiled.takes_compiled(gpu, numbers) for numbers in (100, 101)] == [True, False]
        capability.return_value = (9, 9)
        assert not compiled.takes_compiled(gpu, 100)


def test_without_a_compiler_there_are_none() -> None:
    with patch.object(compiled, "_driver", side_effect=OSError):
        assert not compiled._can_compile_for.__wrapped__(9, 0)


@pytest.mark.slow
@pytest.mark.skipif(not list(compiled.folders_of_compiler()), reason="needs NVIDIA's compiler")
def test_they_compile_for_a_gpu_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(compiled, "_driver", lambda: None)
    assert [compiled._can_compile_for.__wrapped__(*kind) for kind in ((7, 5), (9, 0), (3, 5), (99, 0))] == [
        True,
        True,
        False,
        False,
    ]
    for certain in (False, True):
        size = small_covariance._Size(20, 20, 17, certain)
        assert compiled._compile("pair_covariance", (9, 0), dict(size.named())).startswith(b"\x7fELF")
    sizes = {"N_NODES": 20, "N_STATISTICS": 3, "ROWS": 4, "DEPTH": 32}
    assert compiled._compile("power_product", (8, 0), sizes).startswith(b"\x7fELF")
    with pytest.raises(RuntimeError, match="could not be compiled"):
        compiled._compile("pair_covariance", (8, 0), {"N_SUMS": 20})
