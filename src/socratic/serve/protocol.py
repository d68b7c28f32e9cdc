"""HTTP as uvicorn reads it, with a limit on what comes before and behind bodies."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 2**16


class Bounded(HttpToolsProtocol):
    """A connection that is closed when a request has too much beside its body: uvicorn keeps headers of any length."""

    _n_bytes = 0
    """That came since the last part of a body, or the end of headers or of a request."""

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        self._n_bytes += len(data)
        super().data_received(data)
        if self._n_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The request line and headers are too long.")

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self._n_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._n_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_bytes = 0
        super().on_message_complete()
