"""The program that the fault tests start, stop and kill: a worker, or a submitter.

Everything it needs comes by arguments. A submitter writes `asked` before each submit and `accepted` only
after it returned; started again on the same ledger, it may first repeat what was asked and never answered.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from pathlib import Path

import msgspec

from redrive import Receipt, Redrive
from redrive.config import load
from redrive.core.ports import Status
from redrive.engine.ids import new_id
from tests.faults.handlers import ATTEMPTS, ORDERS, PLAIN, serve
from tests.faults.ledger import ACCEPTED, HANDED, Ledger, Line, Plan, read_lines

STORE = "redrive.db"


def make_app(folder: Path, **flags: object) -> Redrive:
    """The app of a test's folder, whatever the environment of the machine says."""
    given = {"store": f"sqlite:///{folder}/{STORE}"} | flags
    return Redrive(settings=load(given, environ={}, folder=folder))


async def work(options: argparse.Namespace) -> None:
    """A real worker, until SIGTERM."""
    flags = {
        "worker.lease_s": options.lease_s,
        "worker.drain_s": options.drain_s,
        "worker.batch": options.batch,
        "worker.poll_s": options.poll_s,
    }
    app = make_app(options.folder, **flags)
    ledger = Ledger(options.folder / HANDED)
    serve(app, ledger, concurrency=options.concurrency, deadline_s=options.deadline_s)
    async with app:
        await app.run()


class Submitter:
    """Submits under load, and writes down what it asked and what it was told."""

    def __init__(self, app: Redrive, folder: Path, options: argparse.Namespace) -> None:
        self._app = app
        self._path = folder / ACCEPTED
        self._ledger = Ledger(self._path)
        self._random = random.Random(options.seed)  # noqa: S311 - repeats a run
        self._pace_s: float = options.pace_s
        self._mild: bool = options.mild
        self._dedupe: float = options.dedupe

    async def repeat(self) -> None:
        """Ask again what was never answered: by its id, or by its dedupe key under another id."""
        for line in unanswered(read_lines(self._path)):
            again = msgspec.structs.replace(line, id=line.id if line.dedupe is None else new_id())
            await self._submit(again)

    async def run(self, count: int) -> None:
        for _ in range(count):
            message_id = new_id()
            dedupe = f"key-{message_id}" if self._random.random() < self._dedupe else None
            queue = PLAIN if self._random.random() < 0.2 else ORDERS
            await self._submit(
                Line(what="asked", id=message_id, note=queue, plan=self._plan(), dedupe=dedupe)
            )
            await asyncio.sleep(self._pace_s)

    async def _submit(self, asked: Line) -> None:
        self._ledger.write(asked)
        began_s = time.monotonic()
        receipt: Receipt = await self._app.submit(
            asked.note,
            asked.plan,
            tenant=f"tenant-{int((asked.dedupe or asked.id)[-2:], 16) % 5}",
            dedupe=asked.dedupe,
            message_id=asked.id,
        )
        assert receipt.status in (Status.ACCEPTED, Status.DUPLICATE)
        took_s = time.monotonic() - began_s
        self._ledger.write(
            msgspec.structs.replace(asked, what="accepted", id=receipt.id, note=asked.id, took_s=took_s)
        )

    def _plan(self) -> Plan:
        work_s = self._random.choice((0.0, 0.002, 0.01))
        if self._mild:
            return Plan()
        match self._random.randrange(10):
            case 0:
                return Plan(work_s=work_s, permanent=1)
            case 1:
                return Plan(work_s=work_s, fails=ATTEMPTS + 1)
            case 2 | 3:
                return Plan(work_s=work_s, fails=self._random.randint(1, ATTEMPTS - 1))
        return Plan(work_s=work_s)


def unanswered(lines: list[Line]) -> list[Line]:
    """What was asked and neither accepted nor asked again under its key."""
    answered = {line.note for line in lines if line.what == "accepted"}
    answered |= {line.dedupe for line in lines if line.what == "accepted" and line.dedupe}
    asked = {line.dedupe or line.id: line for line in lines if line.what == "asked"}
    return [line for key, line in asked.items() if key not in answered and line.id not in answered]


async def submit(options: argparse.Namespace) -> None:
    """Several tasks that submit one message at a time."""
    async with make_app(options.folder) as app:
        submitter = Submitter(app, options.folder, options)
        if options.repeat:
            await submitter.repeat()
        async with asyncio.TaskGroup() as group:
            for _ in range(options.tasks):
                group.create_task(submitter.run(options.count // options.tasks))


def _spoil(options: argparse.Namespace) -> None:
    """Plants reach into the store's inside, so they are imported only where one is asked for."""
    if options.plant is None and options.die is None:
        return
    from tests.faults import plants

    if options.plant is not None:
        plants.plant(options.plant)
    if options.die is not None:
        plants.die(options.die)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=("work", "submit"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die", default=None, help="verb to be killed at, as before:settle:2")
    parser.add_argument("--plant", default=None, help="a bug of plants.py")
    parser.add_argument("--lease_s", type=float, default=1.0)
    parser.add_argument("--drain_s", type=float, default=10.0)
    parser.add_argument("--poll_s", type=float, default=1.0)
    parser.add_argument("--deadline_s", type=float, default=30.0)
    parser.add_argument("--concurrency", type=int, default=5)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--pace_s", type=float, default=0.0)
    parser.add_argument("--dedupe", type=float, default=0.3, help="share of messages with a key")
    parser.add_argument("--repeat", action="store_true", help="first ask again what was never answered")
    parser.add_argument("--mild", action="store_true", help="plans that neither fail nor take time")
    options = parser.parse_args()
    _spoil(options)
    asyncio.run(work(options) if options.program == "work" else submit(options))


if __name__ == "__main__":
    main()
