"""Fitted classifiers as exported programs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.committee import Committee, ForestCommittee
from socratic.estimators.image_classifier import CircuitImageClassifier
from socratic.estimators.posterior import ONE_PASS
from socratic.export.circuits import Likelihood, LogMomentPosterior, MomentPosterior, posterior_outputs
from socratic.export.forest import ForestAnswers
from socratic.export.outputs import Exported
from socratic.export.tables import Cells
from socratic.images import PixelEncoder
from socratic.inference.dropout import Dropout
from socratic.inference.posterior import Posterior, class_shares
from socratic.tables.inputs import known

_OF_POSTERIOR = ("mean", "std", "entropy", "mutual_information")


class CircuitAnswers:
    """What the circuits of a committee say of the classes of rows."""

    answers_by_mean = Committee.answers_by_mean

    def __init__(self, model: CircuitClassifierBase, committee: Committee) -> None:
        self.likelihoods = [Likelihood(circuit) for circuit in committee.circuits]
        weights = model._doubts_weights()
        doubts = committee.weight_posteriors if weights else committee.dropping(model.dropout_, model.masks)
        method = model.posterior
        if method == ONE_PASS:
            method = "log-moments" if weights else "expansion"
        self.refused: str | None = None
        if model._leaf_variance() is not None:
            self.refused = "leaf_variance makes the moments depend on which columns are missing; set it to 0"
        elif method not in ("log-moments", "expansion"):
            self.refused = f"posterior={method!r} draws samples; use 'one-pass', 'log-moments' or 'expansion'"
        elif any(isinstance(doubt, Dropout) and method == "log-moments" for doubt in doubts):
            self.refused = "log-moments of dropout look at the values of rows; use posterior='expansion'"
        else:
            kind = LogMomentPosterior if method == "log-moments" else MomentPosterior
            parts = [kind(circuit, doubt) for circuit, doubt in zip(committee.circuits, doubts, strict=True)]
            self.refused = next((part.refused for part in parts if part.refused is not None), None)
            self.posteriors = parts

    def log_joints(self, rows: Tensor, log_prior: Tensor) -> Tensor:
        """log p(x, class) by each circuit: (K, N, C)."""
        return torch.stack([likelihood(rows) for likelihood in self.likelihoods]) + log_prior

    def shares(self, _rows: Tensor, log_prior: Tensor, log_joints: Tensor) -> Tensor:
        """Class probabilities (N, C)."""
        return torch.stack([class_shares(joint, log_prior) for joint in log_joints.unbind(0)]).mean(0)

    def posterior(self, rows: Tensor, log_prior: Tensor, log_joints: Tensor) -> Posterior:
        """The class posterior over what is in doubt."""
        parts = [part(rows, log_prior) for part in self.posteriors]
        return Posterior.average(parts, torch.logsumexp(log_joints, -1))


class ExportedClassifier(Exported):
    """A classifier of tables, from encoded rows (N, V), or of images, from bytes (N, H, W, channels)."""

    def __init__(self, model: CircuitClassifierBase) -> None:
        super().__init__()
        circuit, device = model.circuit_, model.circuit_.device
        committee = model._committee()
        self.answers: CircuitAnswers | ForestAnswers
        if isinstance(committee, ForestCommittee):
            self.answers = ForestAnswers(committee, model.class_prior_)
        else:
            self.answers = CircuitAnswers(model, committee)
        self.log_prior = model._log_prior(circuit)
        self.encoder: PixelEncoder | None = None
        if isinstance(model, CircuitImageClassifier):
            self.encoder = model.encoder_
            self.example = torch.zeros(2, *model.image_shape_, dtype=torch.uint8, device=device)
        else:
            assert isinstance(model, CircuitClassifier)
            self.cells = Cells(model.table_).to(device)
            self.example = torch.zeros(2, circuit.n_features, dtype=circuit.dtype, device=device)
        problem = self.answers.refused
        self.refused = dict.fromkeys(_OF_POSTERIOR, problem) if problem else {}
        self.available = ("probabilities", "log_likelihood", *(() if problem else _OF_POSTERIOR))
        self.names = self.available

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """Of rows as :attr:`example` has them; NaN is missing, infinite what training rows do not hold."""
        log_volume: Any
        if self.encoder is None:
            rows, log_volume = known(x), self.cells.log_volume(x)
        else:
            rows, log_volume = self.encoder(x.permute(0, 3, 1, 2).flatten(1)), self.encoder.log_scale
        log_joints = self.answers.log_joints(rows, self.log_prior)
        mixed = torch.logsumexp(log_joints, 0) - math.log(len(log_joints))
        found = {"log_likelihood": torch.logsumexp(mixed.double(), 1) - log_volume}
        if wanted - {"log_likelihood", "probabilities"}:
            found |= posterior_outputs(self.answers.posterior(rows, self.log_prior, log_joints))
        if "probabilities" in wanted:
            if self.answers.answers_by_mean and "mean" in found:
                # Normalised once more: an ONNX file cannot give one value two names.
                found["probabilities"] = found["mean"] / found["mean"].sum(1, keepdim=True)
            else:
                found["probabilities"] = self.answers.shares(rows, self.log_prior, log_joints)
        return {name: value.double() for name, value in found.items()}
