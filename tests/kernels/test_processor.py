"""Kernels for processors: the same as PyTorch in float64, for every kind of processor that this one has."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import socratic
from socratic.families import Gaussian
from socratic.inference.layered.sum_product import log_sums
from socratic.inference.layered.values import LogValues, Products
from socratic.kernels import library, processor, sources
from socratic.kernels.leaves import power_product, rescale
from socratic.kernels.sums import log_sums_of_pairs, takes_sums
from socratic.kernels.weights import softmax, takes_softmax
from tests.kernels import cases

OWN = library.target()
TARGETS = ["avx512", "avx2"] if OWN == "avx512" else [OWN]
"""What this processor can run."""
COMPILER = shutil.which(os.environ.get("CXX", "c++"))


@pytest.fixture(params=TARGETS, autouse=True)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Take the kernels of one kind of processor."""
    monkeypatch.setattr(library, "target", lambda: request.param)
    library.kernels.cache_clear()
    if library.kernels() is None:
        known = request.param in {"avx512", "avx2", "arm64"}
        assert not (COMPILER and known), "there is a compiler, but kernels were not built"
        pytest.skip("needs a compiler when the library is installed, and a processor that kernels are built for")
    with torch.no_grad():
        yield request.param
    library.kernels.cache_clear()


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


LAYERS = [
    *cases.LAYERS,
    *(cases.Layer(2, n, n, 30 - n, 17) for n in range(1, 28)),
    *(cases.Layer(2, 3, 2, 4, n_rows) for n_rows in (15, 16, 255, 256, 257, 300)),
    cases.Layer(1, 70, 65, 66, 40),
    cases.Layer(1, 2, 2, 2500, 20),
]


@pytest.mark.parametrize("layer", LAYERS)
def test_sums(layer: cases.Layer) -> None:
    cases.check_sums(layer, "cpu")
    cases.check_pair_sums(layer, "cpu")


@torch.enable_grad()
def check_gradients(layer: cases.Layer) -> None:
    """Gradients of log-sums by weights and log-values, also where only some are asked for."""
    weights, left, right = cases.children(layer, "cpu")
    inputs = [part.requires_grad_() for part in (weights, left.log_value, right.log_value)]
    wide = [part.detach().double().requires_grad_() for part in inputs]
    gradient = cases.numbers(layer.n_folds, layer.n_sums, layer.n_rows, seed=9)
    assert takes_sums(*inputs)

    def sums(weights: Tensor, of_left: Tensor, of_right: Tensor) -> Tensor:
        log_value, log_scale = log_sums_of_pairs(weights, of_left, left.log_scale, of_right, right.log_scale)
        assert not log_scale.requires_grad
        return log_value

    expected = torch.autograd.grad(log_sums_of_float64(*wide), wide, gradient.double())
    found = torch.autograd.grad(sums(*inputs), inputs, gradient)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value.double(), wanted, rtol=1e-4, atol=cases.RTOL * float(wanted.abs().max()))
    for number, part in enumerate(inputs):
        alone = [other if other is part else other.detach() for other in inputs]
        (value,) = torch.autograd.grad(sums(*alone), part, gradient)
        assert torch.equal(value, found[number])


def log_sums_of_float64(weights: Tensor, left: Tensor, right: Tensor) -> Tensor:
    scale = left.new_zeros(len(left), 1, left.shape[2])
    return LogValues.rescale(log_sums(weights, Products(left, right, scale))).log_value


@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_of_sums(layer: cases.Layer) -> None:
    check_gradients(layer)


@torch.enable_grad()
def test_gradients_of_gradients() -> None:
    def second(log_values: Tensor, inputs: list[Tensor]) -> Tensor:
        (first,) = torch.autograd.grad(log_values.sum(), inputs[1], create_graph=True)
        (found,) = torch.autograd.grad((first * first).sum(), inputs[2])
        return found

    weights, left, right = cases.children(cases.LAYERS[1], "cpu")
    inputs = [part.requires_grad_() for part in (weights, left.log_value, right.log_value)]
    wide = [part.detach().double().requires_grad_() for part in inputs]
    log_value, _ = log_sums_of_pairs(inputs[0], inputs[1], left.log_scale, inputs[2], right.log_scale)
    expected = second(log_sums_of_float64(*wide), wide)
    torch.testing.assert_close(second(log_value, inputs).double(), expected, rtol=1e-4, atol=1e-5)


@torch.enable_grad()
def test_training_has_the_gradients_of_float64() -> None:
    circuit, x = circuit_and_rows()
    wide = socratic.rat_spn(30, 5, n_sums=6, n_leaves=7, depth=3, n_repetitions=3, seed=1).double()
    circuit.log_likelihood(x).sum().backward()
    wide.log_likelihood(x).sum().backward()
    for found, expected in zip(circuit.parameters(), wide.parameters(), strict=True):
        assert found.grad is not None
        assert expected.grad is not None
        scale = float(expected.grad.abs().max())
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-3, atol=1e-5 * scale)


