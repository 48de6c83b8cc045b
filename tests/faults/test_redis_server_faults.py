"""A Redis that forgets its scripts, stands still, is full, or is shared: work goes on and none is lost."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.faults.conftest import with_prefix
from tests.faults.ledger import Plan
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import RESUMED_S, bury, wait_recovery
from tests.faults.redis_server import FaultyRedis, open_redis
from tests.office.desks import desk, discard
from tests.waiting import wait_until

LEASE_S = 2.0
PAUSED_S = 1.5 * LEASE_S
FLUSHES = 40
LARGE = 40_000


async def test_scripts_forgotten_again_and_again_under_load_disturb_nobody(tmp_path: Path) -> None:
    async with open_redis(tmp_path) as server, open_site(tmp_path, server.url) as site:
        for _ in range(2):
            await site.start_worker(lease_s=5)
        submitter = site.start("submit", count=400, tasks=8, seed=1, pace_s=0.005)
        flushes = 0
        while submitter.running or flushes < FLUSHES:
            await _wait_handed(site, 5, submitter)
            await server.command("SCRIPT", "FLUSH")
            flushes += 1
        assert await submitter.ended() == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0
        print(f"{len(site.evidence.accepted)} accepted, {flushes} flushes")


async def test_a_server_that_stands_still_for_longer_than_a_lease_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """What was in flight may be handed over again, nothing else; then work goes on by itself."""
    async with open_redis(tmp_path) as server, open_site(tmp_path, server.url) as site:
        site.evidence.outages = True
        workers = [await site.start_worker(lease_s=LEASE_S) for _ in range(2)]
        submitter = site.start("submit", count=300, seed=2, pace_s=0.01)
        await _wait_handed(site, 60, submitter)
        await _stand_still(site, server, workers)
        with site.within(RESUMED_S, "work goes on"):
            await _wait_handed(site, 1, submitter)
        await wait_recovery(site, LEASE_S)
        assert await submitter.ended(40) == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert all(worker.running for worker in workers)


async def _stand_still(site: Site, server: FaultyRedis, workers: list[Child]) -> None:
    """Pause the server past every lease; the workers stand still only while what they held is looked at."""
    server.pause()
    ends_s = time.monotonic() + PAUSED_S
    await wait_until(lambda: time.monotonic() > ends_s, 30, "every lease is over")
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    server.resume()
    await site.note_kill()
    for worker in workers:
        worker.signal(signal.SIGCONT)


async def test_a_full_server_refuses_new_work_drains_what_it_has_and_accepts_again(tmp_path: Path) -> None:
    """The submitter is told that there is no room, and gets in by asking again once others have drained."""
    async with open_redis(tmp_path, maxmemory="12mb") as server, open_site(tmp_path, server.url) as site:
        options = {"mild": True, "padding": LARGE, "tasks": 4, "seed": 3}
        submitter = site.start("submit", count=400, **options)
        await site.wait_until(lambda: bool(site.submits("full")), "the server is full")
        refused = len(site.accepted())
        assert submitter.running
        await site.start_worker(lease_s=5, batch=100)
        await site.wait_until(lambda: len(site.accepted()) > refused, "it accepts again")
        assert await submitter.ended(40) == 0, submitter.errors
        await site.wait_idle()
        assert await site.violations() == []
        assert len(site.evidence.accepted) == 400
        print(f"full after {refused}, {len(site.submits('full'))} refusals")


async def test_letters_can_be_discarded_by_an_operation_when_memory_is_full(tmp_path: Path) -> None:
    """What makes room needs a record, a lease and rows of the audit first."""
    async with open_redis(tmp_path) as server, open_site(tmp_path, server.url) as site:
        store = site.app.store
        await bury(site, 3, Plan(permanent=1))
        await server.command("CONFIG", "SET", "maxmemory", "1mb")
        office = desk(store)
        started = await office.start(discard())
        assert (await office.wait(started.id)).moved == 3


async def test_two_stores_on_one_server_never_see_each_other(tmp_path: Path, redis_url: str) -> None:
    """One prefix begins with the other, so that a pattern too wide would show."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    prefix = f"shop-{time.monotonic_ns()}"
    first, second = with_prefix(redis_url, prefix), with_prefix(redis_url, f"{prefix}:orders")
    async with open_site(folders[0], first) as one, open_site(folders[1], second) as two:
        sites = (one, two)
        for site in sites:
            await site.start_worker(lease_s=5)
        submitters = [site.start("submit", count=120, seed=seed) for seed, site in enumerate(sites)]
        for submitter in submitters:
            assert await submitter.ended() == 0, submitter.errors
        for site in sites:
            await site.wait_idle()
            assert await site.violations() == []
            assert site.evidence.repeated == 0
        await _check_apart(one, two)


async def _check_apart(one: Site, two: Site) -> None:
    for site, other in ((one, two), (two, one)):
        begun = {line.id for line in site.handed("begin")}
        assert begun == site.evidence.accepted
        assert not begun & other.evidence.accepted
        for message_id in list(other.evidence.accepted)[:20]:
            assert await site.app.store.get(message_id) is None
        published = sum(queue.published for queue in await site.app.store.queues())
        assert published == len(site.evidence.accepted) - len(site.evidence.letters)


async def test_records_and_journals_of_two_prefixes_are_apart(tmp_path: Path, redis_url: str) -> None:
    prefix = f"shop-{time.monotonic_ns()}"
    first, second = with_prefix(redis_url, prefix), with_prefix(redis_url, f"{prefix}:orders")
    async with open_site(tmp_path, first) as one, open_site(tmp_path, second) as two:
        await one.app.store.put_record("note", "a", {"text": "ours"}, expected=0)
        await one.app.store.write_journal("audit", {"what": "ours"}, expected_head=0)
        assert await two.app.store.get_record("note", "a") is None
        assert await two.app.store.list_records("note") == []
        assert await two.app.store.read_journal("audit") == []
        assert await two.app.store.write_journal("audit", {"what": "theirs"}, expected_head=0) == 1


async def _wait_handed(site: Site, count: int, submitter: Child) -> None:
    """Some more hand-overs, or none is left to come."""
    wanted = len(site.handed("begin")) + count

    def handed() -> bool:
        return not submitter.running or len(site.handed("begin")) >= wanted

    await wait_until(handed, 20, f"{count} more hand-overs")
