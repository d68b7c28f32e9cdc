"""Requests that are made to cost far more than they are worth."""

from __future__ import annotations

import io
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from socratic.serve.logs import Sparing
from socratic.serve.model import ServedModel, ServedTable
from socratic.serve.tensors import packed
from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Reply, Site, running

SECONDS = 5.0
"""Each of these took at least twice as long before it was bounded, on a machine with nothing else to do."""


def seconds_of(ask: Callable[[], Reply]) -> tuple[Reply, float]:
    began = time.monotonic()
    return ask(), time.monotonic() - began


@contextmanager
def watched(site: Site) -> Iterator[list[float]]:
    """How long others have to wait meanwhile, in seconds."""
    delays, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.is_set():
            began = time.monotonic()
            assert site.ask("/healthz").status == 200
            delays.append(time.monotonic() - began)
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield delays
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("rate", [5e-324, 1e-320, 1e-300])
@pytest.mark.parametrize("name", ["rejection_rate", "risk", "dropout"])
def test_rates_next_to_nothing(site: Site, name: str, rate: float) -> None:
    model = {"model": "trees", "doubt": "dropout"} if name == "dropout" else {"model": "fruit"}
    assert site.predict(rows=[{}], **model, **{name: rate}).status == 200
    assert site.ask("/v1/predict/batch?model=fruit", b"", content_type="text/csv").status == 422
    table = make_fruit(3)[0].to_csv(index=False).encode()
    if name != "dropout":
        reply = site.ask(f"/v1/predict/batch?model=fruit&{name}={rate}", table, content_type="text/csv")
        assert reply.status == 200


@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000 + "2", "2" * 20])
def test_lengths_of_many_digits(site: Site, digits: str) -> None:
    reply = site.ask("/v2/models/fruit/infer", b"{}", inference_header_content_length=digits)
    assert (reply.status, reply.error) == (
        400,
        "the header Inference-Header-Content-Length must be a length within the body",
    )
    assert site.ask("/v1/predict", b"{}", content_length=digits, expect="100-continue").status in (400, 413)


def test_outputs_and_inputs_that_are_repeated(site: Site) -> None:
    weight = {"name": "weight", "datatype": "FP64", "shape": [1000], "data": [150.0] * 1000}
    shares = {"name": "probabilities"}
    for request, message in (
        (
            {"inputs": [weight], "outputs": [shares] * 2},
            "output 'probabilities' must be there once; leave out the others",
        ),
        ({"inputs": [weight], "outputs": [shares] * 3000}, "outputs must be at most 10, each of them once; got 3000"),
        ({"inputs": [weight] * 2}, "input 'weight' must be there once; leave out the others"),
        ({"inputs": [weight] * 1000}, "inputs must be at most 5, each of them once; got 1000"),
    ):
        with watched(site) as delays:
            reply = site.ask("/v2/models/fruit/infer", request)
        assert (reply.status, reply.error) == (422, message)
        assert max(delays) < SECONDS


def test_empty_inputs_before_many_bytes(site: Site) -> None:
    """Each once took a copy of all bytes that follow."""
    inputs = [
        {"name": f"x{place}", "datatype": "FP64", "shape": [0], "parameters": {"binary_data_size": 0}}
        for place in range(40_000)
    ]
    head = json.dumps({"inputs": inputs}).encode()
    body = head + packed("FP64", [0.0] * 400_000)
    (reply, seconds) = seconds_of(
        lambda: site.ask("/v2/models/fruit/infer", body, inference_header_content_length=str(len(head)))
    )
    assert reply.status == 422
    assert seconds < SECONDS


def test_replies_are_counted_before_they_are_made(forest: ServedTable, everything: list[ServedModel]) -> None:
    digits = next(model for model in everything if model.name == "digits")
    with running([forest, digits], max_reply_values=2_000) as small:
        assert small.predict(model="fruit", rows=[{}] * 90).status == 200
        reply = small.predict(model="fruit", rows=[{}] * 100)
        assert (reply.status, reply.error) == (
            413,
            "the reply would hold 2200 values, more than 2000; send at most 90 rows at a time",
        )
        column = {"name": "weight", "datatype": "FP64", "shape": [100], "data": [150.0] * 100}
        assert small.ask("/v2/models/fruit/infer", {"inputs": [column]}).status == 413
        image = [[0] * 8] * 8
        assert small.predict(model="digits", images=[image] * 20).status == 200
        assert "send at most 18 images at a time" in small.predict(model="digits", images=[image] * 20, heat=True).error


def test_images_are_counted_before_they_are_read(site: Site) -> None:
    body = b'{"model": "digits", "images": [' + b",".join([b"[[1]]"] * 1_300_000) + b"]}"
    with watched(site) as delays:
        reply, seconds = seconds_of(lambda: site.ask("/v1/predict", body))
    assert (reply.status, reply.error) == (413, "images must hold at most 1000; got 1300000: send fewer at a time")
    assert seconds < SECONDS
    assert max(delays) < SECONDS


