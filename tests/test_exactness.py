"""The table of what is exact where agrees with the library, asked cell by cell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import socratic
from socratic import Circuit, Graph, Leaf, Product, Sum
from socratic.families import Bernoulli
from socratic.inference.queries import Explanation

PAGE = Path(__file__).resolve().parents[1] / "docs" / "exactness.md"
ROWS = torch.tensor(list(itertools.product((0.0, 1.0), repeat=3)), dtype=torch.float64)  # all there are
AnyCircuit = Circuit | Graph


def layered() -> Circuit:
    return socratic.rat_spn(3, n_classes=2, n_sums=2, n_leaves=2, depth=2, n_repetitions=2, leaf="bernoulli").double()


def mixture(variable: int) -> Sum:
    return Sum((Leaf(variable, Bernoulli.of(0.2)), Leaf(variable, Bernoulli.of(0.7))), (0.4, 0.6))


def root(*parts: tuple[Sum, Sum, Sum]) -> Sum:
    return Sum(tuple(map(Product, parts)), (0.3, 0.7))


def tree() -> Graph:
    nodes = [root(*([mixture(v) for v in range(3)] for _ in range(2))) for _ in range(2)]
    return Graph(nodes, dtype=torch.float64)


def sharing() -> Graph:
    first, second, third = (mixture(variable) for variable in range(3))
    nodes = [root((first, second, third), (first, mixture(1), third)) for _ in range(2)]
    return Graph(nodes, dtype=torch.float64)


CIRCUITS = {
    "`Circuit`": layered,
    "`Graph`: tree": tree,
    "`Graph`: shared nodes": sharing,
    "`Graph`: over budget": sharing,
}


def exact_if_equal(found: Tensor, expected: Tensor) -> str:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    return "exact"


def joint(circuit: AnyCircuit) -> Tensor:
    """The probability of each of all rows, the classes being mixed."""
    return circuit.log_likelihood(ROWS).exp().mean(1)


def likelihood(circuit: AnyCircuit) -> str:
    given = ROWS.clone()
    given[:, 2] = torch.nan
    pairs = circuit.log_likelihood(ROWS).exp().reshape(4, 2, -1).sum(1, keepdim=True).expand(-1, 2, -1)
    exact_if_equal(circuit.log_likelihood(ROWS).exp().sum(0), torch.ones(2).double())
    return exact_if_equal(circuit.log_likelihood(given).exp(), pairs.reshape(8, -1))


def marginal(circuit: AnyCircuit) -> str:
    evidence = torch.tensor([[1.0, torch.nan, torch.nan]], dtype=torch.float64)
    found = socratic.marginal_log_likelihood(circuit, evidence).exp()
    return exact_if_equal(found, joint(circuit)[4:].sum(0, keepdim=True))


def conditional(circuit: AnyCircuit) -> str:
    evidence = torch.tensor([[1.0, torch.nan, torch.nan]], dtype=torch.float64)
    found = socratic.conditional_log_likelihood(circuit, ROWS[4:], evidence).exp()
    return exact_if_equal(found, joint(circuit)[4:] / joint(circuit)[4:].sum())


def surprise(circuit: AnyCircuit) -> str:
    table = joint(circuit).reshape(2, 2, 2)
    expected = torch.stack([table.sum(v, keepdim=True).expand_as(table) / table for v in range(3)], -1)
    return exact_if_equal(socratic.column_surprise(circuit, ROWS), expected.log().reshape(8, 3))


def expectation(circuit: AnyCircuit) -> str:
    evidence = torch.tensor([[1.0, torch.nan, torch.nan]], dtype=torch.float64)
    given = joint(circuit)[4:, None]
    return exact_if_equal(socratic.expectation(circuit, evidence).mean[0], (given * ROWS[4:]).sum(0) / given.sum())


def draws(circuit: AnyCircuit) -> str:
    found = socratic.sample(circuit, 4000, seed=0).x
    shares = (found.unsqueeze(1) == ROWS).all(-1).double().mean(0)
    torch.testing.assert_close(shares, joint(circuit), rtol=0.0, atol=0.03)
    return "exact draws"


def most_probable(circuit: AnyCircuit) -> str:
    found: Explanation = socratic.mpe(circuit, torch.full((1, 3), torch.nan, dtype=torch.float64))
    best = (circuit.log_likelihood(ROWS) + math.log(0.5)).max()  # of all rows and classes
    assert found.log_likelihood <= best + 1e-9 <= found.log_bound + 2e-9
    return "exact" if found.exact else "max-product"


def word(moments: socratic.Moments | socratic.NodeMoments) -> str:
    others = {"bounds": "bounds", "independent": "lower bound", "upper": "upper bound"}
    return others.get(moments.method, "exact")


def weights(circuit: AnyCircuit) -> socratic.WeightPosterior:
    return socratic.weight_posterior(circuit, ROWS, torch.arange(8) % 2)


def mean(circuit: AnyCircuit) -> str:
    """The mean is a likelihood of weights that are worth less, in every method."""
    by_any = socratic.tdi(circuit, ROWS, covariance="independent").log_mean
    return exact_if_equal(socratic.tdi(circuit, ROWS).log_mean, by_any)


def tdi(**settings: object) -> Callable[[AnyCircuit], str]:
    return lambda circuit: word(socratic.tdi(circuit, ROWS, **settings))


def bounded(circuit: AnyCircuit) -> str:
    found = socratic.tdi(circuit, ROWS).posterior_bounds()
    sampled = socratic.monte_carlo_dropout(circuit, ROWS, masks="edge", n_passes=200).mean
    lower, upper = found.mean_bounds
    assert ((lower - 0.05 <= sampled) & (sampled <= upper + 0.05)).all()
    return "bounds"


def posterior(method: str, over_weights: bool = True) -> Callable[[AnyCircuit], str]:
    def ask(circuit: AnyCircuit) -> str:
        if over_weights:
            found = socratic.class_posterior(circuit, ROWS, weights(circuit), method=method)
        else:
            found = socratic.dropout_posterior(circuit, ROWS, method=method)
        return "sampled" if "monte-carlo" in found.method.split(", ")[0] else "approximate"

    return ask


QUESTIONS: dict[str, Callable[[AnyCircuit], str]] = {
    "`log_likelihood`, missing values left out": likelihood,
    "`marginal_log_likelihood`": marginal,
    "`conditional_log_likelihood`": conditional,
    "`column_surprise`": surprise,
    "`expectation`": expectation,
    "`sample`, `conditional_sample`": draws,
    "`mpe`": most_probable,
    "`tdi`: mean": mean,
    "`tdi`: variance and covariance, edge masks": tdi(masks="edge"),
    "`tdi`: variance and covariance, unit masks": tdi(masks="unit"),
    "`tdi` with uncertain leaves": tdi(leaf_variance=0.1),
    "`moments` over a `WeightPosterior`": lambda circuit: word(socratic.moments(circuit, ROWS, weights(circuit))),
    '`tdi(covariance="independent")`': tdi(covariance="independent"),
    '`tdi(covariance="upper")`': tdi(covariance="upper"),
    "`node_moments`": lambda circuit: word(socratic.node_moments(circuit, ROWS)),
    "`Moments.posterior_bounds`": bounded,
    '`dropout_posterior(method="log-moments")`': posterior("log-moments", over_weights=False),
    '`class_posterior(method="log-moments")` over weights': posterior("log-moments"),
    '`class_posterior(method="log-normal")`': posterior("log-normal"),
    '`class_posterior(method="expansion")`': posterior("expansion"),
    '`class_posterior(method="monte-carlo")`': posterior("monte-carlo"),
    '`dropout_posterior(method="auto")`': posterior("auto", over_weights=False),
}


def asked(question: Callable[[AnyCircuit], str], circuit: AnyCircuit) -> str:
    """What the library says, or that it refuses to say anything."""
    try:
        return question(circuit)
    except ValueError as error:
        if "is not possible here" in str(error) or "have no single posterior" in str(error):
            return "refused"
        raise


def table() -> dict[str, dict[str, str]]:
    """The cells of the page's table, by query and circuit."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {query: dict(zip(head[1:], cells, strict=True)) for query, *cells in body}


def test_the_table_has_every_question_and_circuit() -> None:
    assert list(table()) == list(QUESTIONS)
    assert {tuple(cells) for cells in table().values()} == {tuple(CIRCUITS)}


@pytest.mark.parametrize("kind", CIRCUITS)
@pytest.mark.parametrize("query", QUESTIONS)
def test_what_is_exact_where(query: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind.endswith("over budget"):
        monkeypatch.setattr("socratic.inference.graph.moments.DEFAULT_BUDGET", 0)
    assert asked(QUESTIONS[query], CIRCUITS[kind]()) == table()[query][kind]
