"""Closeness: how far a single-pass estimate of the posterior is from many passes of Monte Carlo dropout.

An error is given in units that mean something: the number of passes with which Monte Carlo dropout is as far from the
reference. A new estimate is a new entry of ``ESTIMATES``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from socratic import Posterior
from socratic.uncertainty import auroc
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.methods import plain_posterior
from socratic_experiments.records import Records
from socratic_experiments.workbench import Workbench

MaskKind = Literal["edge", "unit"]
MASK_KINDS: tuple[MaskKind, ...] = ("edge", "unit")
N_BALANCED = 73
"""Balanced passes: as many as ``dropout_posterior`` takes for sharp rows."""

Estimate = Callable[[CircuitModel, Tensor, MaskKind], Posterior]

ESTIMATES: dict[str, Estimate] = {
    "circuit alone": lambda model, rows, _: plain_posterior(model.log_joint(rows)),
    "TDI independent": lambda model, rows, masks: model.tdi(rows, masks=masks, covariance="independent"),
    "TDI exact": lambda model, rows, masks: model.tdi(rows, masks=masks),
    "log moments": lambda model, rows, masks: model.dropout_posterior(rows, masks=masks, method="log-moments"),
    "log moments, balanced passes where sharp": lambda model, rows, masks: model.dropout_posterior(rows, masks=masks),
    f"Monte Carlo, {N_BALANCED} balanced passes": lambda model, rows, masks: model.dropout_posterior(
        rows, masks=masks, method="monte-carlo", balanced=True, n_passes=N_BALANCED
    ),
}
"""From a model, rows (N, V) and a kind of masks to the posterior."""

LADDER = (3, 10, 30, 100, 300)
"""Passes of the Monte Carlo estimates that errors are compared with."""
N_REFERENCE = 2000
_N_ROWS = 1000
_N_SETS = 3
"""Sets of passes that the error of a rung is the mean of."""
ERRORS = ("mean", "entropy", "std", "information")


def run_closeness(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Every estimate against ``N_REFERENCE`` passes, on known and unknown images, half and half."""
    for task, model, training in bench.models(bench.plan(models, seeds, circuits_only=True)):
        records.append(training)
        assert isinstance(model, CircuitModel)
        rows, n_known = _rows(bench, model)
        names = {"experiment": "closeness", **task.names(bench.settings.train)}
        steps = len(MASK_KINDS) * (len(LADDER) + len(ESTIMATES))
        with bench.watch.stage(f"{task.model}, seed {task.seed}: closeness", steps):
            for masks in MASK_KINDS:
                wanted = [f"Monte Carlo, {n} passes" for n in LADDER] + list(ESTIMATES)
                if all({**names, "masks": masks, "method": label} in records for label in wanted):
                    continue
                for record in _compare(bench, model, rows, n_known, masks):
                    records.append({**names, "masks": masks, **record})


def _rows(bench: Workbench, model: CircuitModel) -> tuple[Tensor, int]:
    """Rows (N, V), and how many of them, the first, are known images: half, if there are unknown sets."""
    sets = [bench.test, *bench.unknown]
    shares = [1.0] if len(sets) == 1 else [0.5, *(0.5 / len(bench.unknown) for _ in bench.unknown)]
    parts = []
    for images, share in zip(sets, shares, strict=True):
        n = min(len(images), int(share * _N_ROWS))
        some = images.take(np.linspace(0, len(images) - 1, n).astype(int))
        parts.append(model.normalised(some.images, bench.settings.normalise).rows(some.images))
    return torch.cat(parts), len(parts[0])


