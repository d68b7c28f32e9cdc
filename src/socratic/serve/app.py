"""The application: the paths of all interfaces, behind limits and counters."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from socratic import __version__
from socratic.serve import compare, examples, tables, v1, v2
from socratic.serve.documents import add_documents
from socratic.serve.limits import Limits
from socratic.serve.metrics import CONTENT_TYPE, Measured
from socratic.serve.model import ServedModel
from socratic.serve.problems import RequestError, problem, shortened, unknown_name
from socratic.serve.replies import Json, failure
from socratic.serve.service import Service
from socratic.serve.settings import Settings
from socratic.tables.names import repeated

_log = logging.getLogger("socratic.serve")


def create_app(models: Sequence[ServedModel], settings: Settings) -> Measured:
    """The ASGI application that serves some models."""
    service = Service(models, settings)

    @asynccontextmanager
    async def answering(_: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        service.ready = True
        yield
        service.ready = False
        service.batcher.stop()
        service.watches.save()

    app = FastAPI(
        title="socratic",
        version=__version__,
        description="Models that know what they don't know.",
        lifespan=answering,
        docs_url=None,  # their pages load programs from elsewhere
        redoc_url=None,
        openapi_url=None,  # see documents.py
    )
    for interface in (v1, compare, examples, tables):
        app.include_router(interface.router(service), dependencies=[Depends(_check)])
    app.include_router(v2.router(service))
    _add_health(app, service)
    _add_failures(app)
    add_documents(app, service)
    guarded: ASGIApp = Limits(app, settings)
    if settings.origins:  # outermost, as browsers ask for permission without a token
        guarded = CORSMiddleware(
            guarded,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    return Measured(guarded, service.metrics)


async def _check(request: Request) -> None:
    """Refuse what would be ignored: options that do not exist or are there twice, and bodies of other types."""
    route: APIRoute = request.scope["route"]
    known = [param.alias for param in route.dependant.query_params]
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise unknown_name("", "option", name, known)
    if (twice := repeated(given)) is not None:
        raise RequestError(f"option {shortened(twice)} must be there once; got it {given.count(twice)} times")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if route.body_field is not None and not re.fullmatch(r"application/(.+\+)?json", kind):
        raise RequestError(f"the content type must be application/json; got {shortened(kind)}", 415)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"])
    async def healthy() -> dict[str, str]:
        """Whether the server runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], responses={503: {"model": v1.Failure}})
    async def ready() -> Response:
        """Whether it answers."""
        return Json({"status": "ready"}) if service.ready else failure(503, "the server is starting or ending")

    @app.get("/metrics", tags=["health"], response_class=Response)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_failures(app: FastAPI) -> None:
    """Replies to requests that fail: what the sender can mend is said, anything else is in the log."""

    @app.exception_handler(RequestError)
    async def mistaken(_: Request, error: RequestError) -> Response:
        return failure(error.status, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return failure(422, "; ".join(map(problem, error.errors()[:5])))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        return failure(error.status_code, error.detail, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        number = secrets.token_hex(8)
        _log.error("request %s failed", number, exc_info=error)
        return failure(500, f"something is wrong here; the log has it under {number}")
