"""Requests at once, answered together and one by one, and watched for drift or not: ``python -m benchmarks.serve``.

Serves a classifier on loopback, in a process of its own, and asks it from many clients at once. What counts is the
ratio: both servers and all clients share the same cores.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from sklearn.datasets import load_breast_cancer

from socratic import CircuitClassifier
from socratic.serve import Client


def rate(model: Path, rows: list[dict[str, float]], n_clients: int, n_each: int, *options: str) -> tuple[float, float]:
    """Requests a second, and the 99th percentile of their times divided by the median."""
    command = [sys.executable, "-m", "socratic", "serve", str(model), "--port", "0", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().split()[-1]
        while not Client(url).is_ready():
            time.sleep(0.05)
        start = threading.Barrier(n_clients)

        def ask(client: int) -> list[float]:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
            body = json.dumps({"rows": [rows[client % len(rows)]]}).encode()
            seconds = []
            start.wait()
            for _ in range(n_each):
                began = time.perf_counter()
                connection.request("POST", "/v1/predict", body, {"content-type": "application/json"})
                reply = connection.getresponse()
                reply.read()
                assert reply.status == 200
                seconds.append(time.perf_counter() - began)
            connection.close()
            return seconds

        with ThreadPoolExecutor(n_clients) as pool:
            list(pool.map(ask, range(n_clients)))  # once to warm up
            began = time.perf_counter()
            seconds = np.concatenate(list(pool.map(ask, range(n_clients))))
            total = time.perf_counter() - began
    finally:
        server.terminate()
        server.wait(60)
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    return len(seconds) / total, float(p99 / p50)


def main() -> None:
    """Print the rates, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=6, help="of each client")
    arguments = parser.parse_args()
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    rows = x.sample(200, random_state=0).to_dict("records")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "cells.model"
        CircuitClassifier(random_state=0).fit(x, y).save(model)
        asked = (model, rows, arguments.clients, arguments.requests)
        together, spread = rate(*asked)
        unwatched, _ = rate(*asked, "--drift-window", "0")
        alone, spread_alone = rate(*asked, "--rows-together", "1", "--wait-ms", "0")
    print(f"answered together: {together:.0f} requests/s, p99 {spread:.1f} times p50")
    print(f"one by one: {alone:.0f} requests/s, p99 {spread_alone:.1f} times p50")
    print(f"ratio: {together / alone:.1f}")
    print(f"together, not watched for drift: {unwatched:.0f} requests/s, {unwatched / together - 1.0:+.1%}")


if __name__ == "__main__":
    main()
