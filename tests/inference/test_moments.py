"""TDI against brute-force enumeration of every mask, in float64: exact to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic.memory import Budget
from tests.inference.circuits import peaky_circuit
from tests.oracles import count_masks, enumerate_masks, topological

# (features, depth, repetitions, sums, leaves, classes, product)
CASES = {
    "two-leaves": (2, 1, 1, 2, 2, 2, "all-pairs"),
    "one-feature": (1, 1, 2, 2, 3, 2, "all-pairs"),
    "no-split": (3, 0, 2, 2, 3, 2, "all-pairs"),
    "balanced": (4, 2, 1, 2, 2, 2, "all-pairs"),
    "odd": (3, 2, 1, 2, 2, 2, "all-pairs"),
    "odd-deep": (5, 3, 1, 1, 2, 2, "all-pairs"),
    "repetitions": (4, 2, 2, 1, 2, 2, "all-pairs"),
    "odd-repetitions": (3, 2, 3, 2, 1, 2, "all-pairs"),
    "unequal-widths": (3, 2, 2, 1, 3, 3, "all-pairs"),
    "deep-single": (8, 3, 1, 1, 1, 2, "all-pairs"),
    "element-wise": (4, 2, 1, 2, 2, 3, "element-wise"),
    "element-wise-odd": (3, 2, 2, 2, 2, 2, "element-wise"),
    "element-wise-deep": (5, 3, 1, 2, 2, 2, "element-wise"),
    "wide": (4, 2, 1, 3, 3, 2, "element-wise"),
    "deep-correlated": (4, 4, 2, 2, 2, 2, "element-wise"),
}
MAX_MASKS = 20


def build(case: str, seed: int = 0) -> socratic.Circuit:
    return peaky_circuit(CASES[case], seed)


def enumerable() -> list[tuple[str, str, bool]]:
    """Every case, mask kind and root setting that is small enough."""
    found = []
    for case in CASES:
        roots = build(case).to_graph()
        for masks in ("edge", "unit"):
            for root_dropout in (False, True):
                if count_masks(roots, masks, root_dropout) <= MAX_MASKS:
                    found.append((case, masks, root_dropout))
    return found


@pytest.mark.parametrize(("case", "masks", "root_dropout"), enumerable())
def test_moments_equal_enumeration(case: str, masks: str, root_dropout: bool) -> None:
    circuit = build(case)
    x = torch.tensor(np.random.default_rng(1).normal(size=(2, circuit.n_features)))
    roots = circuit.to_graph()
    for dropout in (0.2, 0.6):
        settings = {"dropout": dropout, "masks": masks, "root_dropout": root_dropout}
        exact = socratic.tdi(circuit, x, **settings)
        lower = socratic.tdi(circuit, x, covariance="independent", **settings)
        upper = socratic.tdi(circuit, x, covariance="upper", **settings)
        for row in range(len(x)):
            truth = enumerate_masks(roots, x[row].tolist(), dropout, masks, root_dropout)
            np.testing.assert_allclose(exact.log_mean[row].detach(), np.log(truth.mean), rtol=0, atol=1e-9)
            np.testing.assert_allclose(
                exact.relative_covariance[row].detach(), truth.relative_covariance, rtol=1e-9, atol=1e-9
            )
            variance = np.diag(truth.relative_covariance)
            assert (lower.relative_variance[row].detach().numpy() <= variance * (1 + 1e-9) + 1e-12).all()
            assert (upper.relative_variance[row].detach().numpy() >= variance * (1 - 1e-9) - 1e-12).all()


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_tiles_and_scratch_memory_do_not_change_results(masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = socratic.rat_spn(11, 3, n_sums=4, n_leaves=3, depth=3, n_repetitions=2).double()
    x = torch.randn(9, 11)
    whole = socratic.tdi(circuit, x, dropout=0.3, masks=masks)
    monkeypatch.setattr("socratic.memory._TILE_BYTES", Budget(3000, 3000))
    with torch.no_grad():
        for covariance in ("exact", "independent", "upper"):
            tiled = socratic.tdi(circuit, x, dropout=0.3, masks=masks, covariance=covariance)
            torch.testing.assert_close(tiled.log_mean, whole.log_mean)
            if covariance == "exact":
                torch.testing.assert_close(tiled.relative_covariance, whole.relative_covariance)


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
@pytest.mark.parametrize("chunk_size", [1, 4])
def test_chunks_do_not_change_results(covariance: str, chunk_size: int) -> None:
    circuit = socratic.rat_spn(9, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2)
    x = torch.randn(10, 9)
    settings = {"dropout": 0.3, "covariance": covariance, "leaf_variance": torch.rand(10, 8, 3)}
    whole = socratic.tdi(circuit, x, **settings)
    parts = socratic.tdi(circuit, x, **settings, chunk_size=chunk_size)
    torch.testing.assert_close(parts.log_mean, whole.log_mean, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(parts.relative_covariance, whole.relative_covariance, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_without_dropout_there_is_no_variance(masks: str, covariance: str) -> None:
    circuit = socratic.rat_spn(9, 3, n_sums=3, n_leaves=3, depth=3, n_repetitions=2)
    x = torch.randn(10, 9)
    moments = socratic.tdi(circuit, x, dropout=0.0, masks=masks, covariance=covariance, root_dropout=True)
    torch.testing.assert_close(moments.log_mean, circuit.log_likelihood(x), rtol=1e-6, atol=0.0)
    assert not moments.relative_covariance.any()


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
def test_an_empty_batch_gives_an_empty_result(covariance: str) -> None:
    circuit = socratic.rat_spn(4, 3, n_sums=3, n_leaves=2, depth=2)
    moments = socratic.tdi(circuit, torch.zeros(0, 4), dropout=0.2, covariance=covariance)
    assert moments.log_mean.shape == (0, 3)
    assert moments.relative_covariance.shape == (0, 3, 3)


def test_a_tree_is_exact_when_taken_as_independent() -> None:
    """One sum and one leaf per region: nothing is shared below the class roots."""
    circuit = socratic.rat_spn(8, 1, n_sums=1, n_leaves=1, depth=3, n_repetitions=2).double()
    x = torch.randn(3, 8)
    exact = socratic.tdi(circuit, x, dropout=0.3)
    independent = socratic.tdi(circuit, x, dropout=0.3, covariance="independent")
    torch.testing.assert_close(exact.relative_variance, independent.relative_variance)


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("case", ["balanced", "element-wise", "odd"])
@pytest.mark.parametrize("correlated", [False, True])
def test_leaf_uncertainty_equals_enumeration(case: str, masks: str, correlated: bool) -> None:
    """Each leaf's value is 1 +- size times its density, as a coin falls: of its own, or one for its region."""
    circuit = build(case)
    roots = circuit.to_graph()
    scopes = circuit.leaves.scopes
    assert all(len(scope) == 1 for scope in scopes)
    sizes = 0.2 + 0.5 * torch.rand(len(scopes), circuit.leaves.n_nodes, dtype=torch.float64)
    leaves = [node for node in topological(roots) if isinstance(node, socratic.Leaf)]
    coins = {}
    for region, (variable,) in enumerate(scopes):
        for index, leaf in enumerate([leaf for leaf in leaves if leaf.variable == variable]):
            coin = region if correlated else region * circuit.leaves.n_nodes + index
            coins[id(leaf)] = [(coin, float(sizes[region, index]))]
    if count_masks(roots, masks, False) + len({coin for ((coin, _),) in coins.values()}) > MAX_MASKS:
        masks = "unit"  # the smaller of the two
    x = torch.randn(1, circuit.n_features, dtype=torch.float64)
    prior = (
        {"leaf_covariance": sizes.unsqueeze(-1) * sizes.unsqueeze(-2)} if correlated else {"leaf_variance": sizes**2}
    )
    truth = enumerate_masks(roots, x[0].tolist(), 0.3, masks, False, leaf_coins=coins)
    found = socratic.tdi(circuit, x, dropout=0.3, masks=masks, **prior)
    np.testing.assert_allclose(found.log_mean[0].detach(), np.log(truth.mean), atol=1e-9)
    np.testing.assert_allclose(found.relative_covariance[0].detach(), truth.relative_covariance, rtol=1e-9, atol=1e-9)
    upper = socratic.tdi(circuit, x, dropout=0.3, masks=masks, covariance="upper", **prior)
    assert (upper.relative_variance[0].detach().numpy() >= np.diag(truth.relative_covariance) * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\); got 1.0"),
        ({"dropout": -0.1}, r"dropout must be a number in \[0, 1\); got -0.1"),
        ({"dropout": float("nan")}, "got nan"),
        ({"masks": "node"}, "masks must be one of 'edge', 'unit'; got 'node'"),
        ({"covariance": "full"}, "covariance must be one of 'exact', 'independent', 'upper'; got 'full'"),
        ({"leaf_variance": -1.0}, "leaf_variance must hold finite numbers of at least 0"),
        ({"leaf_variance": torch.zeros(5)}, r"leaf_variance must broadcast to \(2, 20, 3\)"),
        ({"leaf_variance": 0.1, "leaf_covariance": torch.eye(3)}, "give leaf_variance or leaf_covariance, not both"),
        ({"leaf_covariance": torch.ones(3)}, "leaf_covariance must end in square matrices"),
        ({"leaf_covariance": torch.eye(2)}, r"leaf_covariance must broadcast to \(2, 20, 3, 3\)"),
        ({"leaf_covariance": torch.tensor([[1.0, 2.0, 0], [0, 1, 0], [0, 0, 1]])}, "leaf_covariance must be symmetric"),
        ({"leaf_covariance": -torch.eye(3)}, "leaf_covariance must be positive semi-definite"),
        (
            {"leaf_covariance": torch.stack([1e6 * torch.eye(3), -torch.eye(3)]).view(2, 1, 3, 3)},
            "leaf_covariance must be positive semi-definite",
        ),
        ({"leaf_covariance": torch.full((3, 3), torch.nan)}, "leaf_covariance must hold finite numbers"),
        (
            {"leaf_covariance": torch.tensor([[4.0, -1.5, 0], [-1.5, 1, 0], [0, 0, 1]])},
            "leaf_covariance must be at least -1, since the product of two densities is never negative; got -1.5",
        ),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=3, depth=2)
    with pytest.raises(ValueError, match=message):
        socratic.tdi(circuit, torch.zeros(2, 4), **{"dropout": 0.2, **settings})


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
def test_gradients_equal_finite_differences(masks: str, covariance: str) -> None:
    circuit = socratic.rat_spn(5, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=2).double()
    x = torch.randn(2, 5, dtype=torch.float64)
    parameters = dict(circuit.named_parameters())

    def moments(*values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        replaced = dict(zip(parameters, values, strict=True))

        class Query(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.circuit = circuit

            def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
                found = socratic.tdi(self.circuit, x, dropout=0.3, masks=masks, covariance=covariance)
                return found.log_mean, found.relative_covariance

        names = {f"circuit.{name}": value for name, value in replaced.items()}
        return torch.func.functional_call(Query(), names, ())

    inputs = tuple(value.detach().clone().requires_grad_() for value in parameters.values())
    assert torch.autograd.gradcheck(moments, inputs, atol=1e-6)


def test_uncertainty_can_be_trained_on() -> None:
    circuit = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2)
    x = torch.randn(20, 6)
    optimiser = torch.optim.Adam(circuit.parameters(), lr=0.05)
    entropies = []
    for _ in range(15):
        optimiser.zero_grad()
        posterior = socratic.tdi(circuit, x, dropout=0.2).posterior()
        loss = posterior.entropy.mean() + posterior.std.mean()
        loss.backward()
        optimiser.step()
        entropies.append(loss.item())
    assert entropies[-1] < 0.8 * entropies[0]


def test_saturated_variances_are_finite_and_warned_about() -> None:
    circuit = socratic.rat_spn(64, 2, n_sums=1, n_leaves=1, depth=6, n_repetitions=1)
    with pytest.warns(RuntimeWarning, match=r"use circuit.double\(\) or a smaller dropout"):
        moments = socratic.tdi(circuit, torch.zeros(1, 64), dropout=0.9)
    assert torch.isfinite(moments.relative_covariance).all()
    double = socratic.tdi(circuit.double(), torch.zeros(1, 64), dropout=0.9)
    # 62 sums with a single child each: the product of independent coins.
    assert double.relative_variance[0, 0].item() == pytest.approx(10.0**62 - 1, rel=1e-6)


def test_saturation_below_the_roots_is_warned_about() -> None:
    """Repetitions of little weight can be cut off while the class roots stay below the limit."""
    circuit = socratic.rat_spn(256, 3, n_sums=4, n_leaves=4, depth=8, n_repetitions=5)
    x = torch.randn(5, 256, generator=torch.Generator().manual_seed(1))
    with pytest.warns(RuntimeWarning, match="were cut off"):
        socratic.tdi(circuit, x, dropout=0.7)


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_element_wise_moments_keep_their_digits_in_float32(masks: str) -> None:
    circuit = socratic.rat_spn(768, 3, n_sums=4, n_leaves=4, depth=3, n_repetitions=2, product="element-wise")
    x = 3.0 * torch.randn(50, 768, generator=torch.Generator().manual_seed(0))
    single = socratic.tdi(circuit, x, dropout=0.1, masks=masks)
    double = socratic.tdi(circuit.double(), x, dropout=0.1, masks=masks)
    torch.testing.assert_close(single.relative_variance.double(), double.relative_variance, rtol=1e-3, atol=0)


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_sums_far_below_their_regions_best_keep_their_digits_in_float32(masks: str, covariance: str) -> None:
    circuit = socratic.rat_spn(8, 3, n_sums=4, n_leaves=4, depth=2, n_repetitions=2)
    with torch.no_grad():
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits.mul_(12.0)
    x = 10.0 * torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    single = socratic.tdi(circuit, x, masks=masks, covariance=covariance, root_dropout=True)
    single.relative_covariance.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in circuit.parameters())
    double = socratic.tdi(circuit.double(), x, masks=masks, covariance=covariance, root_dropout=True)
    torch.testing.assert_close(single.relative_variance.double(), double.relative_variance, rtol=2e-3, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("n_features", [784, 3072])
def test_float32_agrees_with_float64_at_paper_size(n_features: int, masks: str) -> None:
    circuit = socratic.rat_spn(n_features, 10)
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in circuit.inner_layers():
            layer.logits.mul_(3.0)  # peaky, as after training
        x = torch.randn(64, n_features, generator=rng)
        x[48:] *= 4.0  # far from everything the leaves expect: log-likelihoods of -10,000 to -50,000
        single = socratic.tdi(circuit, x, dropout=0.2, masks=masks)
        double = socratic.tdi(circuit.double(), x.double(), dropout=0.2, masks=masks)

    def differences(log_mean: torch.Tensor) -> torch.Tensor:
        return log_mean.double().unsqueeze(-1) - log_mean.double().unsqueeze(-2)

    error = (differences(single.log_mean) - differences(double.log_mean)).abs()
    assert float((single.log_mean - double.log_mean).abs().max()) < 0.01
    assert float(error[:48].max()) < 0.001
    # Beyond 8,192 float32 has steps of 0.001 and more: only the rounding of the result is left.
    step = double.log_mean[48:].abs().max() * torch.finfo(torch.float32).eps
    assert float(error[48:].max()) < 1.1 * float(step)
    ratio = single.relative_variance / double.relative_variance
    assert float((ratio - 1).abs().max()) < 1e-3
