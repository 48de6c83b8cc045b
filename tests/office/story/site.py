"""The place of the story: a folder with the shop in it, a store, and real processes that work on both."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from redrive import Redrive, Submission
from redrive.core.letters import Account
from redrive.core.lifecycle import State
from redrive.core.ports import PAGE
from tests.office.desks import desk
from tests.office.story import shop
from tests.programs import PIPE, STDOUT, Program, run
from tests.waiting import wait_until

TENANTS = tuple(f"tenant{number:02d}" for number in range(12))
CAUSES = (*["relay"] * 8, *["mailbox"] * 5, *["template"] * 3, *["policy"] * 2, *["recipient"] * 2)
"""Of twenty orders: so many die for each cause."""

_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One line of the shop's ledger."""

    id: str
    generation: int
    attempt: int
    sent: bool


class Site:
    """The folder, the store's address, and what the test sees behind the operator's back.

    `source` is the app, there as shop.py; `more` are further variables of its processes.
    """

    def __init__(self, folder: Path, url: str, source: str = shop.__file__) -> None:
        self.folder = folder
        self.url = url
        self.more: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.app = Redrive(url)
        self._processes: list[Program] = []
        shutil.copy(source, folder / "shop.py")

    def start(self, *arguments: str) -> Program:
        """A command that runs beside the test; its errors go to a file."""
        with (self.folder / f"{arguments[0]}.log").open("a") as log:
            process = Program(["redrive", *arguments], cwd=self.folder, env=self._environment(), stderr=log)
        self._processes.append(process)
        return process

    async def finish(self, *arguments: str, merged: bool = False) -> CompletedProcess[str]:
        """A command, run to its end; `merged`: both outputs in one, as on a terminal."""
        return await asyncio.to_thread(
            run,
            ["redrive", *arguments],
            cwd=self.folder,
            env=self._environment(),
            stderr=STDOUT if merged else PIPE,
            timeout=_PATIENCE_S,
        )

    def stop(self) -> None:
        """Kill whatever runs."""
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.communicate()

    async def bury(self, count: int) -> None:
        """So many orders of twelve tenants are accepted and die, each for its cause."""
        orders = [{"number": number, "cause": CAUSES[number % len(CAUSES)]} for number in range(count)]
        for start in range(0, count, PAGE):
            some = orders[start : start + PAGE]
            receipts = await self.app.submit_many(shop.QUEUE, [Submission(one, _tenant(one)) for one in some])
            self.causes |= {one.id: str(order["cause"]) for one, order in zip(receipts, some, strict=True)}
        await self.wait_until(lambda: self._are_dead(count), f"{count} are dead")

    def mend(self, *causes: str) -> None:
        """From now on the shop does not fail for these."""
        part = self.folder / "mended.part"
        part.write_text("\n".join(causes))
        part.rename(self.folder / "mended")

    def ids(self, *causes: str) -> set[str]:
        """The orders that died for one of these causes."""
        return {one for one, cause in self.causes.items() if cause in causes}

    async def accounts(self) -> dict[str, Account]:
        """Every order as the store has it now."""
        ids = list(self.causes)
        found: dict[str, Account] = {}
        for start in range(0, len(ids), PAGE):
            page = await self.app.store.accounts(shop.QUEUE, ids[start : start + PAGE])
            found |= {one.message.id: one for one in page}
        return found

    async def states(self) -> Counter[tuple[State, int]]:
        """How many orders are in each state and generation."""
        accounts = await self.accounts()
        return Counter((one.state, one.progress.generation) for one in accounts.values())

    async def operations(self) -> set[str]:
        """The ids of all operations there are."""
        return {one.operation.id for one in (await desk(self.app.store).list()).found}

    def attempts(self) -> list[Attempt]:
        """What the handlers were given, in order."""
        rows = [line.split() for line in (self.folder / "attempts").read_text().splitlines()]
        return [Attempt(row[0], int(row[1]), int(row[2]), row[3] == "sent") for row in rows]

    async def wait_until(self, condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
        await wait_until(condition, _PATIENCE_S, what)

    async def _are_dead(self, count: int) -> bool:
        return sum([one.dlq for one in await self.app.store.queues()]) == count

    def _environment(self) -> dict[str, str]:
        ours = {name: text for name, text in os.environ.items() if not name.startswith("REDRIVE_")}
        return {**ours, "REDRIVE_STORE": self.url, "COLUMNS": "110", **self.more}


@asynccontextmanager
async def open_site(folder: Path, url: str, source: str = shop.__file__) -> AsyncIterator[Site]:
    """A site whose processes end with it."""
    site = Site(folder, url, source)
    try:
        async with site.app:
            yield site
    finally:
        site.stop()


def first_document(process: Program) -> Any:
    """The JSON document that a command prints when it has begun."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _tenant(order: dict[str, Any]) -> str:
    """Every cause hits every tenant, given enough orders."""
    number = int(order["number"])
    return TENANTS[(number + number // len(CAUSES)) % len(TENANTS)]
