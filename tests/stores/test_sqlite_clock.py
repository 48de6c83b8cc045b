"""A machine whose clock is set while stores are open on a file, or between two of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from redrive.core.lifecycle import State
from redrive.core.message import Delivery, Lapse
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.clock import Machine, this_machine
from tests.conformance import makers
from tests.stores.redis_server import opened

QUEUE = makers.QUEUE
HOUR_MS = 3_600_000


@dataclass
class Time:
    """A machine's two clocks."""

    wall_ms: int = 1_800_000_000_000
    up_ms: int = 5_000_000
    boot: str | None = "first"

    def machine(self) -> Machine:
        return Machine(lambda: self.wall_ms, lambda: self.up_ms, self.boot)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.wall_ms += round(seconds * 1000)
        self.up_ms += round(seconds * 1000)

    def set_by(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self.wall_ms += round(seconds * 1000)

    def start_anew(self, boot: str | None = "second") -> None:
        self.up_ms, self.boot = 1_000, boot


class Site:
    """One file, opened again and again."""

    def __init__(self, path: Path, stack: AsyncExitStack) -> None:
        self.time = Time()
        self._path, self._stack = path, stack

    async def open(self) -> SqliteStore:
        store = SqliteStore(self._path, machine=self.time.machine())
        return await self._stack.enter_async_context(opened(store))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        yield Site(tmp_path / "redrive.db", stack)


async def reclaim(store: SqliteStore) -> list[Delivery]:
    return await store.reclaim(QUEUE, makers.new_token(), 30.0, 100)


async def test_a_clock_set_forward_ends_no_lease(site: Site) -> None:
    store, other = await site.open(), await site.open()
    await makers.submit(store)
    held = await makers.take_one(store)
    site.time.set_by(3_600)
    assert await reclaim(other) == []
    assert await reclaim(await site.open()) == [], "nor for one that has not seen it"
    site.time.wait(20)
    assert await store.extend([held.lease], 30.0) == set()
    site.time.wait(29)
    assert await reclaim(other) == []
    assert await makers.complete(store, held) == set()


@pytest.mark.parametrize("seconds", [-3_600, 3_600])
async def test_the_lease_of_a_dead_worker_ends_in_time_though_the_clock_was_set(
    site: Site, seconds: int
) -> None:
    store, other = await site.open(), await site.open()
    (message_id,) = await makers.submit(store)
    await makers.take_one(store)
    site.time.set_by(seconds)
    site.time.wait(29)
    assert await reclaim(other) == []
    site.time.wait(2)
    (lost,) = await reclaim(other)
    assert (lost.message.id, lost.lapse) == (message_id, Lapse.LOST)


async def test_what_is_due_stays_due_when_the_clock_is_set_back(site: Site) -> None:
    store, other = await site.open(), await site.open()
    before = await makers.submit(store, 3)
    site.time.set_by(-3_600)
    after = await makers.submit(other, 2)
    assert makers.ids_of(await makers.drain(other)) == before + after
    third = await site.open()
    more = await makers.submit(third)
    assert makers.ids_of(await makers.drain(store)) == more


async def test_a_retry_comes_after_its_delay_though_the_clock_was_set_back(site: Site) -> None:
    store = await site.open()
    ids = await makers.submit(store)
    await makers.retry(store, await makers.take_one(store), delay_s=30)
    site.time.set_by(-3_600)
    await makers.submit(store, tenant="other")
    site.time.wait(20)
    later = await makers.take_one(store)
    assert later.message.tenant == "other"
    await makers.retry(store, later, delay_s=30)
    site.time.wait(12)
    assert makers.ids_of(await makers.take(store)) == ids
    site.time.wait(20)
    assert makers.ids_of(await makers.take(await site.open())) == [later.message.id]


async def test_a_clock_that_is_set_back_and_right_again_is_followed(site: Site) -> None:
    store = await site.open()
    began_at = store.now()
    site.time.set_by(-600)
    site.time.wait(60)
    assert store.now() == began_at + 60_000
    site.time.set_by(700)
    assert store.now() == site.time.wall_ms == began_at + 160_000


async def test_small_corrections_of_the_clock_are_followed(site: Site) -> None:
    store = await site.open()
    site.time.set_by(-0.5)
    assert store.now() == site.time.wall_ms


async def test_a_machine_that_starts_with_an_older_clock_goes_on_from_where_the_file_stood(
    site: Site,
) -> None:
    store = await site.open()
    (message_id,) = await makers.submit(store)
    await makers.take_one(store)
    stood_at = store.now()
    site.time.set_by(-86_400)
    site.time.start_anew()
    again = await site.open()
    assert again.now() == stood_at
    assert await reclaim(again) == []
    site.time.wait(31)
    (lost,) = await reclaim(again)
    assert lost.message.id == message_id


async def test_where_a_boot_has_no_name_leases_go_by_the_clock_of_the_file(site: Site) -> None:
    site.time.boot = None
    store = await site.open()
    (message_id,) = await makers.submit(store)
    await makers.take_one(store)
    site.time.set_by(-3_600)
    assert await reclaim(store) == []
    site.time.wait(31)
    (lost,) = await reclaim(store)
    assert lost.message.id == message_id
    assert (await makers.account(store, message_id)).state is State.CLAIMED


def test_this_machine_tells_the_time() -> None:
    machine = this_machine()
    assert machine.wall_ms() > 1_700_000_000_000
    assert 0 < machine.up_ms() <= machine.up_ms()
