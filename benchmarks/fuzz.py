"""Requests that nobody should send: ``python -m benchmarks.fuzz``.

Serves a classifier, an outlier detector and a density of a table, and a classifier of images, in one process on
loopback, and sends it 10,000 requests: those that schemathesis makes up from the OpenAPI document, requests that are
nearly right, and bytes that are no HTTP. Counts the replies as the server counts them, and its memory. Anything that is
the server's fault (5xx, a traceback in its log, a server that is gone) fails the run.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import io
import json
import platform
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from socratic.serve import Client

RESULTS = Path(__file__).parent / "results" / "fuzz.md"
Rows = list[dict[str, Any]]
_COUNTED = re.compile(
    r'^socratic_requests_total\{.*path="(?!/metrics|/readyz)[^"]*",status="(?P<status>\d+)"\} (?P<count>\S+)$',
    re.MULTILINE,
)
"""All but those that this program itself looks after the server with."""
_WARM = 500
"""Requests before memory is first looked at: libraries are loaded and pools filled by the first ones."""

VALUES: list[Any] = [
    *(None, True, 0, -1, 1e308, 10**30, "red", "", "NA", "\u0000", "\ud800", "<b>", [], [[]], {}, {"a": 1}, "x" * 5000)
]


class Request(NamedTuple):
    """What is sent."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


def mutated(document: Any, random_: random.Random) -> Any:
    """The same with something changed, dropped or added somewhere."""
    if isinstance(document, dict) and document and random_.random() < 0.8:
        key = random_.choice(list(document))
        if random_.random() < 0.15:
            return {**document, random_.choice(["", "extra", "rows", "\u2028"]): random_.choice(VALUES)}
        if random_.random() < 0.1:
            return {other: value for other, value in document.items() if other != key}
        return {**document, key: mutated(document[key], random_)}
    if isinstance(document, list) and document and random_.random() < 0.8:
        place = random_.randrange(len(document))
        return [*document[:place], mutated(document[place], random_), *document[place + 1 :]]
    return random_.choice(VALUES)


def damaged(content: bytes, random_: random.Random, share: float) -> bytes:
    """The same with about such a share of its bytes replaced."""
    return bytes(byte if random_.random() > share else random_.randrange(256) for byte in content)


def fuzzed(rows: Rows, random_: random.Random, tables: Sequence[str], images: Sequence[str] = ()) -> Request:
    """A request that is nearly right, or not at all.

    Parameters
    ----------
    rows : list of dict
        Some that could be answered.
    random_ : Random
    tables, images : sequence of str
        Models of tables with these columns, and of images of 8 x 8 pixels.
    """
    name, column = random_.choice(tables), next(iter(rows[0]))
    tensor = {"name": column, "datatype": "FP64", "shape": [2, 1], "data": [1.0, 2.0], "parameters": {}}
    documents: list[tuple[str, Any]] = [
        ("/v1/predict", {"model": name, "rows": rows[:2], "rejection_rate": 0.1, "doubt": "weights", "reasons": 1}),
        ("/v1/compare", {"model": name, "rows": rows[:1], "dropout": 0.2, "n_passes": 5}),
        (
            f"/v2/models/{name}/infer",
            {"id": "1", "inputs": [tensor], "outputs": [{"name": "label"}], "parameters": {"binary_data_output": True}},
        ),
    ]
    if images:
        pixels = [[random_.randrange(256) for _ in range(8)] for _ in range(8)]
        documents.append(("/v1/predict", {"model": random_.choice(images), "pixels": pixels, "heat": True}))
    path, document = random_.choice(documents)
    for _ in range(random_.randint(0, 3)):
        document = mutated(document, random_)
    body, headers = json.dumps(document).encode(), {"content-type": "application/json"}
    kind = random_.randrange(6)
    if kind == 0:
        query = random_.choice(
            [f"model={name}", f"model={name}&harmless=true", "explain=maybe", "prefix=%00", "risk=nan"]
        )
        path = f"/v1/predict/batch?{query}"
        headers = {"content-type": random_.choice(["text/csv", "application/x-parquet"])}
        body = damaged(_csv(rows[:3]), random_, random_.choice([0.0, 0.02]))
    elif kind == 1:
        body = random_.randbytes(random_.randrange(200))
    elif kind == 2:
        body = damaged(body, random_, 0.03)
        headers["inference-header-content-length"] = random_.choice(["0", "-1", "99999", "10", "x", "\u00b2"])
    elif kind == 3:
        path = "/" + "".join(random_.choice("abv12/.%_-?=&{}") for _ in range(random_.randrange(30)))
    return Request(random_.choice(["POST"] * 8 + ["GET", "PUT"]), path, body, headers)


