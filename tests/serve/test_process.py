"""The server as a process of its own: under load, at its end, and with those who wish it ill."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from benchmarks import fuzz
from benchmarks.fuzz_requests import Asked

from tests.serve.conftest import fitted, make_fruit
from tests.serve.running import Site

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]


class Server:
    """A process of ``socratic serve``."""

    def __init__(self, model: Path, *options: str) -> None:
        command = [sys.executable, "-m", "socratic", "serve", f"fruit={model}", "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("serving fruit at http://127.0.0.1:"), self.process.communicate()[1]
        self.site = Site(said.split()[-1])
        while True:
            try:
                if self.site.ask("/readyz").status == 200:
                    break
            except OSError:
                time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; the exit code, and what it said since its first line."""
        self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, output, errors

    def memory(self) -> int:
        """The most memory it has had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "fruit.model"
    fitted("forest").save(path)
    return path


@contextmanager
def serving(model: Path, *options: str) -> Iterator[Server]:
    server = Server(model, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def ask_on(connection: http.client.HTTPConnection, row: dict[str, Any]) -> tuple[int, bytes]:
    body = json.dumps({"rows": [row]}).encode()
    connection.request("POST", "/v1/predict", body, {"content-type": "application/json"})
    reply = connection.getresponse()
    return reply.status, reply.read()


def test_many_clients_at_once(model: Path, rows: Rows) -> None:
    """64 clients: no request is lost or mixed up. How long they wait, `python -m benchmarks.serve` tells."""
    n_clients, n_each = 64, 10
    start = threading.Barrier(n_clients)
    with serving(model) as server:
        expected = {place: server.site.predict(rows=[row]).json["answers"][0] for place, row in enumerate(rows)}

        def ask(client: int) -> int:
            connection = http.client.HTTPConnection(urlsplit(server.site.url).netloc, timeout=60)
            connection.connect()
            start.wait()
            for number in range(n_each):
                place = (client + 7 * number) % len(rows)
                status, body = ask_on(connection, rows[place])
                assert status == 200, body
                (answer,) = json.loads(body)["answers"]
                assert answer["log_likelihood"] == pytest.approx(expected[place]["log_likelihood"], rel=1e-9)
                assert answer["label"] == expected[place]["label"]
            connection.close()
            return n_each

        with ThreadPoolExecutor(n_clients) as pool:
            answered = sum(pool.map(ask, range(n_clients)))
        together = server.site.ask("/metrics").body.decode()
    assert answered == n_clients * n_each
    groups = next(float(line.split()[1]) for line in together.splitlines() if "rows_together_count" in line)
    assert groups < 0.5 * n_clients * n_each  # most were answered in company


def test_the_end_answers_all_that_was_accepted(model: Path, rows: Rows) -> None:
    n_clients = 16
    complete, other = [0] * n_clients, [0] * n_clients
    with serving(model) as server:
        before = 1  # the question whether it is ready; those before it was, were refused by the system

        def ask(client: int) -> None:
            while True:
                connection = http.client.HTTPConnection(urlsplit(server.site.url).netloc, timeout=60)
                try:
                    status, body = ask_on(connection, rows[client])
                except OSError:  # nobody listens any more
                    return
                except http.client.HTTPException:  # closed before anything was read
                    return
                finally:
                    connection.close()
                complete[client] += status == 200 and "answers" in json.loads(body)
                other[client] += status != 200

        with ThreadPoolExecutor(n_clients) as pool:
            for client in range(n_clients):
                pool.submit(ask, client)
            time.sleep(1.5)
            code, output, errors = server.end()
    print(f"{sum(complete)} answers")
    assert code == 0, errors
    assert sum(other) == 0
    assert sum(complete) > n_clients
    assert output == f"ended, having answered {sum(complete) + before} requests\n"


def test_killed_and_started_again_it_answers_the_same(model: Path, rows: Rows) -> None:
    said = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        with serving(model) as server:
            asked = [{"rows": rows[:5], "reasons": 3}, {"rows": [rows[7]]}, {"rows": rows, "rejection_rate": 0.3}]
            said.append([server.site.predict(**request).body for request in asked])
            server.end(number)
    assert said[0] == said[1]


def test_killed_and_started_again_it_knows_of_drift(model: Path, rows: Rows, tmp_path: Path) -> None:
    known = []
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        with serving(model, "--drift-folder", str(tmp_path)) as server:
            known.append(server.site.ask("/v1/drift").json)
            server.site.predict(rows=rows[:20])
            while server.site.ask("/v1/drift").json["n_waiting"]:
                time.sleep(0.05)
            server.end(number)
    assert [each["n_compared"] for each in known[:2]] == [0, 20]
    assert known[2]["n_compared"] in (20, 40)  # what was compared since the file was written is lost
    assert len({each["started"] for each in known}) == 1


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/batch"])
@pytest.mark.parametrize("announced", [True, False])
def test_a_huge_body_is_refused_in_little_memory(model: Path, path: str, announced: bool) -> None:
    part, n_parts = b"1,2,3,4\n" * 125_000, 300  # 1 MB, 300 MB
    with serving(model) as server:
        server.site.predict(rows=[{}])
        server.site.ask(path, make_fruit(3)[0].to_csv(index=False).encode(), content_type="text/csv")
        before = server.memory()
        host, port = urlsplit(server.site.url).netloc.split(":")
        length = f"Content-Length: {len(part) * n_parts}" if announced else "Transfer-Encoding: chunked"
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n{length}\r\n\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode())
            for _ in range(n_parts):
                connection.sendall(part if announced else b"%x\r\n%s\r\n" % (len(part), part))
            if not announced:
                connection.sendall(b"0\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")
        grown = server.memory() - before
        print(f"{path}: {grown} MB more")
        assert grown < 20
        assert server.site.predict(rows=[{}]).status == 200


def test_fuzzed_requests(model: Path, rows: Rows, tmp_path: Path) -> None:
    """What they take for each byte that is sent; `python -m benchmarks.fuzz` sends many more."""
    images = tmp_path / "digits.model"
    fitted("images").save(images)
    server = fuzz.Server([f"fruit={model}", f"digits={images}"], tmp_path / "log")
    random_ = random.Random(0)
    try:
        for _ in range(50):
            server.shout(fuzz.shouted(random_))
        asked = Asked(tuple(rows), ("fruit",), ("digits",))
        worst, wrong = fuzz.send(server, asked, random_, 1_000)
        statuses = server.statuses()
        code, log = server.end()
    finally:
        server.process.kill()
    print(*(most.row(kind) for kind, most in worst.items()), statuses, sep="\n")
    assert not wrong
    assert (code, log.count("Traceback"), max(statuses) < 500) == (0, 0, True)
    assert len(log) < 100_000
    assert all(most.n_requests for most in worst.values())
    assert statuses[200] > 50
    assert statuses[422] > 200


def test_requests_made_up_by_schemathesis(model: Path) -> None:
    pytest.importorskip("schemathesis")
    with serving(model) as server:
        command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.site.url}/openapi.json"]
        options = ["--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing", "--max-examples", "60"]
        end = subprocess.run(
            [*command, *options, "--seed", "0", "--suppress-health-check", "all"],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        print(end.stdout[-2000:])
        assert end.returncode == 0, end.stdout[-4000:] + end.stderr[-2000:]
        code, output, errors = server.end()
    assert code == 0
    assert int(output.split()[3]) > 500
    assert "Traceback" not in errors
