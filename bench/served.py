"""Ours end to end: `redrive serve --mail` with its defaults in one process, its clients in another.

The clients are threads of the measuring process with a connection and a tenant each. The gateway's log goes
to a file, one line a mail, as Postfix's does.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.load import BATCH, Figures, file_store, percentile
from bench.sink import Sink, smtp_sink
from bench.subject import make_app
from bench.waking import idle_gap_s
from redrive.office.access import Access, Role
from redrive.office.audit import Actor

CLIENTS = 4
TEXT_BYTES = 2_000
IDLE_MAILS = 200
_PATIENCE_S = 120.0
_LOOK_S = 0.005
_CLOSE_LOOK_S = 0.0003


@dataclass(frozen=True, slots=True)
class _Gateway:
    """A gateway that runs, and a key for each client."""

    address: str
    keys: Sequence[str]


def measure_throughput(folder: Path, mails: int) -> Figures:
    """Mails a second, from the first request to the last mail in the sink; and accepted a second."""
    requests = max(1, mails // BATCH // CLIENTS)
    wanted = requests * CLIENTS * BATCH
    body = json.dumps({"emails": [_mail(number) for number in range(BATCH)]}).encode()
    with smtp_sink(counter=folder / "count") as sink:
        with _gateway(folder, sink) as gateway, ThreadPoolExecutor(CLIENTS) as pool:
            began_s = time.perf_counter()
            submit = partial(_submit_batches, gateway.address, body, requests)
            accepted_s = max(pool.map(submit, gateway.keys))
            ended_s = sink.wait_for(wanted, patience_s=_PATIENCE_S, every_s=_LOOK_S)
        if sink.count() != wanted:
            raise RuntimeError(f"the sink has {sink.count():,} mails where {wanted:,} were submitted")
    return {
        "gateway end to end": wanted / (ended_s - began_s),
        "gateway accepted": wanted / (accepted_s - began_s),
    }


def measure_latency(folder: Path) -> Figures:
    """Milliseconds from before the request to the mail in the sink, one mail at a time, all else idle."""
    latencies: list[float] = []
    with smtp_sink(counter=folder / "count") as sink, _gateway(folder, sink) as gateway:
        connection = HTTPConnection(gateway.address, timeout=_PATIENCE_S)
        body = json.dumps(_mail(0)).encode()
        # The first mail opens the connection to the relay.
        for number in range(IDLE_MAILS + 1):
            time.sleep(idle_gap_s())
            began_s = time.perf_counter()
            _post(connection, "/v1/emails", gateway.keys[0], body)
            ended_s = sink.wait_for(number + 1, patience_s=_PATIENCE_S, every_s=_CLOSE_LOOK_S)
            latencies.append(1000 * (ended_s - began_s))
    return {f"hand-over p{share}": percentile(latencies[1:], share / 100) for share in (50, 95, 99)}


@contextmanager
def _gateway(folder: Path, sink: Sink) -> Iterator[_Gateway]:
    """The gateway in a process of its own, untouched by the configuration of whoever runs the bench."""
    file = folder / "gateway.db"
    keys = asyncio.run(_make_keys(file))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
    environment |= {"REDRIVE_STORE": f"sqlite:///{file}", "REDRIVE_MAIL": f"smtp://127.0.0.1:{sink.port}"}
    command = [sys.executable, "-m", "redrive", "serve", "--mail", "--json", "--listen", "127.0.0.1:0"]
    with (
        (folder / "gateway.log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            assert process.stdout is not None
            yield _Gateway(urlsplit(json.loads(process.stdout.readline())["url"]).netloc, keys)
        finally:
            process.terminate()


async def _make_keys(file: Path) -> list[str]:
    async with make_app(file_store(file)) as app:
        access = Access(app.store, Actor("bench", "bench"))
        return [(await access.create(Role.SUBMIT, f"tenant-{number}"))[1] for number in range(CLIENTS)]


def _mail(number: int) -> dict[str, Any]:
    return {
        "from": "Shop <orders@shop.example>",
        "to": [f"customer-{number}@customer.example"],
        "subject": f"Your order {number} is on its way",
        "text": ("It left our house today and will be with you soon.\n" * 40)[:TEXT_BYTES],
    }


def _submit_batches(address: str, body: bytes, requests: int, key: str) -> float:
    """Send the same batch again and again; the instant of the last answer."""
    connection = HTTPConnection(address, timeout=_PATIENCE_S)
    for _ in range(requests):
        _post(connection, "/v1/emails/batch", key, body)
    return time.perf_counter()


def _post(connection: HTTPConnection, path: str, key: str, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    said = answer.read()
    if answer.status != 202:
        raise RuntimeError(f"POST {path} was answered with {answer.status}: {said[:300].decode()}")
