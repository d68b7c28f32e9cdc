"""Small discrete circuits with the probability of each of their states, node by node: the reference of all queries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch

import socratic
from socratic.families import Bernoulli, Binomial, Categorical, Family
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

    circuit: socratic.Circuit
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
    """A random circuit of two classes: all pairs, element-wise, or a graph with branches of different shapes."""
    settings = {"n_classes": 2, "n_sums": 2, "n_leaves": 2, "leaf": list(FAMILIES), "seed": seed}
    if kind == "two shapes":
        circuit = socratic.Circuit(TWO_SHAPES, **{**settings, "n_leaves": 3})
    else:
        circuit = socratic.rat_spn(4, depth=2, n_repetitions=2, product=kind, **settings)
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.mul_(1.5)
    return world_of(circuit)


def world_of(circuit: socratic.Circuit) -> World:
    circuit = circuit.double()
    counts = [family.n_values for family in circuit.leaves.families]
    states = np.array(list(itertools.product(*(range(n or 0) for n in counts))), dtype=np.float64)
    roots = circuit.to_graph()
    return World(circuit, states, np.exp([evaluate(roots, state) for state in states]))


KINDS = ("all-pairs", "element-wise", "two shapes")
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
