"""What moments over uncertain weights cost beside those over masks; ``python -m benchmarks.weight_posterior``.

A RAT-SPN of the paper's size (S = I = 20, depth 5, 5 repetitions), float32, on one CPU thread or a GPU. Calls are made
in turn, so that ratios are of times measured together.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import socratic
from benchmarks.timing import seconds_in_turn
from socratic.uncertainty.profile import Profile


def scores(circuit: socratic.Circuit, x: Tensor, posterior: socratic.WeightPosterior, profiles: list[Profile]) -> None:
    """What a classifier computes of rows: log p(x), the class posterior over weights, and two profiles."""
    circuit.log_likelihood(x)
    socratic.class_posterior(circuit, x, posterior, method="log-moments")
    for profile in profiles:
        profile.score(circuit, x)


@torch.no_grad()
def table(device: torch.device, batch: int, n_features: int, repeats: int) -> list[str]:
    """Rows of the table: times in ms, and beside exact TDI with edge masks."""
    circuit = socratic.rat_spn(n_features, 10, n_sums=20, n_leaves=20, depth=5, n_repetitions=5).to(device)
    x = torch.randn(batch, n_features, device=device)
    y = torch.arange(batch, device=device) % 10
    posterior = socratic.weight_posterior(circuit, x, y, prior_strength=100.0)
    profiles = [Profile.fit(circuit, x, by_class=by_class) for by_class in (False, True)]
    calls: dict[str, Callable[[], object]] = {
        "exact TDI, edge masks": partial(socratic.tdi, circuit, x, dropout=0.1),
        "exact moments, Dirichlet weights": partial(socratic.moments, circuit, x, posterior),
        "class posterior, Dirichlet weights, log-moments": partial(
            socratic.class_posterior, circuit, x, posterior, method="log-moments"
        ),
        "all scores of a detector": partial(scores, circuit, x, posterior, profiles),
        "log-likelihood": partial(circuit.log_likelihood, x),
        "visits of all sums": partial(socratic.weight_posterior, circuit, x, y),
    }
    times = [statistics.median(own) for own in seconds_in_turn(list(calls.values()), device, repeats)]
    lines = [f"| {batch} rows of {n_features} variables, {device} | ms | beside TDI |", "| --- | --: | --: |"]
    lines += [f"| {name} | {1e3 * t:.1f} | {t / times[0]:.2f} |" for name, t in zip(calls, times, strict=True)]
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", type=torch.device)
    parser.add_argument("--batch", default=64, type=int)
    parser.add_argument("--features", default=784, type=int)
    parser.add_argument("--repeats", default=9, type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("\n".join(table(arguments.device, arguments.batch, arguments.features, arguments.repeats)))


if __name__ == "__main__":
    main()
