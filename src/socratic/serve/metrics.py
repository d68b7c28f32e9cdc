"""What a server counts, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS"})


class Metrics:
    """The counters of one server, in a registry of their own.

    Labels take few values, whatever is asked: models by their names, paths as the service knows them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: Any = {"namespace": "socratic", "registry": self.registry}
        self.requests = Counter("requests", "Requests that were answered.", ["path", "method", "status"], **common)
        self.seconds = Histogram("request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, **common)
        self.running = Gauge("requests_running", "Requests in work.", **common)
        self.rows = Counter("rows", "Rows and images that were answered.", ["model"], **common)
        self.verdicts = Counter("verdicts", "Verdicts on them.", ["model", "verdict"], **common)
        self.together = Histogram("rows_together", "Rows answered together.", buckets=_ROWS, **common)
        self.computing = Counter("computing_seconds", "Time spent on answers.", **common)

    def count_answers(self, model: str, verdicts: Sequence[str | None]) -> None:
        """Count rows of a model by their verdicts."""
        self.rows.labels(model).inc(len(verdicts))
        for verdict in set(verdicts) - {None}:
            self.verdicts.labels(model, verdict).inc(verdicts.count(verdict))

    def count_together(self, n_rows: int, seconds: float) -> None:
        """Count rows that were answered together."""
        self.together.observe(n_rows)
        self.computing.inc(seconds)

    def n_requests(self) -> int:
        """Requests that were answered, in all."""
        samples = (sample for metric in self.requests.collect() for sample in metric.samples)
        return int(sum(sample.value for sample in samples if sample.name.endswith("_total")))

    def text(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self.registry)


class Measured:
    """Counts the requests to an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        started = time.perf_counter()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self.metrics.running.inc()
        try:
            await self._app(scope, receive, watched)
        finally:
            self.metrics.running.dec()
            path = getattr(scope.get("route"), "path", "other")  # as the service knows it, with {name} for names
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.metrics.requests.labels(path, method, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
