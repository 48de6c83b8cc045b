"""Submits under load and writes down what it asked and what it was told.

`asked` is written before each submit and `accepted` only after it returned. A submit that the store could
not answer is repeated as the same message until it is answered, as the contract of `submit` says; started
again on the same ledger, the submitter may first repeat what an earlier one asked and never heard of.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from pathlib import Path
from typing import Protocol

import httpx
import msgspec

from redrive import Redrive
from redrive.core.errors import StoreFull, StoreUnavailable
from redrive.core.ports import Status
from redrive.engine.ids import new_id
from tests.faults.handlers import ATTEMPTS, ORDERS, PLAIN
from tests.faults.ledger import ACCEPTED, Ledger, Line, Plan, read_lines

_PAUSE_S = 0.05


class NotAnswered(Exception):
    """The other side did not say whether it has the message; `full`: it said that it has no room."""

    def __init__(self, full: bool) -> None:
        self.full = full
        super().__init__("full" if full else "no answer")


class Door(Protocol):
    """Where messages are handed in: the id under which one was accepted, or NotAnswered."""

    async def submit(self, asked: Line) -> str: ...


class AppDoor:
    """The app in this process."""

    def __init__(self, app: Redrive) -> None:
        self._app = app

    async def submit(self, asked: Line) -> str:
        tenant = f"tenant-{int((asked.dedupe or asked.id)[-2:], 16) % 5}"
        try:
            receipt = await self._app.submit(
                asked.note, asked.plan, tenant=tenant, dedupe=asked.dedupe, message_id=asked.id
            )
        except StoreUnavailable as error:
            raise NotAnswered(isinstance(error, StoreFull)) from error
        assert receipt.status in (Status.ACCEPTED, Status.DUPLICATE)
        return receipt.id


class HttpDoor:
    """The API of another process, with an idempotency key a message."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def submit(self, asked: Line) -> str:
        headers = {"Idempotency-Key": asked.dedupe or asked.id, "Content-Type": "application/json"}
        body = msgspec.json.encode({"payload": asked.plan})
        try:
            answer = await self._client.post(
                f"/v1/queues/{asked.note}/messages", content=body, headers=headers
            )
        except httpx.TransportError as error:
            raise NotAnswered(False) from error
        if answer.status_code == 503:
            raise NotAnswered("no room" in answer.text)
        assert answer.status_code == 202, answer.text
        accepted_id: str = answer.json()["id"]
        return accepted_id


class Submitter:
    """The load of one process."""

    def __init__(self, door: Door, folder: Path, options: argparse.Namespace) -> None:
        self._door = door
        self._path = folder / ACCEPTED
        self._ledger = Ledger(self._path)
        self._random = random.Random(options.seed)  # noqa: S311 - repeats a run
        self._pace_s: float = options.pace_s
        self._mild: bool = options.mild
        self._padding: str = "x" * options.padding
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
        plan = asked.plan and msgspec.structs.replace(asked.plan, padding=self._padding)
        sent = msgspec.structs.replace(asked, plan=plan)
        began_s = time.monotonic()
        while True:
            try:
                accepted_id = await self._door.submit(sent)
                break
            except NotAnswered as answer:
                self._ledger.write(Line(what="full" if answer.full else "unanswered", note=asked.id))
                await asyncio.sleep(_PAUSE_S)
        took_s = time.monotonic() - began_s
        self._ledger.write(
            msgspec.structs.replace(asked, what="accepted", id=accepted_id, note=asked.id, took_s=took_s)
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
