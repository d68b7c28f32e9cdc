from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from socratic.serve import Client, ServiceError
from socratic.serve.model import Options, Record, ServedTable, Take, leave
from socratic.serve.run import listening
from socratic.serve.settings import Settings
from tests.serve.conftest import fitted
from tests.serve.running import Site, running

TOKEN = "a-token-that-is-long-enough"


class Slow(ServedTable):
    """A model that takes as long as it is told, and fails if that is negative."""

    def answer(self, asked: list[dict[str, Any]], options: Options, take: Take = leave) -> list[Record]:
        seconds = max(row["weight"] for row in asked)
        if seconds < 0:
            raise RuntimeError(f"a secret of {Path(__file__)}")
        time.sleep(seconds)
        return super().answer(asked, options, take)


@pytest.fixture(scope="module")
def slow() -> Slow:
    return Slow("slow", fitted("forest"))


@pytest.fixture(scope="module")
def guarded(forest: ServedTable) -> Iterator[Site]:
    with running([forest], token=TOKEN, max_body_bytes=10_000) as site:
        yield site


def test_a_token_is_needed(guarded: Site) -> None:
    for path in ("/openapi.json", "/v1/models", "/v1/examples", "/metrics", "/v2", "/nothing"):
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"authorization": "Bearer"}):
            reply = guarded.ask(path, **header)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer"), path
            assert "fruit" not in reply.body.decode()
    assert guarded.ask("/v1/models", authorization=f"Bearer {TOKEN}").json == {"models": ["fruit"]}
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert guarded.ask(path).status == 200
    for path in ("/", "/docs", "/drift", "/static/style.css"):  # a browser opens the page, which asks for the token
        assert guarded.ask(path).status == 200
        assert "fruit" not in guarded.ask(path).body.decode()


def test_the_client_bears_it(guarded: Site) -> None:
    assert Client(guarded.url, token=TOKEN).models() == ["fruit"]
    with pytest.raises(ServiceError, match="a token is needed") as caught:
        Client(guarded.url).models()
    assert caught.value.status == 401


def test_bodies_are_counted_as_they_come(guarded: Site) -> None:
    reply = guarded.ask("/v1/predict", b" " * 10_001, authorization=f"Bearer {TOKEN}")
    assert (reply.status, reply.error) == (413, "the body is longer than 10000 bytes; send fewer rows at a time")
    for path in ("/v1/predict", "/v2/models/fruit/infer"):  # without saying how long it is
        connection = http.client.HTTPConnection(urlsplit(guarded.url).netloc, timeout=20)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        connection.request("POST", path, iter([b" " * 1_000] * 11), headers, encode_chunked=True)
        assert connection.getresponse().status == 413
        connection.close()


def test_names_of_others_do_not_lead_here(site: Site, guarded: Site) -> None:
    for name in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "localhost@evil.example:1", "[::1"):
        assert site.ask("/v1/models", host=name).status in (400, 421), name
    for name in ("localhost", "127.0.0.1:1234", "[::1]:80"):
        assert site.ask("/v1/models", host=name).status == 200
    assert guarded.ask("/v1/models", host="evil.example", authorization=f"Bearer {TOKEN}").status == 200


