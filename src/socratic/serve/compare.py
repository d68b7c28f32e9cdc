"""Ways to doubt, side by side: what each says of one row or image, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter
from pydantic import BaseModel, Field
from torch import Tensor

from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.committee import Committee, ForestCommittee
from socratic.estimators.posterior import ONE_PASS
from socratic.inference.dropout import Dropout
from socratic.inference.moments import moments
from socratic.inference.posterior import Posterior, entropy
from socratic.inference.posterior_methods import class_posterior
from socratic.inference.results import CovarianceKind
from socratic.serve.bodies import Route
from socratic.serve.model import ServedModel, a, finite, of_classes
from socratic.serve.problems import RequestError
from socratic.serve.replies import Json
from socratic.serve.service import Service
from socratic.serve.v1 import FAILURES, Asked, ClassProbability, asked_of, n_asked
from socratic.tables.inputs import known

MOST_PASSES = 200


class CompareRequest(Asked):
    """One row or image, and how much to drop."""

    dropout: float = Field(0.2, ge=0.0, lt=1.0, description="The dropout rate.")
    n_passes: int = Field(100, ge=1, le=MOST_PASSES, description="Samples of Monte Carlo dropout.")


class Way(BaseModel):
    """What a way to doubt says; null where it says nothing."""

    name: str
    probabilities: list[ClassProbability] | None
    entropy: float | None = Field(description="Of the class probabilities, in nats.")
    mutual_information: float | None = Field(description="The part of the entropy that is the model's own doubt.")
    milliseconds: float | None = Field(description="What it took, alone.")
    note: str | None = Field(description="Why it says nothing, if so.")


class CompareResponse(BaseModel):
    """What each way says."""

    model: str
    ways: list[Way]


def router(service: Service) -> APIRouter:
    """The path that compares."""
    routes = APIRouter(prefix="/v1", tags=["v1"], responses=FAILURES, route_class=Route)
    one_at_a_time = CapacityLimiter(1)  # beside the answers, which do not wait for it

    @routes.post("/compare", response_model=CompareResponse)
    async def compare(request: CompareRequest) -> Json:
        """Ask about one row or image in five ways, from the circuit alone to sampled dropout."""
        model = service.model(request.model)
        if not isinstance(model.estimator, CircuitClassifierBase):
            raise RequestError(f"ways to doubt are compared for classifiers; {model.name!r} is {a(model.kind)}")
        ways = await to_thread.run_sync(_compared, model, request, service.settings.max_pixels, limiter=one_at_a_time)
        return Json({"model": model.name, "ways": ways})

    return routes


def _compared(model: ServedModel, request: CompareRequest, max_pixels: int) -> list[dict[str, Any]]:
    if (n_rows := n_asked(request)) != 1:
        raise RequestError(f"{model.takes} must hold one to compare ways to doubt by; got {n_rows}")
    asked = asked_of(model, request, max_pixels)
    x = known(model.encode(model.check(asked)))
    ways = _Ways(model.estimator, x, request.dropout, request.n_passes).by_name()
    return [_asked_once(name, ask, model.estimator.classes_.tolist()) for name, ask in ways.items()]


@dataclass(frozen=True, eq=False)
class _Ways:
    """Every way to ask a classifier about rows (N, V) as its circuit reads them.

    Each raises :class:`RequestError` if it is none for this classifier.
    """

    model: CircuitClassifierBase
    x: Tensor
    rate: float
    n_passes: int

    def by_name(self) -> dict[str, Callable[[], Posterior]]:
        return {
            "circuit alone": self.alone,
            "TDI as published, without covariances": lambda: self.expanded("independent"),
            "TDI, exact": lambda: self.expanded("exact"),
            "doubt from data": self.weighed,
            f"Monte Carlo dropout, {self.n_passes} passes": self.sampled,
        }

    def alone(self) -> Posterior:
        mean = self._committee.shares(self.x, self._log_prior)
        return Posterior(mean, torch.zeros_like(mean), entropy(mean), mean.new_zeros(len(mean)), None, "none")

    def expanded(self, covariance: CovarianceKind) -> Posterior:
        def ask(circuit: Any, doubt: Dropout) -> Posterior:
            found = moments(circuit, self.x, doubt, covariance=covariance)
            if found.method == "bounds":
                raise RequestError(f"exact moments of this circuit would cost too much: {found.reason}")
            return found.posterior(self._prior)

        return self._dropped(ask)

    def weighed(self) -> Posterior:
        posteriors = self._committee.weight_posteriors
        if not posteriors:
            raise RequestError("the model was saved before models kept the distribution of their weights; fit it again")
        return self._committee.posterior(ONE_PASS, self.x, self._log_joints(), posteriors, None, self._prior)

    def sampled(self) -> Posterior:
        options: dict[str, Any] = {"method": "monte-carlo", "class_prior": self._prior, "n_passes": self.n_passes}
        return self._dropped(lambda circuit, doubt: class_posterior(circuit, self.x, doubt, **options))

    def _dropped(self, ask: Callable[[Any, Dropout], Posterior]) -> Posterior:
        """What circuits say that drop children: the average, if there are several."""
        committee = self._committee
        if isinstance(committee, ForestCommittee):
            raise RequestError("its classes come from the cells of trees, and there are no sums to drop from")
        doubts = committee.dropping(self.rate, self.model.masks)
        parts = [ask(*each) for each in zip(committee.circuits, doubts, strict=True)]
        return Posterior.average(parts, torch.logsumexp(self._log_joints(), -1)) if len(parts) > 1 else parts[0]

    @property
    def _committee(self) -> Committee | ForestCommittee:
        return self.model._committee()

    @property
    def _prior(self) -> list[float]:
        return [float(share) for share in self.model.class_prior_]

    @property
    def _log_prior(self) -> Tensor:
        return self.model._log_prior(self.model.circuit_)

    def _log_joints(self) -> Tensor:
        return self._committee.log_joints(self.x, self._log_prior)


@torch.no_grad()
def _asked_once(name: str, ask: Callable[[], Posterior], classes: Sequence[Any]) -> dict[str, Any]:
    """What a way says of one row, and what that took."""
    start = time.perf_counter()
    try:
        found = ask()
    except RequestError as error:
        nothing = dict.fromkeys(("probabilities", "entropy", "mutual_information", "milliseconds"))
        return {"name": name, **nothing, "note": str(error)}
    milliseconds = 1000.0 * (time.perf_counter() - start)
    return {
        "name": name,
        "probabilities": of_classes(classes, found.mean[0].tolist(), found.std[0].tolist()),
        "entropy": finite(float(found.entropy[0])),
        "mutual_information": finite(float(found.mutual_information[0])),
        "milliseconds": milliseconds,
        "note": None,
    }
