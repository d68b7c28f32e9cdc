from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from socratic.serve.settings import Settings, is_loopback

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.8.7", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_the_machine_itself(host: str) -> None:
    assert is_loopback(host)
    Settings(host=host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "", "127.0.0.1.x"]
)
def test_any_other_address_needs_a_token(host: str) -> None:
    with pytest.raises(
        ValueError, match=r"can be reached from other machines and needs a token; set one, or listen on"
    ):
        Settings(host=host)
    Settings(host=host, token=TOKEN)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(Settings(token=TOKEN))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token": "short"}, "token must have at least 16 letters, digits or signs of ASCII"),
        ({"token": TOKEN + " "}, "without blanks"),
        ({"port": 70_000}, "port must be at most 65535; got 70000"),
        ({"max_rows": 0}, "max_rows must be a whole number of at least 1; got 0"),
        ({"seconds": 0.0}, "seconds must be above 0; got 0.0"),
        ({"wait_ms": -1.0}, "wait_ms must be a finite number of at least 0; got -1.0"),
        ({"drift_folder": Path("nowhere")}, "drift_folder must be a folder that exists; got 'nowhere'"),
        ({"drift_folder": Path("/"), "drift_window": 0}, "drift_folder is for rows that are watched; leave it out"),
        ({"origins": ("*",)}, r"origins must be like https://example.org, without a path; got '\*'"),
    ],
)
def test_mistakes(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**settings)