def test_headers_of_safety(site: Site) -> None:
    for path in ("/", "/healthz", "/v1/models", "/nothing", "/static/style.css", "/static/../app.py"):
        headers = site.ask(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_other_pages_may_ask_only_if_named(site: Site, forest: ServedTable) -> None:
    asked = {"origin": "https://good.example", "access_control_request_method": "POST"}
    assert "access-control-allow-origin" not in site.ask("/v1/predict", method="OPTIONS", **asked).headers
    with running([forest], origins=("https://good.example",), token=TOKEN) as open_site:
        allowed = open_site.ask("/v1/predict", method="OPTIONS", **asked)
        assert allowed.headers["access-control-allow-origin"] == "https://good.example"
        other = {**asked, "origin": "https://evil.example"}
        refused = open_site.ask("/v1/predict", method="OPTIONS", **other)
        assert "access-control-allow-origin" not in refused.headers


def test_pages_of_others_may_not_ask_without_reading_either(site: Site, forest: ServedTable) -> None:
    """Browsers send POSTs of plain text to any server, and only keep the reply from the page."""
    asked = json.dumps({"inputs": [{"name": "weight", "datatype": "FP64", "shape": [1], "data": [150.0]}]}).encode()

    def status(site: Site, origin: str, **headers: str) -> int:
        kind = {"content_type": "text/plain", "origin": origin}
        return site.ask("/v2/models/fruit/infer", asked, **kind, **headers).status

    for origin in ("https://evil.example", "null", "http://localhost", site.url + "0", site.url + "/", "http://"):
        assert status(site, origin) == 403, origin
    assert status(site, site.url) == 200
    assert status(site, site.url.replace("http", "https")) == 200  # behind a proxy with TLS
    with running([forest], origins=("https://good.example",)) as named:
        assert status(named, "https://good.example") == 200
        assert status(named, "https://evil.example") == 403
    with running([forest], token=TOKEN) as guarded:  # which no page has
        assert status(guarded, "https://evil.example", authorization=f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX: ",
        b"GET /",
        b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)
def test_what_stands_beside_bodies_has_a_limit(guarded: Site, head: bytes) -> None:
    host, port = urlsplit(guarded.url).netloc.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        with pytest.raises(OSError):  # noqa: PT011 - it is closed, in one way or the other
            connection.sendall(b"a" * 100_000_000)
    assert guarded.ask("/healthz").status == 200
    assert guarded.ask("/healthz", x="a" * 60_000).status == 200


def test_bodies_are_not_unpacked(site: Site) -> None:
    packed = gzip.compress(json.dumps({"model": "fruit", "rows": [{}]}).encode())
    reply = site.ask("/v1/predict", packed, content_encoding="gzip")
    assert (reply.status, reply.error) == (
        415,
        "bodies are read as they are, without a content encoding; unpack this one",
    )
    assert site.predict(model="fruit", rows=[{}]).status == 200


def test_heads_of_replies(site: Site) -> None:
    for path in ("/", "/healthz", "/readyz", "/v1/models", "/metrics"):
        reply = site.ask(path, method="HEAD")
        assert (reply.status, reply.body) == (200, b"")
    assert site.ask("/v1/predict", method="HEAD").status == 405
    assert all("head" not in methods for methods in site.ask("/openapi.json").json["paths"].values())


def test_whoever_sends_much_gets_to_read_why_not(forest: ServedTable, tmp_path: Path) -> None:
    """The client closes its connections, and reads a reply only when it has sent everything."""
    (tmp_path / "rows.csv").write_bytes(b"weight,length\n" + b"1,2\n" * 3_000_000)
    with running([forest], max_table_bytes=1_000_000) as small:
        with pytest.raises(ServiceError, match="the body is longer than 1000000 bytes") as caught:
            Client(small.url).predict_table(tmp_path / "rows.csv", tmp_path / "answers.csv")
        assert caught.value.status == 413
        reply = small.ask("/nothing", b"0" * 500_000, connection="close")
        assert (reply.status, reply.error) == (404, "Not Found")
    with running([forest], max_table_bytes=100_000_000) as site:
        for wrong, message in (
            ({"rejection_rate": 2.0}, "Input should be less than 1"),
            ({"model": "x"}, "no model 'x'"),
        ):
            with pytest.raises(ServiceError, match=message):
                Client(site.url).predict_table(tmp_path / "rows.csv", tmp_path / "answers.csv", **wrong)


def test_too_many_requests_at_once(slow: Slow) -> None:
    with running([slow], max_requests=2, wait_ms=0.0) as busy, ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: busy.predict(rows=[{"weight": 0.5}]), range(6)))
        assert sorted(reply.status for reply in replies) == [200] * 2 + [503] * 4
        refused = next(reply for reply in replies if reply.status == 503)
        assert (refused.headers["retry-after"], "try again" in refused.error) == ("1", True)
        assert busy.predict(rows=[{"weight": 0.0}]).status == 200
        with pytest.raises(ServiceError) as caught:
            list(pool.map(lambda _: Client(busy.url).predict([{"weight": 0.5}]), range(6)))
        assert (caught.value.status, caught.value.retry_after) == (503, 1.0)


def test_requests_have_their_time(slow: Slow) -> None:
    with running([slow], seconds=0.3) as hurried:
        reply = hurried.predict(rows=[{"weight": 0.8}])
        assert (reply.status, reply.error) == (503, "no answer within 0.3 s; try again later")
        host, port = urlsplit(hurried.url).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_errors_carry_no_internals(slow: Slow, caplog: pytest.LogCaptureFixture) -> None:
    with running([slow]) as site:
        reply = site.predict(rows=[{"weight": -1.0}])
    assert reply.status == 500
    assert set(reply.json) == {"error"}
    number = reply.error.removeprefix("something is wrong here; the log has it under ")
    assert len(number) == 16
    assert number in caplog.text
    assert "a secret of" in caplog.text


def test_replies_are_sent_at_once() -> None:
    """Otherwise the body of a reply may wait for the client to confirm its headers, which many do after 40 ms."""
    delays: list[int] = []

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            delays.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            transport.close()

    async def accept() -> None:
        with listening(Settings(port=0)) as sock:
            server = await asyncio.get_running_loop().create_server(Connection, sock=sock)
            async with server:
                reader, writer = await asyncio.open_connection(*sock.getsockname())
                await reader.read()
                writer.close()

    asyncio.run(accept())
    assert delays == [1]


def test_two_servers_that_start_at_once() -> None:
    with listening(Settings(port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(ValueError, match=f"cannot listen on http://127.0.0.1:{port}: Address already in use"):
            listening(Settings(port=port))


def test_nothing_else_is_served(site: Site) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/etc/passwd", "/docs/../../x", "/v1/models/x"):
        assert site.ask(path).status == 404, path
    assert site.ask("/v1/predict").status == 405