def _csv(rows: Rows) -> bytes:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue().encode()


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
        while not Client(self.url).is_ready():
            time.sleep(0.05)

    def ask(self, request: Request) -> int | None:
        """The status of a reply; None if this is nothing that can be asked."""
        try:
            self._connection.request(*request)
        except http.client.InvalidURL:
            return None
        reply = self._connection.getresponse()
        content = reply.read()
        assert reply.status < 500, (request, content)
        assert b"Traceback" not in content, (request, content)
        return reply.status

    def shout(self, content: bytes) -> None:
        """Send bytes that are no HTTP; the server may answer or not."""
        host, _, port = self.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

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

    def end(self) -> tuple[int, str]:
        """Let it finish; its exit code and its log."""
        self._connection.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        return code, self._log.read_text()


def serve(folder: Path) -> tuple[Server, Rows]:
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
    return Server(given, folder / "log"), x.sample(20, random_state=0).to_dict("records")


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
    parser.add_argument("--requests", type=int, default=10_000, help="in all, at least")
    parser.add_argument("--examples", type=int, default=200, help="that schemathesis makes up for each path")
    parser.add_argument("--shouts", type=int, default=1_000, help="connections with bytes that are no HTTP")
    given = parser.parse_args()
    random_ = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        server, rows = serve(Path(folder))
        try:
            began = time.monotonic()
            asked = (rows, random_, ("irises", "odd", "density"), ("digits",))
            for _ in range(_WARM):
                server.ask(fuzzed(*asked))
            (before, _), n_before = server.memory(), server.statuses().total()
            make_up(server, given.examples)
            n_made_up = server.statuses().total() - n_before
            halfway, _ = server.memory()
            for _ in range(given.shouts):
                server.shout(random_.randbytes(random_.randrange(1, 2000)))
            since = []
            while server.statuses().total() < given.requests:
                for _ in range(100):
                    server.ask(fuzzed(*asked))
                since.append(server.memory()[0])
            statuses, (_, most), seconds = server.statuses(), server.memory(), time.monotonic() - began
            code, log = server.end()
        finally:
            if server.process.poll() is None:
                server.process.kill()
    faults = sum(count for status, count in statuses.items() if status >= 500) + log.count("Traceback")
    quarters = [f"{since[len(since) * quarter // 4 - 1]:.0f}" for quarter in (1, 2, 3, 4)]
    lines = [
        f"| {what} | {count} |"
        for what, count in {
            "requests": f"{statuses.total():,}",
            "of them made up by schemathesis": f"{n_made_up:,}",
            "connections with other bytes": f"{given.shouts:,}",
            **{f"replies {status}": f"{count:,}" for status, count in sorted(statuses.items())},
            "faults (5xx, tracebacks)": f"{faults}",
            f"memory after {_WARM} requests": f"{before:.0f} MB",
            "after schemathesis": f"{halfway:.0f} MB",
            "after each quarter of the others": f"{', '.join(quarters)} MB",
            "the most": f"{most:.0f} MB",
            "seconds": f"{seconds:.0f}",
        }.items()
    ]
    table = "\n".join(["| what | how many |", "| --- | --- |", *lines])
    print(table)
    assert (code, faults) == (0, 0), log[-4000:]
    said = f"# Requests that nobody should send\n\n`python -m benchmarks.fuzz`, Python {platform.python_version()}."
    RESULTS.write_text(f"{said}\n\n{table}\n")


if __name__ == "__main__":
    main()
