"""Replies as JSON that every client can read."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response


class Json(Response):
    """A reply in ASCII, without the words for infinity that JSON does not know."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of some content."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def failure(status: int, message: str, headers: dict[str, str] | None = None) -> Json:
    """A reply that says why there is no answer."""
    return Json({"error": message}, status, headers)
