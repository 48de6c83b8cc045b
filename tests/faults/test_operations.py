"""Operations on a thousand dead letters, conducted by workers that are killed at each step, or at odds.

Whatever is killed when, each letter is moved once, none is lost, the operation resumes by itself and the
audit has its rows once.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from pathlib import Path

from redrive.core.lifecycle import State
from redrive.office.operations import OperationState, Snapshot
from redrive.office.operations.records import LETTER_RECORDS, LIVE_RECORDS
from tests.conformance import makers
from tests.faults.ledger import Plan
from tests.faults.moved import check_audit, check_brought_back, told
from tests.faults.processes import Child, Site, open_site
from tests.faults.recovery import bury
from tests.office.desks import desk, discard, redrive

LETTERS = 1_000
CANARY = 5
LEASE_S = 2.0
CONDUCTOR_LEASE_S = 0.5
PASSES = Plan(permanent=1)
FAILS_AGAIN = Plan(permanent=2)

STEPS = (
    f"after:put_record/{LETTER_RECORDS}:1",
    "after:write_journal:1",
    "after:redrive:1",
    "after:redrive:2",
    "before:put_record/operation:1",
    "after:write_journal:1",
    f"before:delete_record/{LIVE_RECORDS}:1",
)
"""Freezing: a chunk is kept and not counted; the whole list is told and not noted. Canary and moving: letters
are moved and that is not noted, twice. Finishing: the outcome is told and not noted, then noted and not
taken off the list of what is to be done."""


async def test_a_redrive_killed_at_each_of_its_steps_moves_each_letter_once(
    tmp_path: Path, store_url: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        ids = await bury(site, LETTERS, PASSES)
        started = await desk(site.app.store).start(redrive(canary=CANARY))
        for point in STEPS:
            await _die(site, point)
        await _start_worker(site)
        seen = await _wait_told(site, started.id)
        await site.wait_idle()
        assert await site.violations() == []
        assert (seen.operation.state, seen.operation.frozen.total) == (OperationState.FINISHED, LETTERS)
        await check_brought_back(site, ids, [started.id])
        await check_audit(site.app.store, started.id)


async def test_two_operators_who_start_the_same_redrive_at_once_move_each_letter_once(
    tmp_path: Path, store_url: str
) -> None:
    async with open_site(tmp_path, store_url) as site:
        ids = await bury(site, LETTERS, PASSES)
        store = site.app.store
        started = await asyncio.gather(*(desk(store).start(redrive()) for _ in range(2)))
        for _ in range(2):
            await _start_worker(site)
        for one in started:
            seen = await _wait_told(site, one.id)
            assert seen.operation.state is OperationState.FINISHED
        await site.wait_idle()
        assert await site.violations() == []
        assert site.evidence.repeated == 0
        await check_brought_back(site, ids, [one.id for one in started])
        for one in started:
            await check_audit(store, one.id)


async def test_a_redrive_and_a_discard_of_the_same_letters_share_them_out(
    tmp_path: Path, store_url: str
) -> None:
    """Each letter is brought back and done, or taken away and never run, also with a kill in between."""
    async with open_site(tmp_path, store_url) as site:
        ids = await bury(site, LETTERS, PASSES)
        site.evidence.removable |= set(ids)
        store = site.app.store
        orders = (redrive(), discard())
        back, away = await asyncio.gather(*(desk(store).start(order) for order in orders))
        await _die(site, "after:remove:1")
        for _ in range(2):
            await _start_worker(site)
        for one in (back, away):
            await _wait_told(site, one.id)
        await site.wait_idle()
        assert await site.violations() == []
        states = Counter(account.state for account in site.evidence.accounts.values())
        assert states[State.DONE] == (await store.tally(back.id)).moved
        assert states[State.REMOVED] == (await store.tally(away.id)).moved
        assert states.keys() <= {State.DONE, State.REMOVED}
        assert states.total() == LETTERS
        for one in (back, away):
            await check_audit(store, one.id)


async def test_dead_redriven_failed_again_is_dead_again_and_can_be_brought_back_again(
    tmp_path: Path, store_url: str
) -> None:
    """One live letter for each generation, also when the worker dies on the way."""
    count = 50
    async with open_site(tmp_path, store_url) as site:
        ids = await bury(site, count, FAILS_AGAIN)
        store = site.app.store
        first = await desk(store).start(redrive(halt_share=1.0))
        await _die(site, "after:redrive:1")
        await _start_worker(site)
        await _wait_told(site, first.id)
        await site.wait_until(lambda: _are(site, ids, State.DEAD, 1), "all are dead again")
        tally = await store.tally(first.id)
        assert (tally.moved, tally.failed, tally.dead) == (count, count, count)
        second = await desk(store).start(redrive())
        await _wait_told(site, second.id)
        await site.wait_until(lambda: _are(site, ids, State.DONE, 2), "all are done")
        tally = await store.tally(second.id)
        assert (tally.moved, tally.passed, tally.done) == (count, count, count)
        assert await site.violations() == []
        for account in site.evidence.accounts.values():
            assert [one.operation for one in account.redrives] == [first.id, second.id]


async def _start_worker(site: Site) -> Child:
    return await site.start_worker(lease_s=LEASE_S, conductor_lease_s=CONDUCTOR_LEASE_S)


async def _die(site: Site, point: str) -> None:
    """A worker that conducts until it dies at this point."""
    worker = site.start("work", lease_s=LEASE_S, conductor_lease_s=CONDUCTOR_LEASE_S, die=point)
    assert await worker.ended(20) == -signal.SIGKILL, worker.errors
    await site.note_kill()


async def _wait_told(site: Site, operation_id: str) -> Snapshot:
    """The operation, once it has ended and its outcome stands in the audit."""
    await site.wait_until(lambda: told(site, operation_id), f"operation {operation_id} ends")
    return await desk(site.app.store).show(operation_id)


async def _are(site: Site, ids: list[str], state: State, generation: int) -> bool:
    for start in range(0, len(ids), 500):
        accounts = await site.app.store.accounts(makers.QUEUE, ids[start : start + 500])
        if any((one.state, one.progress.generation) != (state, generation) for one in accounts):
            return False
    return True