def test_functions_are_transformed_as_without_them() -> None:
    circuit, x = circuit_and_rows()
    row = x[0].nan_to_num()
    jacobian = torch.func.jacrev(lambda row: circuit.log_likelihood(row.unsqueeze(0)).squeeze(0))
    with socratic.acceleration(kernels=False):
        expected = jacobian(row)
    torch.testing.assert_close(jacobian(row), expected)


@pytest.mark.parametrize("size", [*cases.PRODUCTS, (2, 25, 70, 3, 80, 33), (1, 3, 200, 3, 300, 300)])
def test_products_with_statistics(size: tuple[int, ...]) -> None:
    cases.check_picked(size, "cpu")
    cases.check_powers(size, "cpu")


@pytest.mark.parametrize("check", [cases.check_rescale, cases.check_softmax, cases.check_join])
def test_weights_and_values(check: Callable[[str], None]) -> None:
    check("cpu")


SIDES = [(1, 2, 3), (7, 5, 9), (13, 11, 6), (25, 8, 26), (3, 33, 34)]


@pytest.mark.parametrize(
    "case",
    [
        *cases.COVARIANCES,
        *(cases.Covariance(2, *sides, 19, 2, 2, 0.25, shared) for sides in SIDES for shared in (True, False)),
        cases.Covariance(3, 4, 3, 5, 300, 2, 1, 0.5),
    ],
)
def test_covariances(case: cases.Covariance) -> None:
    cases.check_covariance(case, "cpu")


@pytest.mark.parametrize("layer", LAYERS)
def test_top_shares(layer: cases.Layer) -> None:
    cases.check_top_shares(layer, "cpu")


LOG_MOMENTS = [
    *cases.LOG_MOMENTS,
    *(
        cases.LogMoment(2, n, n + 3, 31 - n, n_rows, shared=n % 2 > 0, matrices=n % 3 > 0)
        for n, n_rows in enumerate((15, 16, 17, 255, 257, 31, 40), start=1)
    ),
]


@pytest.mark.parametrize("case", LOG_MOMENTS)
def test_log_moments(case: cases.LogMoment) -> None:
    cases.check_moved(case, "cpu")


@pytest.mark.parametrize("shape", [(1, 1), (7, 16), (5, 20), (3, 33)])
def test_natural_parameters_of_gaussians(shape: tuple[int, int]) -> None:
    family = Gaussian()
    parameters = {"mean": 1e3 * cases.numbers(*shape), "raw_variance": 5.0 * cases.numbers(*shape, seed=1)}
    centre = 1e3 * cases.numbers(shape[0], seed=2)
    expected = family.natural({name: value.double() for name, value in parameters.items()}, centre.double())
    found = family.natural(parameters, centre)
    torch.testing.assert_close(found.double(), expected, rtol=2e-6, atol=0.0)


def test_exponentials_and_logarithms_have_all_digits() -> None:
    """A softmax of two has the exponential of their difference, a sum of one node its logarithm."""
    x = -torch.linspace(0.0, 87.0, 20_001)
    weights, smallest = softmax(torch.stack([torch.zeros_like(x), x], 1))
    expected = torch.sigmoid(x.double())
    torch.testing.assert_close(weights[:, 1].double(), expected, rtol=4e-7, atol=0.0)
    assert torch.equal(smallest, weights[:, 1])
    factors = torch.exp2(torch.linspace(-126.0, 0.0, 20_001))
    ones = torch.zeros(len(factors), 1, 1)
    log_value, log_scale = log_sums_of_pairs(factors.view(-1, 1, 1), ones, ones.double(), ones, ones.double())
    assert (log_value == 0).all()
    torch.testing.assert_close(log_scale.flatten(), torch.log(factors.double()), rtol=2e-7, atol=2e-7)


def test_what_is_not_a_number_stays_so() -> None:
    values = cases.numbers(2, 3, 20)
    values[1, 2, 4] = math.nan
    relative, scale = rescale(values.clone())
    assert relative.isnan().nonzero()[:, [0, 2]].unique(dim=0).tolist() == [[1, 4]]
    assert scale.isnan().nonzero().tolist() == [[1, 0, 4]]
    weights = cases.weights_of(2, 4, 9)
    found = log_sums_of_pairs(weights, relative, scale, relative[:, :3], scale)
    assert all(part.isnan().nonzero()[:, [0, 2]].unique(dim=0).tolist() == [[1, 4]] for part in found)
    weights, _ = softmax(torch.tensor([[0.0, math.nan, 1.0], [0.0, -math.inf, 0.0]]))
    assert weights[0].isnan().all()
    assert weights[1].tolist() == [0.5, 0.0, 0.5]


