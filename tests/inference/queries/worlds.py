"""Small discrete circuits and graphs, with the probability of each state node by node: the reference of queries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Bernoulli, Binomial, Categorical, Distribution, Family
from tests.oracles import evaluate

FAMILIES: tuple[Family, ...] = (Bernoulli(), Categorical(3), Binomial(2), Bernoulli())
TWO_SHAPES = socratic.RegionGraph(
    4,
    tuple(map(socratic.Region, [(0, 1, 2, 3), (0, 2), (1, 3), (0,), (2,), (1, 2, 3), (0,), (1,), (2, 3)])),
    tuple(
        socratic.Partition(*split) for split in [(0, (1, 2)), (1, (3, 4)), (0, (5, 6)), (5, (7, 8))]
    ),
)  # fmt: skip
"""Two repetitions of different shapes, leaf regions of one and of two variables."""


@dataclass(frozen=True, eq=False)
class World:
    """A circuit, all its states (S, V), and p(state | class) of each (S, C)."""

    circuit: socratic.Circuit | Graph
    states: np.ndarray
    probability: np.ndarray

    def matches(self, evidence: np.ndarray) -> np.ndarray:
        """Which states agree with a row of evidence: (S,)."""
        return ((self.states == evidence) | np.isnan(evidence)).all(1)

    def joint(self, evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """p(state, evidence), mixed over classes: (S,)."""
        return (self.probability @ prior) * self.matches(evidence)

    def given(self, evidence: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """p(state | evidence): (S,)."""
        joint = self.joint(evidence, prior)
        return joint / joint.sum()


def make_world(kind: str, seed: int = 0) -> World:
    """A random circuit of two classes, the same unrolled, or a graph with everything that circuits cannot have."""
    if kind == "graph":
        return world_of(mixed_graph(seed))
    if kind == "unrolled":
        return world_of(make_circuit("two shapes", seed).to_graph())
    return world_of(make_circuit(kind, seed))


def make_circuit(kind: str, seed: int = 0) -> socratic.Circuit:
    """A random circuit: all pairs, element-wise products, or branches of different shapes."""
    settings = {"n_classes": 2, "n_sums": 2, "n_leaves": 2, "leaf": list(FAMILIES), "seed": seed}
    if kind == "two shapes":
        circuit = socratic.Circuit(TWO_SHAPES, **{**settings, "n_leaves": 3})
    else:
        circuit = socratic.rat_spn(4, depth=2, n_repetitions=2, product=kind, **settings)
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.mul_(1.5)
    return circuit.double()


def mixed_graph(seed: int) -> Graph:
    """Columns of several families, probabilities of 0, two partitions that cross, a root that is a shared product."""
    rng = np.random.default_rng(seed)

    def wild(variable: int) -> Leaf:
        chance = float(rng.choice([0.0, 1.0, *rng.uniform(0.05, 0.95, 4)]))
        two = (chance, 1.0 - chance)
        choices: list[Distribution] = [Bernoulli.of(chance), Categorical.of(two)]
        if FAMILIES[variable].n_values == 3:
            three = rng.dirichlet(np.ones(3)) * (rng.random(3) < 0.7) + 1e-3 * np.eye(3)[int(rng.integers(3))]
            choices.append(Categorical.of(tuple((three / three.sum()).tolist())))
            choices.append(Binomial.of(2, chance))
        return Leaf(variable, choices[int(rng.integers(len(choices)))])

    def mixture(*children: Node) -> Sum:
        return Sum(children, tuple(rng.dirichlet(np.ones(len(children))).tolist()))

    open_leaves = [Leaf(0, Bernoulli.of(0.4)), Leaf(1, Categorical.of((0.3, 0.3, 0.4)))]
    open_leaves += [Leaf(2, Binomial.of(2, 0.6)), Leaf(3, Bernoulli.of(0.7))]
    leaves = [[leaf, *(wild(variable) for _ in range(2))] for variable, leaf in enumerate(open_leaves)]

    def region(a: int, b: int) -> Sum:
        return mixture(
            *(Product((leaves[a][i], leaves[b][int(rng.integers(3))] if i else leaves[b][0])) for i in range(3))
        )

    shared = Product((region(0, 1), region(2, 3)))
    others = [Product((region(0, 2), region(1, 3))) for _ in range(2)]
    return Graph((mixture(shared, *others, Product(tuple(open_leaves))), shared), dtype=torch.float64)


def world_of(circuit: socratic.Circuit | Graph) -> World:
    counts = [max(family.n_values or 0 for family in families) for families in circuit.column_families]
    states = np.array(list(itertools.product(*map(range, counts))), dtype=np.float64)
    roots = circuit if isinstance(circuit, Graph) else circuit.to_graph()
    return World(circuit, states, np.exp([evaluate(roots, state) for state in states]))


CIRCUIT_KINDS = ("all-pairs", "element-wise", "two shapes")
KINDS = (*CIRCUIT_KINDS, "unrolled", "graph")
PRIOR = np.array([0.3, 0.7])
NAN = np.nan
EVIDENCE = np.array(
    [
        [NAN, NAN, NAN, NAN],
        [1.0, NAN, NAN, NAN],
        [NAN, 2.0, NAN, 0.0],
        [0.0, NAN, 1.0, 1.0],
        [0.0, 1.0, 2.0, 1.0],
    ]
)
