"""HTTP as uvicorn reads it, with limits on connections and on what comes before and behind bodies."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 2**16
WAITING = 128
"""Connections that wait to be taken; uvicorn may take them all at once."""
_OWN_FILES = 2 * WAITING
"""Files that the server may have open beside its connections: those that it takes at once, and its own."""


def _most_connections() -> int:
    """As many as a process may have files open, but for its own: beyond that it logs without end that it takes none."""
    try:
        import resource
    except ImportError:  # not on every system
        return 512
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**16 if allowed == resource.RLIM_INFINITY else max(allowed - _OWN_FILES, allowed // 4)


MOST_CONNECTIONS = _most_connections()


class Bounded(HttpToolsProtocol):
    """A connection that ends when a request has too much beside its body, or does not begin: uvicorn waits for ever."""

    _n_bytes = 0
    """That came since the last part of a body, or the end of headers or of a request."""
    _n_head_bytes = 0
    """Of the request line, the headers and what stands behind a body."""
    _beginning: TimerHandle | None = None
    """Ends a connection whose request has not begun, or not come to the end of its headers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request; not if there are too many that do."""
        super().connection_made(transport)  # type: ignore[arg-type]
        if len(self.connections) > MOST_CONNECTIONS:
            self.transport.abort()
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._n_bytes += len(data)
        super().data_received(data)
        if self._n_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        """Say that this is no request, or too long a head of one."""
        if max(self._n_bytes, self._n_head_bytes) > MOST_HEAD_BYTES:
            msg = "The request line and headers are too long."
        super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """Begin with a request."""
        self._n_head_bytes = 0
        if self._beginning is None:
            self._wait()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self._n_bytes = 0
        self._wait_no_longer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._n_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_bytes = 0
        super().on_message_complete()

    def _count(self, n_bytes: int) -> None:
        self._n_head_bytes += n_bytes
        if self._n_head_bytes > MOST_HEAD_BYTES:
            raise ValueError("too long")  # the parser ends, and sends a reply

    def _wait(self) -> None:
        self._beginning = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _wait_no_longer(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
            self._beginning = None