def _compare(
    bench: Workbench, model: CircuitModel, rows: Tensor, n_known: int, masks: MaskKind
) -> list[dict[str, object]]:
    """Records of the ladder and of all estimates for one kind of masks."""
    shared = {"n": len(rows), "reference_passes": N_REFERENCE, "inference_dropout": model.dropout}

    def sampled(n_passes: int, seed: int) -> Posterior:
        return model.monte_carlo(rows, masks=masks, n_passes=n_passes, seed=seed)

    def measured(estimate: Callable[[], Posterior]) -> tuple[dict[str, float], dict[str, float | None]]:
        """Errors, and what else is told of an estimate."""
        start = time.perf_counter()
        posterior = estimate()
        entropy = posterior.entropy.double().cpu().numpy()
        told: dict[str, float | None] = {"seconds_per_1000": 1000.0 * (time.perf_counter() - start) / len(rows)}
        told["rank_correlation"] = rank_correlation(entropy, reference.entropy.double().cpu().numpy())
        unknown = entropy[n_known:]
        told["auroc"] = auroc(entropy[:n_known], unknown) if len(unknown) else None
        return errors(posterior, reference), told

    def rung(n_passes: int) -> tuple[dict[str, float], dict[str, float | None]]:
        """The mean error over some sets of passes: one draw of masks is the same for all rows."""
        found = [measured(partial(sampled, n_passes, seed=n_passes + 10000 * set_)) for set_ in range(_N_SETS)]
        return {name: float(np.mean([part[name] for part, _ in found])) for name in ERRORS}, found[0][1]

    reference = sampled(N_REFERENCE, seed=0)
    found: list[dict[str, object]] = []
    ladder: dict[int, dict[str, float]] = {}
    for n_passes in LADDER:
        ladder[n_passes], told = rung(n_passes)
        own = {f"equivalent_{name}": float(n_passes) for name in ERRORS}
        names = {"method": f"Monte Carlo, {n_passes} passes", "n_passes": n_passes}
        found.append({**names, **told, **shared, **_prefixed(ladder[n_passes]), **own})
        bench.watch.step(f"{n_passes} passes")
    for label, estimate in ESTIMATES.items():
        distance, told = measured(partial(estimate, model, rows, masks))
        passes = {f"equivalent_{name}": equivalent_passes(distance[name], ladder, name) for name in ERRORS}
        found.append({"method": label, **told, **shared, **_prefixed(distance), **passes})
        bench.watch.step(label)
    return found


def errors(posterior: Posterior, reference: Posterior) -> dict[str, float]:
    """Mean distances over rows.

    Half the L1 distance of the mean posteriors, and the absolute differences of the entropies, of the mutual
    informations, and of the standard deviations of the reference's most probable class.
    """
    top = reference.mean.argmax(1, keepdim=True)
    return {
        "mean": float((posterior.mean - reference.mean).abs().sum(1).mean() / 2),
        "entropy": float((posterior.entropy - reference.entropy).abs().mean()),
        "std": float((posterior.std - reference.std).gather(1, top).abs().mean()),
        "information": float((posterior.mutual_information - reference.mutual_information).abs().mean()),
    }


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's correlation of two scores (N,); None where one of them is constant."""
    ranks = [np.unique(scores, return_inverse=True)[1] for scores in (first, second)]
    if min(ranks[0].max(initial=0), ranks[1].max(initial=0)) == 0:
        return None
    return float(spearmanr(first, second).statistic)


def equivalent_passes(error: float, ladder: Mapping[int, Mapping[str, float]], name: str) -> float:
    """The number of passes with which Monte Carlo dropout has this error, along the ladder in log-log scale.

    Beyond the ladder's ends the error is taken to fall as the square root of the passes. The reference has an error of
    its own, as Monte Carlo with ``N_REFERENCE`` passes has, so that no estimate can be told to be better than that.
    """
    passes = np.log(np.array(sorted(ladder), dtype=np.float64))
    known = np.log([max(ladder[n][name], 1e-12) for n in sorted(ladder)])
    known = np.minimum.accumulate(known)  # chance may turn two neighbours round
    wanted = float(np.log(max(error, 1e-12)))
    if wanted >= known[0]:
        return float(np.exp(passes[0] - 2.0 * (wanted - known[0])))
    if wanted <= known[-1]:
        # The square of a distance to the reference is proportional to 1 / N + 1 / N_REFERENCE.
        share = math.exp(2.0 * (wanted - known[-1])) * (math.exp(-passes[-1]) + 1.0 / N_REFERENCE) - 1.0 / N_REFERENCE
        return min(1.0 / share, float(N_REFERENCE)) if share > 0.0 else float(N_REFERENCE)
    return float(np.exp(np.interp(-wanted, -known, passes)))


def _prefixed(values: Mapping[str, float]) -> dict[str, float]:
    return {f"error_{name}": value for name, value in values.items()}
