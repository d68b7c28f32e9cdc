"""A real server on loopback, in a thread of the tests."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from socratic.serve.app import create_app
from socratic.serve.model import ServedModel
from socratic.serve.protocol import Bounded
from socratic.serve.run import listening
from socratic.serve.settings import Settings


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_constant=_no_constant)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class Site:
    """Where a server is, and how to ask it without the client under test."""

    url: str

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Reply:
        """One request on a connection of its own; a body that is no text or bytes is sent as JSON."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            given = {"content-type": "application/json", **given}
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, given)
            reply = connection.getresponse()
            return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def predict(self, **request: Any) -> Reply:
        return self.ask("/v1/predict", request)


@contextmanager
def running(models: Sequence[ServedModel], **settings: Any) -> Iterator[Site]:
    """Serve models on a free port."""
    chosen = Settings(port=0, **settings)
    sock = listening(chosen)
    server = uvicorn.Server(uvicorn.Config(create_app(models, chosen), log_config=None, ws="none", http=Bounded))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        yield Site(f"http://127.0.0.1:{sock.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()
        sock.close()


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