def test_one_long_text_among_pixels(site: Site) -> None:
    """An array of text holds each of them in the room of the longest."""
    pixels = [["x" * 200_000, *["y"] * 200_000]]
    reply = site.predict(model="digits", pixels=pixels)
    assert (reply.status, "each a whole number from 0 to 255" in reply.error) == (422, True)


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/compare"])
@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"k%d":1' % place for place in range(500_000)) + b"}",
        b'{"model": "fruit", "rows": [' + b"1," * 2_000_000 + b"1]}",
        b'{"model": "fruit", "rows": [{' + b",".join(b'"k%d":1' % place for place in range(500_000)) + b"}]}",
    ],
)
def test_many_mistakes_at_once(site: Site, path: str, body: bytes) -> None:
    with watched(site) as delays:
        reply, seconds = seconds_of(lambda: site.ask(path, body))
    assert reply.status == 422
    assert len(reply.body) < 1_000
    assert max(seconds, *delays) < SECONDS


@pytest.mark.parametrize("size", [60_000, 70_000, 120_000, 250_000])
@pytest.mark.parametrize("n_headers", [1, 50])
def test_headers_that_come_in_two_parts(site: Site, size: int, n_headers: int) -> None:
    """They were counted up to the part that has the end of them."""
    host, port = urlsplit(site.url).netloc.split(":")
    line = b"X: " + b"a" * (size // n_headers) + b"\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        lines = line * n_headers
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + lines[: size // 2])
        time.sleep(0.2)
        connection.sendall(lines[size // 2 :] + b"\r\n")
        try:
            status = connection.recv(100).split()[1]
        except ConnectionError:
            status = b"400"
    assert status == (b"200" if size < 2**16 else b"400")


def table_of(n_columns: int) -> bytes:
    """A header whose last name is its first one again."""
    return ",".join([*(f"name{place}" for place in range(n_columns - 1)), "name0"]).encode() + b"\n"


def test_names_of_many_columns(site: Site) -> None:
    with watched(site) as delays:
        reply, seconds = seconds_of(
            lambda: site.ask("/v1/predict/batch?model=fruit", table_of(16_000), content_type="text/csv")
        )
        assert (reply.status, reply.error) == (422, "the table has more than one column 'name0'; rename one of them")
        reply, more = seconds_of(
            lambda: site.ask("/v1/predict/batch?model=fruit", table_of(300_000), content_type="text/csv")
        )
        assert (reply.status, "has 300000 columns, more than 16384" in reply.error) == (413, True), reply.body
    assert max(seconds, more, *delays) < SECONDS


def parquet_of(text: str, n_rows: int) -> bytes:
    """A table for the fruit in which one text is there many times, and once in its dictionary."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    frame, _ = make_fruit(n_rows)
    codes = np.zeros(n_rows, dtype=np.int32)
    table = pa.table(frame[["weight", "length", "organic", "label id"]])
    table = table.append_column("colour", pa.DictionaryArray.from_arrays(codes, pa.array([text])))
    content = io.BytesIO()
    parquet.write_table(table, content, compression="zstd", store_schema=False)
    return content.getvalue()


def test_a_long_text_of_a_small_table(site: Site) -> None:
    kind = "application/x-parquet"
    pa = pytest.importorskip("pyarrow")
    body = parquet_of("x" * 3_250_000, 2_000)
    assert len(body) < 100_000
    most = pa.default_memory_pool().max_memory()
    reply = site.ask("/v1/predict/batch?model=fruit", body, content_type=kind)
    assert (reply.status, "more than 1073741824 bytes when it is unpacked" in reply.error) == (413, True)
    assert pa.default_memory_pool().max_memory() - most < 2**26
    reply = site.ask("/v1/predict/batch?model=fruit", parquet_of("x" * 1_000_000, 200), content_type=kind)
    assert reply.status == 200
    assert pa.default_memory_pool().max_memory() - most < 2**28
    assert pa.default_memory_pool().bytes_allocated() < 2**26


@pytest.mark.slow
def test_connections_that_never_ask(tmp_path: Path) -> None:
    """More than a process may have files open: the log once had a megabyte a second to say of it."""
    resource = pytest.importorskip("resource", reason="limits of processes are not on every system")
    fitted("forest").save(tmp_path / "fruit.model")
    command = [sys.executable, "-m", "socratic", "serve", f"fruit={tmp_path / 'fruit.model'}", "--port", "0"]

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))

    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=few_files) as server,  # noqa: PLW1509
    ):
        connections: list[socket.socket] = []
        try:
            assert server.stdout is not None
            site = Site(server.stdout.readline().split()[-1])
            host, port = urlsplit(site.url).netloc.split(":")
            connections += [socket.create_connection((host, int(port)), timeout=10) for _ in range(200)]
            time.sleep(4.0)
            assert (tmp_path / "log").stat().st_size < 100_000
            for connection in connections:
                connection.close()
            time.sleep(1.5)
            assert site.ask("/healthz").status == 200
        finally:
            for connection in connections:
                connection.close()
            server.terminate()
            server.wait(60)


def test_what_the_log_leaves_out() -> None:
    sparing = Sparing()
    lines = []
    for number in range(1_000):
        for name, text in (("uvicorn.error", "no HTTP: %d"), ("asyncio", f"number {number}")):
            record = logging.LogRecord(name, logging.ERROR, "", 0, text, (number,) if "%" in text else (), None)
            if sparing.filter(record):
                lines.append(record.getMessage())
    of_http = [line for line in lines if line.startswith("no HTTP")]
    assert of_http[-1] == "no HTTP: 19 (more of this kind are left out for up to a minute)"
    assert len(of_http) == 20
    assert len(lines) - 20 == 99 + 20