def test_values_may_lie_anywhere() -> None:
    """Of other folds and nodes, in another order, or the same for all folds."""
    weights = cases.weights_of(3, 4, 2 * 5)
    left, right = -cases.numbers(2, 20, 3, seed=1).abs().mT.mT, -cases.numbers(1, 5, 20, seed=2).abs()
    left = left.transpose(0, 2)  # (3, 20, 2)
    sides = left.mT, torch.zeros(3, 1, 20).double(), right.expand(3, -1, -1), torch.zeros(1, 1, 20).double()
    sides = *sides[:3], sides[3].expand(3, -1, -1)
    found = log_sums_of_pairs(weights, *sides)
    expected = log_sums_of_pairs(weights, *(part.contiguous() for part in sides))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_they_are_taken_where_they_may_be() -> None:
    weights, left, right = cases.children(cases.LAYERS[1], "cpu")
    layer = (weights, left.log_value, right.log_value)
    assert takes_sums(*layer)
    assert takes_softmax(nn.Parameter(weights))
    assert not takes_sums(weights.double(), *layer[1:])
    assert not takes_sums(*(part[..., :0] for part in layer))
    assert not takes_softmax(weights.as_subclass(type("Other", (Tensor,), {})))
    with torch.enable_grad():
        assert takes_sums(*layer)
        assert takes_sums(weights, left.log_value.clone().requires_grad_(), right.log_value)
        assert not takes_softmax(nn.Parameter(weights))
    with socratic.acceleration(kernels=False):
        assert not takes_sums(*layer)
    with torch.autocast("cpu"):
        assert not takes_sums(*layer)


def circuit_and_rows() -> tuple[socratic.Circuit, Tensor]:
    circuit = socratic.rat_spn(30, 5, n_sums=6, n_leaves=7, depth=3, n_repetitions=3, seed=1)
    x = 2.0 * cases.numbers(300, 30)
    x[cases.numbers(300, 30, seed=1) > 1.0] = math.nan
    return circuit, x


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_queries_are_those_of_float64(masks: Any) -> None:
    circuit, x = circuit_and_rows()
    wide = socratic.rat_spn(30, 5, n_sums=6, n_leaves=7, depth=3, n_repetitions=3, seed=1).double()
    torch.testing.assert_close(circuit.log_likelihood(x).double(), wide.log_likelihood(x), rtol=1e-6, atol=1e-5)
    found, expected = (socratic.tdi(model, x, dropout=0.2, masks=masks) for model in (circuit, wide))
    relative = found.relative_covariance.double() / expected.relative_covariance
    torch.testing.assert_close(relative, torch.ones_like(relative), rtol=1e-4, atol=0.0)


def test_gradients_pass_where_only_rows_or_leaf_moments_have_them() -> None:
    circuit, _ = circuit_and_rows()
    circuit.requires_grad_(False)
    with torch.enable_grad():
        x = cases.numbers(20, 30).requires_grad_()
        circuit.log_likelihood(x).sum().backward()
        assert x.grad is not None
        assert (x.grad != 0).any(1).all()
        spread = torch.full((20, circuit.leaves.n_folds, circuit.leaves.n_nodes), 0.1, requires_grad=True)
        moments = socratic.tdi(circuit, x.detach(), dropout=0.2, leaf_variance=spread)
        moments.relative_variance.sum().backward()
    assert spread.grad is not None
    assert (spread.grad > 0).flatten(1).any(1).all()


@pytest.mark.parametrize("openmp", [True, False])
def test_threads_make_no_difference(*, openmp: bool) -> None:
    circuit, x = circuit_and_rows()
    if not openmp:
        library.kernels().take_threads_of(None)

    def queries() -> list[Tensor]:
        moments = socratic.tdi(circuit, x, dropout=0.2, masks="unit")
        return [circuit.log_likelihood(x), moments.log_mean, moments.relative_covariance]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(library, "_OPERATIONS_OF_THREAD", 1)
        with threads(1):
            alone = queries()
        for number in (2, 3, 300):
            with threads(number):
                together = queries()
            assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="torch's threads are looked for where OpenMP is GCC's")
