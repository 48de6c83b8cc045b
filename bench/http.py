"""How fast mails are accepted over HTTP, one at a time from 32 clients, against a route that only validates.

Each server runs in a process of its own: ours with key, checks, rendering and the durable write; the other
a FastAPI route with a pydantic model of the same body. The clients are as thin as they can be and share the
machine with the server, so both figures are of the pair.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.goals import AtLeast, Goal
from bench.load import Conditions, Figures, file_store
from bench.report import report
from bench.subject import make_app

CLIENTS = 32
RECIPIENTS = 4_096
TURNS = 7
TEXT_BYTES = 2_000
MAIL = {
    "from": "Shop <orders@shop.example>",
    "to": ["Ana <ana@customer.example>"],
    "subject": "Your order 4711 is on its way",
    "text": "It left our house today and will be with you soon.\n" * (TEXT_BYTES // 51),
    "headers": {"X-Order": "4711"},
    "tags": ["order"],
}
GOALS = (
    Goal(
        "POST /v1/emails from 32 clients, against a route that only validates",
        "http ours",
        "/s",
        AtLeast(0.7, ("http validating only",), floor=0.6),
    ),
    Goal("peer: a FastAPI route that only validates", "http validating only", "/s"),
)
_SERVERS = ("ours", "validating only")


def run(arguments: Sequence[str]) -> int:
    """Measure, judge, print."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=options.folder or Path.cwd()) as made:
        figures = measure(Conditions(Path(made), Path(made), options.seconds))
    print(report(GOALS, {name: [value] for name, value in figures.items()}, as_json=options.json))
    return 0


def measure(conditions: Conditions) -> Figures:
    """Requests a second of each server: the median of short turns, a neighbour's load on both alike."""
    rates: dict[str, list[float]] = {name: [] for name in _SERVERS}
    with contextlib.ExitStack() as stack:
        places = {name: stack.enter_context(_serving(name, conditions.folder)) for name in _SERVERS}
        for _ in range(TURNS):
            for name, (port, key) in places.items():
                rates[name].append(asyncio.run(_load(port, key, conditions.seconds / TURNS)))
    return {f"http {name}": statistics.median(found) for name, found in rates.items()}


@contextlib.contextmanager
def _serving(name: str, folder: Path) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "bench.http", name, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        port, key = json.loads(server.stdout.readline())
        try:
            yield port, key
        finally:
            server.stdin.close()


class _Client(asyncio.Protocol):
    """Sends one request, and the next when it is answered; counts those answered with 202."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.count = 0
        self.ended = asyncio.get_running_loop().create_future()
        self.going = True
        self._requests = requests
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"}"):
            return
        assert self._received.startswith(b"HTTP/1.1 202 "), self._received
        self._received = b""
        self.count += 1
        if self.going:
            self._transport.write(next(self._requests))
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _load(port: int, key: str, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    requests = itertools.cycle([_request(key, number) for number in range(RECIPIENTS)])
    connecting = [
        loop.create_connection(lambda: _Client(requests), "127.0.0.1", port) for _ in range(CLIENTS)
    ]
    clients = [client for _, client in await asyncio.gather(*connecting)]
    await asyncio.sleep(seconds / 4)
    before, began_s = sum(client.count for client in clients), time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (sum(client.count for client in clients) - before) / (time.perf_counter() - began_s)
    for client in clients:
        client.going = False
    await asyncio.gather(*(client.ended for client in clients))
    return rate


def _request(key: str, number: int) -> bytes:
    """One mail; the next ones are to others."""
    body = json.dumps(MAIL | {"to": [f"Ana <ana.{number}@customer.example>"]}).encode()
    head = (
        "POST /v1/emails HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _serve_ours(folder: Path) -> None:
    from redrive.core.limits import Rate
    from redrive.office.access import Access, Role
    from redrive.office.audit import Actor
    from redrive.web.access import Rates
    from redrive.web.server import serve

    async with make_app(file_store(folder / "http.db")) as app:
        _, key = await Access(app.store, Actor("bench", "bench")).create(Role.SUBMIT, "acme")
        rates = Rates(a_key=Rate(10**9, 60.0))
        async with serve(app, "127.0.0.1:0", mail=app.mail, rates=rates) as server:
            await _until_closed(int(server.url.rpartition(":")[2]), key)


async def _serve_validating() -> None:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel, Field

    class Mail(BaseModel):
        sender: str = Field(alias="from")
        to: str | list[str] = []
        cc: str | list[str] = []
        bcc: str | list[str] = []
        subject: str = ""
        text: str | None = None
        html: str | None = None
        headers: dict[str, str] = {}
        tags: list[str] = []
        ttl: float | None = None

    api = FastAPI()

    async def submit(mail: Mail) -> dict[str, Any]:
        return {"id": "01890000-0000-7000-8000-000000000000", "status": "accepted", "recipients": mail.to}

    submit.__annotations__["mail"] = Mail
    api.post("/v1/emails", status_code=202)(submit)
    config = uvicorn.Config(api, http="httptools", log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(CLIENTS)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        await _until_closed(bound.getsockname()[1], "none")
        server.should_exit = True
        await serving


async def _until_closed(port: int, key: str) -> None:
    """Tell where the server listens, and return when nobody holds our standard input any more."""
    print(json.dumps([port, key]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="script/bench http", description="One mail a request, 32 clients.")
    parser.add_argument("--seconds", type=float, default=7.0, help="how long each server is loaded (7)")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure (the working folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    if sys.argv[1:2] == ["ours"]:
        asyncio.run(_serve_ours(Path(sys.argv[2])))
    else:
        asyncio.run(_serve_validating())
