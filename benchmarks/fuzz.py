"""Requests that nobody should send: ``python -m benchmarks.fuzz``.

Serves a classifier, an outlier detector and a density of a table, and a classifier of images, in one process on
loopback, and sends it 20,000 requests: those of :mod:`benchmarks.fuzz_requests`, those that schemathesis makes up from
the OpenAPI document where it is installed, and connections with other bytes. Each has a budget of memory, processor
time and delay of other requests, for itself and for each byte that is sent. Whatever goes beyond it fails the run, and
so does what is the server's fault (5xx, a traceback in its log, a server that is gone).
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import os
import platform
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

from benchmarks.fuzz_requests import MAKERS, Asked, Request, fuzzed
from socratic.serve import Client

RESULTS = Path(__file__).parent / "results" / "fuzz.md"
_COUNTED = re.compile(
    r'^socratic_requests_total\{.*path="(?!/metrics|/readyz)[^"]*",status="(?P<status>\d+)"\} (?P<count>\S+)$',
    re.MULTILINE,
)
"""All but those that this program itself looks after the server with."""
_WARM = 500
"""Requests before memory is first looked at: libraries are loaded and pools filled by the first ones."""


class Cost(NamedTuple):
    """What a request takes.

    Attributes
    ----------
    megabytes : float
        Beyond what the process has before.
    seconds : float
        Of all processors.
    delay : float
        Seconds that another request waits for its reply meanwhile.
    """

    megabytes: float
    seconds: float
    delay: float


ONCE, EACH_MEGABYTE = Cost(500.0, 3.0, 3.0), Cost(50.0, 2.0, 1.0)
"""The budget of a request, and what it has more for each million bytes of its body."""


def budget(n_bytes: int) -> Cost:
    """What a request of that many bytes may take."""
    return Cost(*(once + n_bytes / 1e6 * each for once, each in zip(ONCE, EACH_MEGABYTE, strict=True)))


class Worst:
    """The most that requests of one kind took, and how many bytes were sent with those."""

    def __init__(self) -> None:
        self.n_requests, self.n_bytes, self.longest = 0, 0, 0
        self.costs = [(0.0, 0)] * len(Cost._fields)

    def add(self, n_bytes: int, cost: Cost) -> None:
        """Count a request."""
        self.n_requests, self.n_bytes = self.n_requests + 1, self.n_bytes + n_bytes
        self.longest = max(self.longest, n_bytes)
        self.costs = [max(most, (each, n_bytes)) for most, each in zip(self.costs, cost, strict=True)]

    def row(self, kind: str) -> str:
        """A row of a table of kinds."""
        said = (
            f"{most:,.2f} ({n_bytes:,})" if most < 10 else f"{most:,.0f} ({n_bytes:,})" for most, n_bytes in self.costs
        )
        return f"| {kind} | {self.n_requests:,} | {self.n_bytes:,} | {self.longest:,} | {' | '.join(said)} |"


class Server:
    """A process of ``socratic serve`` that is asked what it should not be."""

    def __init__(self, models: Sequence[str], log: Path) -> None:
        command = [sys.executable, "-m", "socratic", "serve", *models, "--port", "0"]
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]
        self.address = urlsplit(self.url).netloc
        self._connection = http.client.HTTPConnection(self.address, timeout=60)
        self._delay = 0.0
        while not Client(self.url).is_ready():
            time.sleep(0.05)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Find out how long others wait, all the time."""
        ended = threading.Event()

        def watch() -> None:
            connection = http.client.HTTPConnection(self.address, timeout=60)
            while not ended.wait(0.02):
                began = time.monotonic()
                connection.request("GET", "/readyz")
                connection.getresponse().read()
                self._delay = max(self._delay, time.monotonic() - began)
            connection.close()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def ask(self, request: Request) -> int | None:
        """The status of a reply; None if this is nothing that can be asked."""
        for _ in range(2):
            try:
                self._connection.request(*request)
                reply = self._connection.getresponse()
                break
            except http.client.InvalidURL:
                return None
            except ConnectionError:  # it was idle for longer than the server waits
                self._connection.close()
        content = reply.read()
        said = (*request[:2], request.body[:300], {name: value[:99] for name, value in request.headers.items()})
        assert reply.status < 500, (said, content)
        assert b"Traceback" not in content, (said, content)
        assert b"/src/" not in content, (said, content)
        return reply.status

    def cost_of(self, request: Request) -> Cost:
        """Ask, and say what that took."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the most memory is counted from now on
        self._delay = 0.0
        before, seconds = self.memory()[0], self.seconds()
        self.ask(request)
        return Cost(self.memory()[1] - before, self.seconds() - seconds, self._delay)

    def shout(self, content: bytes) -> None:
        """Send bytes that are no HTTP; the server may answer or not."""
        host, _, port = self.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            try:
                for part in (content[: len(content) // 2], content[len(content) // 2 :]):
                    connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:  # it has heard enough
                pass

    def reconnect(self) -> None:
        """Forget a reply that did not come to its end."""
        self._connection.close()

    def statuses(self) -> Counter[int]:
        """Replies so far by their status, as the server counts them."""
        self._connection.close()  # it may have been idle for longer than the server waits
        self._connection.request("GET", "/metrics")
        said = self._connection.getresponse().read().decode()
        counts: Counter[int] = Counter()
        for line in _COUNTED.finditer(said):
            counts[int(line["status"])] += int(float(line["count"]))
        return counts

    def memory(self) -> tuple[float, float]:
        """What it has, and the most that it has had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", status, re.MULTILINE))
        return int(found["VmRSS"]) / 1000, int(found["VmHWM"]) / 1000

    def seconds(self) -> float:
        """What it has computed so far."""
        said = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> tuple[int, str]:
        """Let it finish; its exit code and its log."""
        self._connection.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code, self._log.read_text()


