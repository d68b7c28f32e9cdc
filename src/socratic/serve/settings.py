"""What a server is told before it starts: addresses, the token, and the limits of what it takes on."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field, fields
from pathlib import Path

from socratic.errors import check_count, check_number

_SHORTEST_TOKEN = 16
_MIB = 2**20


@dataclass(frozen=True)
class Settings:
    """Addresses and limits of a server.

    Attributes
    ----------
    host : str
        The address to listen on. Any but those of the machine itself needs a token.
    port : int
        0 takes one that is free.
    token : str, optional
        What requests have to bear, at least 16 letters. Without one, requests must name the machine itself as their
        host, so that no web page can reach the server under a name of its own.
    origins : tuple of str
        Origins of web pages that browsers may let ask, such as "https://example.org"; by default none but its own.
    max_body_bytes, max_table_bytes : int
        The longest body of a request, and of a table that is answered row by row.
    max_rows, max_table_rows : int
        The most rows of a request, and of a table.
    max_columns : int
        The most columns of a table.
    max_unpacked_bytes : int
        What a table holds when it is unpacked, at most: repeated text of a Parquet file takes next to nothing in it.
    max_pixels : int
        Of an image before it is resized.
    max_reply_values : int
        Numbers and words of a reply, at most, but for tables, whose answers are sent as they are found.
    max_requests : int
        Requests in work at a time; more are sent away for a moment.
    seconds, table_seconds : float
        How long a request, or a table, may take.
    wait_ms : float
        How long a request waits for others that can be answered together with it, at most.
    rows_together : int
        Rows that are answered together, at most, but for requests that have more.
    drift_window : int
        Last rows of each model that ``/v1/drift`` shows; 0 does not watch for drift.
    drift_folder : Path, optional
        Where what is known of drift is kept in files, which a server that is started again goes on from.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    origins: tuple[str, ...] = ()
    max_body_bytes: int = 8 * _MIB
    max_table_bytes: int = 256 * _MIB
    max_rows: int = 1_000
    max_table_rows: int = 10_000_000
    max_columns: int = 16_384
    max_unpacked_bytes: int = 1024 * _MIB
    max_pixels: int = 16_000_000
    max_reply_values: int = 1_000_000
    max_requests: int = 128
    seconds: float = 30.0
    table_seconds: float = 600.0
    wait_ms: float = 2.0
    rows_together: int = 256
    drift_window: int = 1_000
    drift_folder: Path | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            if each.name.startswith("max_") or each.name == "rows_together":
                check_count(each.name, getattr(self, each.name))
        check_count("port", self.port, minimum=0)
        self._check_drift()
        if self.port > 65535:
            raise ValueError(f"port must be at most 65535; got {self.port}")
        for name in ("seconds", "table_seconds"):
            if not check_number(name, getattr(self, name), minimum=0.0):
                raise ValueError(f"{name} must be above 0; got {getattr(self, name)!r}")
        check_number("wait_ms", self.wait_ms, minimum=0.0)
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^/\s*]+", origin):
                raise ValueError(f"origins must be like https://example.org, without a path; got {origin!r}")
        if self.token is not None and not re.fullmatch(rf"[!-~]{{{_SHORTEST_TOKEN},}}", self.token):
            raise ValueError(
                f"token must have at least {_SHORTEST_TOKEN} letters, digits or signs of ASCII, without blanks; make "
                'one with: python -c "import secrets; print(secrets.token_urlsafe())"'
            )
        if self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host!r} can be reached from other machines and needs a token; set one, or listen on "
                "127.0.0.1"
            )

    def _check_drift(self) -> None:
        check_count("drift_window", self.drift_window, minimum=0)
        if self.drift_folder is not None and not self.drift_folder.is_dir():
            raise ValueError(f"drift_folder must be a folder that exists; got {str(self.drift_folder)!r}")
        if self.drift_folder is not None and not self.drift_window:
            raise ValueError("drift_folder is for rows that are watched; leave it out, or drift_window 0")


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself, as it is reached from nowhere else."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
