"""The program that the fault tests start, stop and kill: a worker, a submitter, or the HTTP API.

Everything it needs comes by arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from redrive import Redrive
from redrive.core.limits import Rate
from redrive.engine.process import stop_on_signals
from redrive.office.operations import conductor
from redrive.wiring import load
from tests.faults.handlers import serve, tell_claims
from tests.faults.ledger import HANDED, Ledger, Line
from tests.faults.submitter import AppDoor, Door, HttpDoor, Submitter


def make_app(folder: Path, store: str, **flags: object) -> Redrive:
    """The app of a test's folder and store, whatever the environment of the machine says."""
    return Redrive(settings=load({"store": store} | flags, environ={}, folder=folder))


async def work(options: argparse.Namespace) -> None:
    """A real worker, until SIGTERM."""
    flags = {
        "worker.lease_s": options.lease_s,
        "worker.drain_s": options.drain_s,
        "worker.batch": options.batch,
        "worker.poll_s": options.poll_s,
        "worker.prefetch_s": options.prefetch_s,
    }
    conductor.LEASE_S = options.conductor_lease_s
    app = make_app(options.folder, options.store, **flags)
    ledger = Ledger(options.folder / HANDED)
    serve(app, ledger, concurrency=options.concurrency, deadline_s=options.deadline_s)
    async with app:
        tell_claims(app.store, ledger)
        await app.run()


async def answer(options: argparse.Namespace) -> None:
    """The HTTP API, until SIGTERM; what it alone needs is imported here, so that workers start quickly."""
    from redrive.web.access import Rates
    from redrive.web.server import serve as serve_api

    unlimited = Rate(1_000_000, 60.0)
    app = make_app(options.folder, options.store)
    ledger = Ledger(options.folder / HANDED)
    stop = asyncio.Event()
    async with app, serve_api(app, f"127.0.0.1:{options.port}", rates=Rates(unlimited, unlimited)):
        ledger.write(Line(what="started"))
        with stop_on_signals(stop.set):
            await stop.wait()


async def submit(options: argparse.Namespace) -> None:
    """Several tasks that submit one message at a time."""
    async with _door(options) as door:
        submitter = Submitter(door, options.folder, options)
        if options.repeat:
            await submitter.repeat()
        async with asyncio.TaskGroup() as group:
            for _ in range(options.tasks):
                group.create_task(submitter.run(options.count // options.tasks))


@asynccontextmanager
async def _door(options: argparse.Namespace) -> AsyncIterator[Door]:
    if options.key is None:
        async with make_app(options.folder, options.store) as app:
            yield AppDoor(app)
        return
    headers = {"Authorization": f"Bearer {options.key}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{options.port}", headers=headers) as client:
        yield HttpDoor(client)


def _spoil(options: argparse.Namespace) -> None:
    """Plants reach into the store's inside, so they are imported only where one is asked for."""
    if options.plant is None and options.die is None:
        return
    from tests.faults import plants

    bugs = plants.of_store(options.store)
    if options.plant is not None:
        bugs.plant(options.plant)
    if options.die is not None:
        bugs.die(options.die)


def set_clock(by_s: float) -> None:
    """The wall clock as a machine has it after somebody set it; uptime goes on as it did."""
    wall_ns, wall_s = time.time_ns, time.time
    time.time_ns = lambda: wall_ns() + round(by_s * 1e9)
    time.time = lambda: wall_s() + by_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("store")
    parser.add_argument("--die", default=None, help="verb to be killed at, as before:settle:2")
    parser.add_argument("--plant", default=None, help="a bug of plants.py")
    parser.add_argument("--lease_s", type=float, default=1.0)
    parser.add_argument("--conductor_lease_s", type=float, default=10.0)
    parser.add_argument("--drain_s", type=float, default=10.0)
    parser.add_argument("--poll_s", type=float, default=1.0)
    parser.add_argument("--prefetch_s", type=float, default=0.25)
    parser.add_argument("--deadline_s", type=float, default=30.0)
    parser.add_argument("--concurrency", type=int, default=5)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--pace_s", type=float, default=0.0)
    parser.add_argument("--dedupe", type=float, default=0.3, help="share of messages with a key")
    parser.add_argument("--padding", type=int, default=0, help="bytes that a message is longer than its plan")
    parser.add_argument("--repeat", action="store_true", help="first ask again what was never answered")
    parser.add_argument("--mild", action="store_true", help="plans that neither fail nor take time")
    parser.add_argument("--port", type=int, default=0, help="where the API listens")
    parser.add_argument("--key", default=None, help="submit to the API with this key")
    parser.add_argument("--wall_s", type=float, default=0.0, help="by how much SIGUSR1 sets the wall clock")
    parser.add_argument("--wall_set", action="store_true", help="it was set before this began")
    options = parser.parse_args()
    signal.signal(signal.SIGUSR1, lambda *_: set_clock(options.wall_s))
    if options.wall_set:
        set_clock(options.wall_s)
    _spoil(options)
    asyncio.run(PROGRAMS[options.program](options))


PROGRAMS = {"work": work, "submit": submit, "answer": answer}


if __name__ == "__main__":
    main()
