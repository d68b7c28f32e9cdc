"""Running a server: from model files to requests that are answered, until it is told to end."""

from __future__ import annotations

import gc
import socket
from collections.abc import Sequence
from contextlib import suppress

import uvicorn

from socratic.serve.app import create_app
from socratic.serve.logs import begin_log
from socratic.serve.model import ServedModel
from socratic.serve.protocol import WAITING, Bounded
from socratic.serve.settings import Settings


def serve(models: Sequence[ServedModel], settings: Settings) -> None:
    """Answer requests until a signal ends it, and then finish those that were accepted.

    Parameters
    ----------
    models : sequence of ServedModel
    settings : Settings
    """
    begin_log()
    gc.freeze()  # models and libraries stay: what is left when requests are forgotten is looked for beside them
    app = create_app(models, settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(max(settings.seconds, settings.table_seconds)) + 1,
            ws="none",
            http=Bounded,
            backlog=WAITING,
        )
    )
    sock = listening(settings)
    names = ", ".join(model.name for model in models)
    print(f"serving {names} at {address(settings, sock.getsockname()[1])}", flush=True)
    with suppress(KeyboardInterrupt):  # uvicorn has ended in order, and then passes on the signal
        server.run(sockets=[sock])
    print(f"ended, having answered {app.metrics.n_requests()} requests", flush=True)


def address(settings: Settings, port: int) -> str:
    """Where a server is to be reached."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{port}"


def listening(settings: Settings) -> socket.socket:
    """A socket that listens; raises ``ValueError`` if the address cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named, connections send what they have at once: without, replies may wait 40 ms for the client.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
        sock.listen()  # of two servers that start at once, one is told now
    except OSError as error:
        sock.close()
        raise ValueError(
            f"cannot listen on {address(settings, settings.port)}: {error.strerror or error}; choose another one"
        ) from None
    return sock
