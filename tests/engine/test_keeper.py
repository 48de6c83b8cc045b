"""The thread that keeps leases outlives whatever its store does."""

from __future__ import annotations

from pathlib import Path

from redrive.core.store import Store
from redrive.engine.keeper import Keeper
from redrive.stores.sqlite import SqliteStore
from redrive.telemetry.door import Telemetry
from redrive.telemetry.events import Event, LeasesExtended, StoreBack, StoreTrouble
from tests.conformance import makers
from tests.stores.redis_server import opened
from tests.waiting import wait_until

LEASE_S = 6.0


async def test_a_store_that_cannot_be_opened_or_has_a_bug_is_opened_again_and_the_lease_is_kept(
    tmp_path: Path,
) -> None:
    told: list[Event] = []
    async with opened(SqliteStore(tmp_path / "redrive.db")) as store:
        await makers.submit(store)
        (delivery,) = await makers.take(store)
        troubles = [SqliteStore(tmp_path / "gone" / "redrive.db"), None]

        def twin() -> Store:
            if not troubles:
                return store.twin()
            found = troubles.pop(0)
            if found is None:
                raise ValueError("a bug")
            return found

        keeper = Keeper(
            twin,
            Telemetry([told.append]),
            lease_s=LEASE_S,
            stuck_s=600.0,
            on_lost=lambda _: None,
            on_stuck=lambda: None,
        )
        keeper.start()
        keeper.hold(delivery.lease, 1, LEASE_S)
        await wait_until(lambda: StoreBack in map(type, told), 30, "it is back")
        assert keeper.holds(delivery.lease.token)
        await keeper.stop()
    extended = [event for event in told if isinstance(event, LeasesExtended)]
    assert extended
    assert [type(event) for event in told if event not in extended] == [StoreTrouble, StoreBack]
