"""docs/runbook.md: every command is run on a store prepared for its scenario, and answers as shown."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from redrive.mailbox import Mailbox
from tests.docs import runbook_shop, stores
from tests.docs.playing import Player, scenarios
from tests.office.story.site import Site, open_site
from tests.servers import RedisServer, ask, start_redis

PAGE = Path(__file__).parents[2] / "docs/runbook.md"
SCENARIOS = scenarios(PAGE)

Place = Callable[[Path], AbstractAsyncContextManager[Player]]


def prepared(fill: Callable[[Site], Awaitable[None]], *loose: str) -> Place:
    """A SQLite store that `fill` fills; numbers in lines that begin `loose` may differ."""

    @asynccontextmanager
    async def place(folder: Path) -> AsyncIterator[Player]:
        async with _site(folder, f"sqlite:///{folder}/redrive.db") as site:
            await fill(site)

            async def release() -> None:
                (folder / "released").touch()
                await site.wait_until(lambda: stores.are_done(site.app.store, 49), "all are done")

            yield Player(_shell(site), {"the slow orders end": release}, loose)

    return place


@asynccontextmanager
async def without_relay(folder: Path) -> AsyncIterator[Player]:
    """A mail gateway whose relay is away, and comes back; some mail may just be trying it again."""
    relay = Mailbox()
    async with _site(folder, f"sqlite:///{folder}/redrive.db") as site:
        await stores.lose_relay(site, relay)

        async def answer() -> None:
            await relay.open()
            await site.wait_until(lambda: stores.are_done(site.app.store, 12), "the waiting mails are sent")

        yield Player(_shell(site), {"the relay answers again": answer}, ("email:send", *stores.TENANTS))
    await relay.close()


@asynccontextmanager
async def full_redis(folder: Path) -> AsyncIterator[Player]:
    """A Redis server of its own that is at 93 % of its memory."""
    server = start_redis(folder)
    try:
        async with _site(folder, server.url) as site:
            await stores.age(site.app.store)
            used = int(ask(server.port, "INFO", "memory").split(b"used_memory:")[1].split(b"\r\n")[0])
            ask(server.port, "CONFIG", "SET", "maxmemory", str(round(used / 0.93)))
            yield Player(_shell(site, server))
    finally:
        server.stop()


PLACES: dict[str, Place] = {
    "The dead-letter queue grows fast": prepared(stores.grow),
    "Redis is near its memory limit": full_redis,
    "A tenant monopolises the queue": prepared(stores.monopolise, "globex"),
    "The relay is down": without_relay,
    "A poison storm": prepared(stores.storm),
    "A tenant floods the queue": prepared(stores.flood, "initech", "email:send"),
}


def test_there_is_a_prepared_store_for_every_scenario() -> None:
    assert SCENARIOS.keys() == PLACES.keys()


@pytest.mark.parametrize("scenario", PLACES)
async def test_every_command_answers_as_the_page_shows(scenario: str, tmp_path: Path) -> None:
    async with PLACES[scenario](tmp_path) as player:
        await player.play(SCENARIOS[scenario])


def _site(folder: Path, url: str) -> AbstractAsyncContextManager[Site]:
    return open_site(folder, url, runbook_shop.__file__)


def _shell(site: Site, server: RedisServer | None = None) -> Callable[[str], Awaitable[str]]:
    """Runs a line of the page: `redrive`, or `redis-cli` on the test's own server."""

    async def run(command: str) -> str:
        program, *words = shlex.split(command)
        if program == "redrive":
            return (await site.finish(*words, merged=True)).stdout
        assert program == "redis-cli"
        assert server is not None
        line = [program, "-p", str(server.port), *words]
        ended = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, check=True)
        return ended.stdout

    return run