def send(server: Server, asked: Asked, random_: random.Random, n_requests: int) -> tuple[dict[str, Worst], list[str]]:
    """Send requests of all kinds; the most that they took, by kind, and what was wrong with any of them."""
    worst: dict[str, Worst] = {kind: Worst() for kind in MAKERS}
    wrong = []
    with server.watched():
        for _ in range(n_requests):
            kind, request = fuzzed(asked, random_)
            n_bytes = len(request.body)
            try:
                cost = server.cost_of(request)
            except (AssertionError, OSError) as error:
                wrong.append(f"{error!r}: {request.method} {request.path} {n_bytes} {request.body[:300]!r}")
                server.reconnect()
                continue
            worst[kind].add(n_bytes, cost)
            if any(each > most for each, most in zip(cost, budget(n_bytes), strict=True)):
                wrong.append(f"{cost} for {n_bytes} bytes: {request.method} {request.path} {request.body[:300]!r}")
    return worst, wrong


def shouted(random_: random.Random) -> bytes:
    """Bytes that are no HTTP, or too much of it."""
    n = round(10 ** random_.uniform(1.0, 5.3))
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\n"
    return random_.choice(
        [
            random_.randbytes(n % 2_000),
            b"GET /" + b"a" * n,
            head + b"X: " + b"a" * n + b"\r\n\r\n",
            head + b"".join(b"X%d: a\r\n" % place for place in range(n // 8)) + b"\r\n",
            head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * (n // 6) + b"0\r\nX: " + b"a" * n,
            head + b"Content-Length: " + b"9" * (n % 5_000) + b"\r\n\r\n{}",
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * (n // 45),
        ]
    )


def serve(folder: Path) -> tuple[Server, Asked]:
    """A server of four models, and rows that could be answered."""
    from sklearn.datasets import load_digits, load_iris

    from socratic import CircuitClassifier, CircuitDensity, CircuitImageClassifier, CircuitOutlierDetector

    x, y = load_iris(return_X_y=True, as_frame=True)
    x["garden"] = np.where(np.arange(len(x)) % 3, "north", "south")
    images, labels = load_digits(return_X_y=True)
    pixels = (images.reshape(-1, 8, 8) * 15.9).astype(np.uint8)
    models = {
        "irises": CircuitClassifier(random_state=0).fit(x, y),
        "odd": CircuitOutlierDetector(random_state=0).fit(x),
        "density": CircuitDensity(n_epochs=3, random_state=0).fit(x),
        "digits": CircuitImageClassifier(n_epochs=1, n_sums=4, random_state=0).fit(pixels[:500], labels[:500]),
    }
    for name, model in models.items():
        model.save(folder / name)
    given = [f"{name}={folder / name}" for name in models]
    rows = x.sample(20, random_state=0).to_dict("records")
    return Server(given, folder / "log"), Asked(rows, ("irises", "odd", "density"), ("digits",))


def make_up(server: Server, n_examples: int) -> None:
    """Let schemathesis send what the OpenAPI document makes it think of."""
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/openapi.json"]
    options = ["--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing"]
    more = ["--max-examples", str(n_examples), "--seed", "0", "--suppress-health-check", "all"]
    end = subprocess.run([*command, *options, *more], capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stdout[-4000:] + end.stderr[-2000:]


def main() -> None:
    """Send the requests, and keep what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=20_000, help="that are made up here")
    parser.add_argument("--examples", type=int, default=200, help="that schemathesis makes up for each path")
    parser.add_argument("--shouts", type=int, default=1_000, help="connections with other bytes")
    given = parser.parse_args()
    random_ = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        server, asked = serve(Path(folder))
        try:
            began = time.monotonic()
            _, early = send(server, asked, random_, _WARM)
            (before, _), n_before = server.memory(), server.statuses().total()
            if importlib.util.find_spec("schemathesis"):
                make_up(server, given.examples)
            n_made_up = server.statuses().total() - n_before
            for _ in range(given.shouts):
                server.shout(shouted(random_))
            worst, wrong = send(server, asked, random_, given.requests)
            statuses, (after, _), seconds = server.statuses(), server.memory(), time.monotonic() - began
            code, log = server.end()
        finally:
            if server.process.poll() is None:
                server.process.kill()
    faults = sum(count for status, count in statuses.items() if status >= 500) + log.count("Traceback")
    lines = [
        f"| {what} | {count} |"
        for what, count in {
            "replies": f"{statuses.total():,}",
            "of them to requests made up here": f"{given.requests:,}",
            "of them to what schemathesis made up": f"{n_made_up:,}",
            "connections with other bytes": f"{given.shouts:,}",
            **{f"replies {status}": f"{count:,}" for status, count in sorted(statuses.items())},
            "faults (5xx, tracebacks)": f"{faults}",
            "replies that were wrong, or beyond the budget": f"{len(early + wrong):,}",
            f"memory after {_WARM} requests": f"{before:.0f} MB",
            "after all": f"{after:.0f} MB",
            "log": f"{len(log):,} bytes",
            "seconds": f"{seconds:.0f}",
        }.items()
    ]
    allowed = " | ".join(f"{once:g} + {each:g} / MB" for once, each in zip(ONCE, EACH_MEGABYTE, strict=True))
    costs = [
        "| kind | requests | bytes in | longest | MB (bytes) | processor s (bytes) | delay of others, s (bytes) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(most.row(kind) for kind, most in worst.items()),
        f"| budget | | | | {allowed} |",
    ]
    command = " ".join(["python -m benchmarks.fuzz", *sys.argv[1:]])
    said = f"# Requests that nobody should send\n\n`{command}`, Python {platform.python_version()}."
    about = "The most that any request of a kind took, and in brackets how many bytes it had:"
    page = "\n".join([said, "", "| what | how many |", "| --- | --- |", *lines, "", about, "", *costs, ""])
    print(page)
    print(*(early + wrong), sep="\n", file=sys.stderr)
    assert (code, faults, early + wrong) == (0, 0, []), log[-4000:]
    RESULTS.write_text(page)


if __name__ == "__main__":
    main()
