"""Circuits and graphs as exported programs: likelihoods, the class posterior, and moments over what is in doubt."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.export.outputs import Exported
from socratic.inference.doubt import Doubt, check_doubt
from socratic.inference.engine import LogMomentPlan, MomentPlan
from socratic.inference.kinds import engine_of
from socratic.inference.log_normal import normal_points
from socratic.inference.moments import class_matrix
from socratic.inference.posterior import Posterior, class_shares, expand_posterior, log_class_prior


class Likelihood:
    """log p(x | class) of a circuit with the weights that it has now."""

    @torch.no_grad()
    def __init__(self, circuit: Circuit | Graph) -> None:
        self.engine = engine_of(circuit)

    def __call__(self, rows: Tensor) -> Tensor:
        """Log-likelihoods (N, C) of rows (N, V)."""
        return self.engine.log_likelihood(rows, rows.dtype)


class MomentPosterior:
    """Moments of the class likelihoods over what is in doubt, and the posterior that they are expanded to."""

    @torch.no_grad()
    def __init__(self, circuit: Circuit | Graph, doubt: Doubt) -> None:
        engine = engine_of(circuit)
        doubt.check_shapes(engine.sum_shapes)
        self.plan: MomentPlan = engine.moments(doubt, "exact", leaves=None, budget=None)

    @property
    def refused(self) -> str | None:
        """Why there is nothing to export, if so."""
        return self.plan.reason if self.plan.method == "bounds" else None

    def moments(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log-means (N, C) and relative covariances (N, C, C)."""
        found = self.plan.of_rows(rows, None)
        self.plan.peaks.clear()  # of an evaluation that is only recorded
        return found.log_mean, class_matrix(self.plan.method, found.relative)

    def __call__(self, rows: Tensor, log_prior: Tensor) -> Posterior:
        """The class posterior given the log-prior (C,)."""
        return expand_posterior(*self.moments(rows), log_prior)


class LogMomentPosterior:
    """The class posterior by log-moments."""

    @torch.no_grad()
    def __init__(self, circuit: Circuit | Graph, doubt: Doubt) -> None:
        engine = engine_of(circuit)
        self.refused = engine.no_log_moments(doubt, leaves=None)
        if self.refused is None:
            self.plan: LogMomentPlan = engine.log_moments(doubt, leaves=None)
        normal_points(circuit.n_classes)  # kept from now on: random points cannot be drawn while recording

    def __call__(self, rows: Tensor, log_prior: Tensor) -> Posterior:
        """The class posterior given the log-prior (C,)."""
        return self.plan.of_rows(rows, None, log_prior).posterior


def posterior_outputs(posterior: Posterior) -> dict[str, Tensor]:
    """The fields of a posterior by the names of outputs."""
    found = {
        "mean": posterior.mean,
        "std": posterior.std,
        "entropy": posterior.entropy,
        "mutual_information": posterior.mutual_information,
    }
    return found if posterior.log_density_std is None else {**found, "log_std": posterior.log_density_std}


class ExportedCircuit(Exported):
    """A circuit or graph.

    Parameters
    ----------
    circuit : Circuit or Graph
    class_prior : (C,), optional
        Class probabilities; uniform by default.
    doubt : Dropout or WeightPosterior, optional
        What the moments are over; without, there are none.
    """

    def __init__(
        self,
        circuit: Circuit | Graph,
        class_prior: Sequence[float] | Tensor | None = None,
        doubt: Doubt | None = None,
    ) -> None:
        super().__init__()
        self.likelihood = Likelihood(circuit)
        self.example = torch.zeros(2, circuit.n_features, dtype=circuit.dtype, device=circuit.device)
        self.log_prior = log_class_prior(class_prior, circuit.n_classes, self.example)
        of_moments = ("log_mean", "relative_covariance", "mean", "std", "entropy", "mutual_information", "log_std")
        self.moments = None if doubt is None else MomentPosterior(circuit, check_doubt(doubt))
        problem = "moments are over what is in doubt: give doubt"
        if self.moments is not None:
            problem = self.moments.refused or ""
        self.refused = dict.fromkeys(of_moments, problem) if problem else {}
        self.available = ("class_log_likelihood", "probabilities", *(() if problem else of_moments))
        self.names = self.available

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """Of rows (N, V) as the circuit reads them, NaN where a value is missing."""
        found: dict[str, Tensor] = {}
        if wanted & {"class_log_likelihood", "probabilities"}:
            found["class_log_likelihood"] = self.likelihood(x)
            found["probabilities"] = class_shares(found["class_log_likelihood"] + self.log_prior, self.log_prior)
        if self.moments is not None and wanted - found.keys():
            log_mean, covariance = self.moments.moments(x)
            found |= {"log_mean": log_mean, "relative_covariance": covariance}
            found |= posterior_outputs(expand_posterior(log_mean, covariance, self.log_prior))
        return found
