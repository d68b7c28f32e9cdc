"""Fitted classifiers as exported programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.estimators.classification import PROFILES, CircuitClassifierBase
from socratic.estimators.committee import Committee, ForestCommittee
from socratic.estimators.posterior import ONE_PASS
from socratic.export.circuits import Likelihood, LogMomentPosterior, MomentPosterior, posterior_outputs
from socratic.export.familiarity import TorchClassConformal, TorchConformal, TorchDetector, mean
from socratic.export.forest import ForestAnswers
from socratic.export.outputs import Exported
from socratic.export.profiles import TorchProfile
from socratic.export.reading import Reading
from socratic.inference.dropout import Dropout
from socratic.inference.posterior import Posterior, class_shares
from socratic.numerics import logsumexp_or_dead
from socratic.uncertainty.scores import LIKELIHOODS

_OF_POSTERIOR = ("mean", "std", "entropy", "mutual_information")
_SHARES = frozenset({"probabilities"})


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
        return Posterior.average(parts, logsumexp_or_dead(log_joints, dim=-1).squeeze(-1))


class Judge:
    """What one classifier says of rows, without comparing them with calibration rows.

    That may be a fold of another classifier, which reads rows on a scale of its own.
    """

    def __init__(self, model: CircuitClassifierBase) -> None:
        self.log_prior = model._log_prior(model.circuit_)
        committee = model._committee()
        self.answers: CircuitAnswers | ForestAnswers
        if isinstance(committee, ForestCommittee):
            self.answers = ForestAnswers(committee, model.class_prior_)
        else:
            self.answers = CircuitAnswers(model, committee)
        self.reading = Reading(model)
        self.detector = TorchDetector(model.detector_)
        self.profiles: dict[str, TorchProfile] = {}
        self.refused = self.answers.refused
        for name in PROFILES:
            if name not in self.detector.weights or self.refused is not None:
                continue
            if isinstance(model.circuit_, Circuit):
                self.profiles[name] = TorchProfile(getattr(model, f"{name}_"), model.circuit_, self.log_prior)
            else:
                self.refused = "the regions of a graph are not exported, which its p-values look at"

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """The outputs that are wanted, in float64, and perhaps others."""
        rows, log_volume = self.reading(x), self.reading.log_volume(x)
        log_joints = self.answers.log_joints(rows, self.log_prior)
        mixed = logsumexp_or_dead(log_joints, dim=0).squeeze(0) - math.log(log_joints.shape[0])
        found = {"log_likelihood": logsumexp_or_dead(mixed.double(), dim=1).squeeze(1) - log_volume}
        if wanted - {"log_likelihood", "probabilities"}:
            found |= posterior_outputs(self.answers.posterior(rows, self.log_prior, log_joints))
        if "probabilities" in wanted:
            if self.answers.answers_by_mean and "mean" in found:
                # Normalised once more: an ONNX file cannot give one value two names.
                found["probabilities"] = found["mean"] / found["mean"].sum(1, keepdim=True)
            else:
                found["probabilities"] = self.answers.shares(rows, self.log_prior, log_joints)
        return {name: value.double() for name, value in found.items()}

    def judged(self, x: Tensor, wanted: frozenset[str]) -> tuple[dict[str, Tensor], Tensor]:
        """The outputs that are wanted, and the detector's score (N,)."""
        comparison = self.reading.comparison
        copies = x if comparison is None else comparison.copies(x)
        found = self.outputs(copies, wanted | {*_OF_POSTERIOR})
        scores = self._scores(copies, found)
        if comparison is not None:
            scores = comparison(scores, copies)
        return {name: value[: x.shape[0]] for name, value in found.items()}, self.detector(scores)

    def _scores(self, x: Tensor, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """Scores (N,) of rows, which depend on what cells they miss."""
        unlikely = -found["log_likelihood"]
        scores: dict[str, Tensor] = {
            name: found[name] for name in ("entropy", "mutual_information", "log_std") if name in found
        }
        scores |= dict.fromkeys(LIKELIHOODS, unlikely)
        rows = self.reading(x)
        return scores | {name: profile(rows) for name, profile in self.profiles.items()}


class ExportedClassifier(Exported):
    """A classifier of tables, from encoded rows (N, V), or of images, from bytes (N, H, W, channels)."""

    def __init__(self, model: CircuitClassifierBase) -> None:
        super().__init__()
        self.judge, self.folds = Judge(model), [Judge(fold) for fold in model.folds_]
        self.example = self.judge.reading.example
        self.by_class = None if model.class_conformal_ is None else TorchClassConformal(model.class_conformal_)
        self.conformal = TorchConformal(model.detector_.calibration)
        problem = self.judge.answers.refused
        self.refused = dict.fromkeys(_OF_POSTERIOR, problem) if problem else {}
        judged = next((each.refused for each in [self.judge, *self.folds] if each.refused is not None), None)
        if judged is not None:
            self.refused |= {"p_value": judged}
        names = ("probabilities", "log_likelihood", *_OF_POSTERIOR, "p_value")
        self.available = tuple(name for name in names if name not in self.refused)
        self.names = self.available

    def outputs(self, x: Tensor, wanted: frozenset[str]) -> dict[str, Tensor]:
        """Of rows as :attr:`example` has them; NaN is missing, infinite what training rows do not hold."""
        if "p_value" not in wanted:
            return self.judge.outputs(x, wanted)
        if not self.folds:
            found, score = self.judge.judged(x, wanted | _SHARES)
            return {**found, "p_value": self._compare([self._on_one_level(score, x, self.judge, x)], [found])}
        answers, scores = [], []
        for fold in self.folds:
            rows = fold.reading.rescaled(x)
            answer, score = fold.judged(rows, _SHARES)
            answers.append(answer)
            scores.append(self._on_one_level(score, x, fold, rows))
        return {**self.judge.outputs(x, wanted), "p_value": self._compare(scores, answers)}

    def _on_one_level(self, score: Tensor, x: Tensor, judge: Judge, rows: Tensor) -> Tensor:
        """Scores (N,) that p-values compare, of rows ``x`` that their judge reads as ``rows``."""
        return self.judge.reading.on_one_level(score, x, judge.reading.unseen(rows))

    def _compare(self, scores: Sequence[Tensor], answers: Sequence[dict[str, Tensor]]) -> Tensor:
        """P-values (N,) of rows by their scores, and by the probabilities that come with them."""
        if self.by_class is None:
            return self.conformal(mean(scores))
        return self.by_class(scores, [answer["probabilities"] for answer in answers])