def test_threads_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library._openmp() is not None
    parts = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    asked_for = []

    @ctypes.CFUNCTYPE(None, parts, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
    def parallel(work: Any, data: int, n_threads: int, _: int) -> None:
        asked_for.append(n_threads)
        work(data)  # in this thread alone: it does what the others do not

    circuit, x = circuit_and_rows()
    expected = circuit.log_likelihood(x)
    monkeypatch.setattr(library, "_OPERATIONS_OF_THREAD", 1)
    monkeypatch.setattr(library, "_openmp", lambda: ctypes.cast(parallel, ctypes.c_void_p))
    library.kernels.cache_clear()
    with threads(3):
        assert torch.equal(circuit.log_likelihood(x), expected)
    assert set(asked_for) == {2, 3}
    library.kernels().take_threads_of(None)


def _answer(send: Any, circuit: socratic.Circuit, x: Tensor) -> None:
    library._OPERATIONS_OF_THREAD = 1
    torch.set_num_threads(1)  # those of torch itself do not live on in a child
    with threads(2), torch.no_grad():
        send.send(softmax(circuit.inner_layers()[0].logits)[0].sum().item())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, x = circuit_and_rows()
    monkeypatch.setattr(library, "_OPERATIONS_OF_THREAD", 1)
    with threads(2):
        expected = softmax(circuit.inner_layers()[0].logits)[0].sum().item()
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_answer, args=(send, circuit, x))
    child.start()
    assert receive.poll(60), "the child waits for threads that it does not have"
    assert receive.recv() == expected
    child.join()


def test_without_memory_it_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        @staticmethod
        def power_product(*_: Any) -> int:
            return -1

        @staticmethod
        def rows_of_task() -> int:
            return 256

    with monkeypatch.context() as patched:
        patched.setattr(library, "kernels", Library)
        with pytest.raises(MemoryError, match="not enough memory for the rows that power_product takes at a time"):
            power_product(torch.ones(1, 1, 3), torch.ones(1, 4), torch.ones(1), torch.zeros(1, 1).long(), 1.0)


def test_a_library_of_another_system_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert processor.built_for() is not None
    built = tmp_path / "kernels.so"
    monkeypatch.setattr(library, "library_path", lambda _: built)
    for present in (False, True):
        if present:
            built.write_bytes(b"MZ")
        library.kernels.cache_clear()
        assert processor.built_for() is None
        circuit, x = circuit_and_rows()
        assert circuit.log_likelihood(x).isfinite().all()
    library.kernels.cache_clear()


def test_a_library_of_other_sources_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str) -> None:
    own = sources.library_path(target)
    assert own.exists()
    shutil.copytree(Path(sources.__file__).parent / "cpp", tmp_path / "cpp")
    monkeypatch.setattr(sources, "_HERE", tmp_path)
    assert sources.library_path(target) == own
    with (tmp_path / "cpp" / "lanes.h").open("a") as file:
        file.write("// changed")
    assert sources.library_path(target) != own


def test_a_row_is_answered_the_same_in_any_company() -> None:
    """Bit for bit: with rows that have missing values or have none, among any number of them, anywhere."""
    circuit, x = circuit_and_rows()
    together = circuit.log_likelihood(x)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    assert torch.equal(circuit.log_likelihood(x[order]), together[order])
    assert torch.equal(torch.cat([circuit.log_likelihood(row) for row in x.split(7)]), together)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="needs a compiler")
def test_they_keep_to_their_memory(tmp_path: Path, target: str) -> None:
    """Every kernel on sizes of all kinds, compiled so that what is read or written beside its memory is told."""
    root = Path(__file__).parents[2]
    flags = [*sources.FLAGS.split(), *sources.TARGETS[target].split(), "-O1", "-g", "-fsanitize=address,undefined"]
    built = tmp_path / "kernels.so"
    subprocess.run([str(COMPILER), *flags, *map(str, sources.sources()), "-o", str(built)], check=True)
    runtime = subprocess.run(
        [str(COMPILER), "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    program = f"""
import torch, pathlib
from socratic.kernels import library
from tests.kernels import cases, test_processor
library.library_path = lambda target: pathlib.Path({str(built)!r})
with torch.no_grad():
    assert library.kernels() is not None
    for layer in test_processor.LAYERS:
        cases.check_sums(layer, "cpu"), cases.check_pair_sums(layer, "cpu"), test_processor.check_gradients(layer)
        cases.check_top_shares(layer, "cpu")
    for size in cases.PRODUCTS:
        cases.check_picked(size, "cpu"), cases.check_powers(size, "cpu")
    for case in cases.COVARIANCES:
        cases.check_covariance(case, "cpu")
    for case in test_processor.LOG_MOMENTS:
        cases.check_moved(case, "cpu")
    cases.check_softmax("cpu"), cases.check_rescale("cpu"), cases.check_join("cpu")
print("clean")
"""
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0"}
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert found.stdout == "clean\n", found.stderr[-3000:]
    assert "runtime error" not in found.stderr
