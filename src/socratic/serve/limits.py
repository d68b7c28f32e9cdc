"""What stands before the service: the token, limits on size, number and time of requests, and headers of safety."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from socratic.serve.settings import Settings, is_loopback

TABLES_PATH = "/v1/predict/batch"
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""What says whether the server is well, and nothing else: for everybody, however busy it is."""
PAGES = ("/", "/docs", "/drift")
"""And what they are made of, under /static/: nothing of the models, so that a browser may open them without a token and
ask for one."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_SAFETY = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]


class Limits:
    """Lets requests through to an application, or answers them itself with the reason why not.

    Parameters
    ----------
    app : ASGI application
    settings : Settings
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._token = None if settings.token is None else settings.token.encode()
        self.running = 0
        """Requests in work."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves out the body of the reply
        if scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        most = self._most_bytes(scope)
        if _announced(scope) > most:
            with anyio.move_on_after(self._seconds(scope)):
                await _Counted(scope, receive, most).drop()
            await _refuse(send, 413, _too_long(most), {})
            return
        self.running += 1
        try:
            await self._timed(scope, receive, send)
        finally:
            self.running -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str, Mapping[str, str]] | None:
        """Status, message and headers for a request that is not let through."""
        headers = dict(scope["headers"])
        if self._token is None and not _is_ours(headers.get(b"host", b""), self._settings.host):
            return 421, "the server answers under the names of its own machine alone, such as 127.0.0.1", {}
        if self._token is None and not self._may_ask(headers):
            return 403, "web pages of other servers may not ask; --origin names those that may", {}
        is_page = scope["path"] in PAGES or scope["path"].startswith("/static/")
        if self._token is not None and not is_page and not _bears(headers.get(b"authorization", b""), self._token):
            return 401, "a token is needed, in the header Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            return 415, "bodies are read as they are, without a content encoding; unpack this one", {}
        if self.running >= self._settings.max_requests:
            return 503, "too many requests at once; try again in a moment", {"retry-after": "1"}
        return None

    def _may_ask(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request comes from no page of another server: browsers send some POSTs of these without asking."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        own = headers.get(b"host", b"").decode("latin-1")
        return origin in ("", f"http://{own}", f"https://{own}", *self._settings.origins)

    async def _timed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, for as long as it may take."""
        counted = _Counted(scope, receive, self._most_bytes(scope))
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            await counted.drop()
            started = True
            await send(message)

        seconds = self._seconds(scope)
        with anyio.move_on_after(seconds) as time:
            try:
                await self._app(scope, counted, watched)
            except Exception:
                if not started:
                    raise
                # Starlette has logged and answered it, and raises it again.
        if time.cancelled_caught and not started:
            if counted.complete:
                await _refuse(send, 503, f"no answer within {seconds:g} s; try again later", {"retry-after": "5"})
            else:
                await _refuse(send, 408, f"the request did not arrive within {seconds:g} s", {"connection": "close"})

    def _seconds(self, scope: Scope) -> float:
        return self._settings.table_seconds if scope["path"] == TABLES_PATH else self._settings.seconds

    def _most_bytes(self, scope: Scope) -> int:
        is_table = scope["path"] == TABLES_PATH
        return self._settings.max_table_bytes if is_table else self._settings.max_body_bytes


class _Counted:
    """Receives a request, and raises as soon as its body is longer than it may be."""

    def __init__(self, scope: Scope, receive: Receive, most: int) -> None:
        self._receive, self._most = receive, most
        self._n_bytes = 0
        self._waits = any(name == b"expect" for name, _ in scope["headers"])
        self.complete = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._n_bytes += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
            if self._n_bytes > self._most:
                raise HTTPException(413, _too_long(self._most))
        return message

    async def drop(self) -> None:
        """Take in the rest of the body, and forget it: most senders read a reply only when they have sent everything.

        Those that say that they wait until they are asked for the body need not send it.
        """
        while not self.complete and not self._waits:
            message = await self._receive()
            self.complete = message["type"] != "http.request" or not message.get("more_body", False)


def _announced(scope: Scope) -> float:
    """The length of a body, by the header that says so; infinite where it has more digits than a length."""
    digits = dict(scope["headers"]).get(b"content-length", b"0")
    return int(digits) if len(digits) < 20 else math.inf


def _too_long(most: int) -> str:
    return f"the body is longer than {most} bytes; send fewer rows at a time"


def _bears(authorization: bytes, token: bytes) -> bool:
    """Whether a header bears the token; how long that takes does not tell how much of it is right."""
    kind, _, found = authorization.partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(found.strip(), token)


def _is_ours(host: bytes, listening: str) -> bool:
    """Whether a request names this machine as its host, and not a name that somebody made lead here."""
    try:
        name = urlsplit(f"//{host.decode('ascii')}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name == listening


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_SAFETY]
        await send(message)

    return with_headers


async def _refuse(send: Send, status: int, message: str, headers: Mapping[str, str]) -> None:
    body = json.dumps({"error": message}).encode()
    given = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    encoded: list[Any] = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
